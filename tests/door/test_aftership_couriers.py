"""AfterShip's envelope and its couriers, as the SDKs read them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from aftership_ground import answer_of, refusal_of
from door_ground import CATALOGUE, Client, FixedKeys
from operations_ground import serving_all

from service.api.aftership.couriers import detected, named, shown
from service.api.aftership.envelope import rate_headers, type_of
from service.api.callers import Allowance, Callers
from service.client.keys import Scope
from service.client.shipments import AFTERSHIP_NAMES, fields_of
from tracking.request import FIELDS, Slug

COURIERS = "/tracking/2026-07/couriers"
DETECT = f"{COURIERS}/detect"


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "BadRequest"),
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (413, "BadRequest"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "InternalError"),
    ],
)
def test_every_status_has_the_type_from_which_the_sdks_choose_an_error(
    status: int, name: str
) -> None:
    assert type_of(status) == name


def test_rate_headers_tell_the_limit_of_a_second_what_is_left_and_when_all_of_it_is_back() -> None:
    allowance = Allowance(10.0, 0.0)
    for _ in range(15):
        allowance.wait(0.0)

    assert rate_headers(allowance.rate_limit_status(0.1), now=1000.2) == {
        "X-RateLimit-Limit": "10",
        "X-RateLimit-Remaining": "6",
        "X-RateLimit-Reset": "1001",
    }
    assert allowance.rate_limit_status(60.0)[:2] == (10, 10)


def test_every_field_of_requests_has_a_name_in_aftership() -> None:
    assert set(AFTERSHIP_NAMES) == set(FIELDS)


def test_what_couriers_want_is_taken_out_of_what_aftership_calls_otherwise() -> None:
    words = {
        "destination_postal_code": "8000",
        "tracking_ship_date": "2026-05-04T08:00:00+02:00",
        "origin_country_region": "",
        "title": "a",
    }

    assert fields_of(words) == {"tracking_postal_code": "8000", "tracking_ship_date": "20260504"}
    assert fields_of({"tracking_ship_date": "20260504"}) == {"tracking_ship_date": "20260504"}


def test_a_courier_names_what_it_requires_as_aftership_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CATALOGUE, "required_fields", lambda _: ("tracking_postal_code",))

    [courier] = shown(CATALOGUE, [Slug("postnl")])["couriers"]

    assert (courier["slug"], courier["name"]) == ("postnl", "PostNL")
    assert courier["required_fields"] == ["destination_postal_code"]


def test_couriers_are_named_by_any_of_their_names_and_active_ones_have_credentials() -> None:
    assert named(CATALOGUE, ["hkpost", "ups", "nobody"], active=False) == ["hong-kong-post", "ups"]
    assert named(CATALOGUE, [], active=False) == list(CATALOGUE.slugs)
    assert "ups" not in named(CATALOGUE, [], active=True)  # nobody gave any


def test_the_likeliest_courier_comes_first_and_none_that_nobody_can_ask() -> None:
    assert detected(CATALOGUE, "1Z12345E0205271688", [])[0] == "ups"
    assert detected(CATALOGUE, "1Z12345E0205271688", ["usps"]) == []
    assert "amazon" not in detected(CATALOGUE, "TBA123456789012", [])


async def test_couriers_are_listed_in_the_envelope(api: Client) -> None:
    for path in (COURIERS, f"{COURIERS}/all", "/tracking/2025-07/couriers"):
        data = await answer_of(await api.get(path))
        assert data["total"] == len(data["couriers"]) == len(CATALOGUE.slugs)

    data = await answer_of(await api.get(f"{COURIERS}?slug=ups,usps"))
    assert [each["slug"] for each in data["couriers"]] == ["ups", "usps"]


async def test_a_courier_is_detected(api: Client) -> None:
    data = await answer_of(await api.post(DETECT, json={"tracking_number": "1Z12345E0205271688"}))

    assert data["couriers"][0]["slug"] == "ups"


async def test_a_body_that_is_wrong_is_refused_with_aftership_s_code(api: Client) -> None:
    headers = {"Content-Type": "application/json"}
    for body, code in (
        (b"{", 4001),
        (b"[]", 4001),
        (b'{"tracking_number": "\\ud800"}', 4001),
        (b"{}", 4007),
        (b'{"tracking_number": 5}', 4005),
        (b'{"tracking_number": "!"}', 4005),
        (b'{"tracking_number": "9405", "slug": [1]}', 4008),
    ):
        meta = await refusal_of(await api.post(DETECT, data=body, headers=headers), 400)
        assert (meta["code"], meta["type"]) == (code, "BadRequest"), body


async def test_what_is_not_offered_says_so_in_the_envelope(api: Client) -> None:
    for path, instead in {
        "courier-connections": "config.toml",
        "estimated-delivery-date/predict": "predicted",
        "notifications/1": "notified",
    }.items():
        response = await api.post(f"/tracking/2026-07/{path}", json={})
        meta = await refusal_of(response, 403)
        assert (meta["code"], meta["type"]) == (403, "Forbidden")
        assert instead in meta["message"]

    assert (await refusal_of(await api.get("/tracking/2026-07/no"), 404))["type"] == "NotFound"
    old = await refusal_of(await api.get("/tracking/2019-01/couriers"), 404)
    assert "2026-07" in old["message"]


async def test_whatever_ends_a_request_early_is_told_in_the_envelope(
    disk: Path, settings: dict[str, str]
) -> None:
    keys = FixedKeys()
    writer = {"as-api-key": keys.make("main", Scope.INGEST)}
    reader = {"as-api-key": keys.make("main", Scope.READ)}
    callers = Callers(keys, 1.0, clock=lambda: 0.0)
    async with serving_all(disk / "spool.sqlite", settings, callers=callers) as api:
        meta = await refusal_of(await api.get(COURIERS), 401)
        assert (meta["code"], meta["type"]) == (401, "Unauthorized")
        assert (await refusal_of(await api.get(COURIERS, headers=writer), 403))["code"] == 403
        text = {**reader, "Content-Type": "text/plain"}
        assert (await refusal_of(await api.post(DETECT, data=b"{}", headers=text), 415))["code"]

        good = await api.get(COURIERS, headers=reader)
        assert good.headers["X-RateLimit-Limit"] == "1"
        assert good.headers["X-RateLimit-Remaining"] == "0"
        limited = await api.get(COURIERS, headers=reader)
        meta = await refusal_of(limited, 429)
        assert (meta["code"], meta["type"]) == (429, "TooManyRequests")
        assert limited.headers["Retry-After"] == "1"
        assert limited.headers["X-RateLimit-Remaining"] == "0"


async def test_a_body_that_is_too_large_and_a_strange_method_are_told_in_the_envelope(
    api: Client,
) -> None:
    large = io.BytesIO(json.dumps({"tracking_number": "1" * (1 << 20)}).encode())
    headers = {"Content-Type": "application/json"}

    assert (await refusal_of(await api.post(DETECT, data=large, headers=headers), 413))["code"]
    assert (await refusal_of(await api.patch(COURIERS), 404))["type"] == "NotFound"
