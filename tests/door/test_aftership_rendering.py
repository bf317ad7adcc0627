"""Shipments, couriers and envelopes as AfterShip shows them, and what queries ask for."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

import pytest
from aftership_ground import answer_of, refusal_of
from door_ground import CATALOGUE, Client, FixedKeys
from operations_ground import serving_all

from couriers.reading import statuses
from service.http.aftership.couriers import detected, named, shown
from service.http.aftership.envelope import rate_headers, type_of
from service.http.aftership.reading import cursor_of, filters_of, page_of, position_of
from service.http.backend.shipments import AFTERSHIP_NAMES, Position, fields_of
from service.http.callers import Allowance, Callers
from service.http.exchange import Problem
from service.operator.keys import Scope
from service.worker.deliveries.aftership import (
    MESSAGES,
    VERSIONS,
    checkpoint,
    chosen,
    instant,
    tracking,
)
from service.worker.results.shipments import conditions
from tracking.checkpoint import Tag
from tracking.request import FIELDS, MAIN, Account, Slug

MADE = dt.datetime(2026, 5, 4, 8, 0, 1, 250_000, dt.UTC)


NOW = MADE + dt.timedelta(days=30)


SHOP = Account("shop")


def scan(day: int, tag: str, subtag: str, **more: Any) -> dict[str, Any]:
    told = f"2026-05-{day:02}T10:00:00"
    utc = dt.datetime(2026, 5, day, 10, tzinfo=dt.UTC)
    made = {"checkpoint_time": told, "checkpoint_utc": utc, "message": subtag}
    return made | {"tag": tag, "subtag": subtag, **more}


def shipment(stored: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    made = {
        "_id": "shop/0a",
        "slug": "usps",
        "number": "9405",
        "words": {},
        "completed": None,
        "created_at": MADE,
        "changed_at": MADE,
        "tag": (stored or {}).get("tag", "Pending"),
    }
    return made | ({"stored": stored} if stored else {}) | more


DELIVERED = {
    "tag": "Delivered",
    "subtag": "Delivered_003",
    "delivered": True,
    "active": False,
    "checkpoints": [
        scan(4, "InTransit", "InTransit_002"),
        scan(6, "AttemptFail", "AttemptFail_002"),
        scan(7, "Delivered", "Delivered_003"),
    ],
    "delivered_at": "2026-05-07T10:00:00",
    "delivered_at_utc": dt.datetime(2026, 5, 7, 10, tzinfo=dt.UTC),
    "expected_delivery": "2026-05-06",
    "signed_by": "J. Doe",
    "weight_grams": 1_250,
    "service": "Priority Mail",
    "proof_of_delivery": "https://example.com/pod",
    "tracked_count": 7,
}


def test_the_way_of_a_parcel_is_told_as_aftership_calls_it() -> None:
    told = tracking(shipment(DELIVERED), "2026-07", NOW)

    expected = {
        "id": "0a",
        "tag": "Delivered",
        "subtag": "Delivered_003",
        "active": False,
        "created_at": "2026-05-04T08:00:01+00:00",
        "shipment_pickup_date": "2026-05-04T10:00:00",
        "shipment_delivery_date": "2026-05-07T10:00:00",
        "transit_time": 3,
        "first_attempted_at": "2026-05-06T10:00:00",
        "failed_delivery_attempts": 1,
        "signed_by": "J. Doe",
        "shipment_weight": {"unit": "kg", "value": 1.25},
        "shipment_type": "Priority Mail",
        "proof_of_delivery": [{"url": "https://example.com/pod"}],
        "tracked_count": 7,
        "return_to_sender": False,
    }
    assert {name: told[name] for name in expected} == expected
    assert told["courier_estimated_delivery_date"]["estimated_delivery_date"] == "2026-05-06"
    assert [each["source"] for each in told["checkpoints"]] == ["carrier"] * 3


def test_a_parcel_of_which_nothing_is_stored_is_pending_and_active() -> None:
    told = tracking(shipment(), "2026-07", NOW)

    assert (told["tag"], told["subtag"], told["active"]) == ("Pending", "Pending_001", True)
    assert (told["title"], told["checkpoints"], told["transit_time"]) == ("9405", [], None)


def test_a_parcel_that_comes_back_says_so() -> None:
    back = DELIVERED | {"checkpoints": [scan(4, "Exception", "Exception_010")]}

    assert tracking(shipment(back), "2026-07", NOW)["return_to_sender"] is True


def test_the_days_of_a_parcel_on_its_way_are_counted_until_now() -> None:
    stored = {"tag": "InTransit", "checkpoints": [scan(4, "InTransit", "InTransit_002")]}

    assert tracking(shipment(stored), "2026-07", NOW)["transit_time"] == 29


def test_a_checkpoint_has_one_hash_however_often_it_is_shown() -> None:
    first, same = (
        checkpoint(scan(4, "InTransit", "InTransit_001"), "usps", version)
        for version in ("2026-07", "2026-01")
    )
    other = checkpoint(scan(5, "InTransit", "InTransit_001"), "usps", "2026-07")

    assert first["hash"] == same["hash"] != other["hash"]
    assert "hash" not in checkpoint(scan(4, "InTransit", "InTransit_001"), "usps", "2025-07")


def test_a_checkpoint_was_created_when_it_was_first_told() -> None:
    recorded = scan(4, "InTransit", "InTransit_001", recorded_at=NOW)

    assert checkpoint(recorded, "usps", "2026-07")["created_at"] == instant(NOW)
    assert (
        checkpoint(scan(4, "InTransit", "InTransit_001"), "usps", "2026-07")["created_at"] is None
    )


def test_the_version_of_april_2025_is_that_of_july() -> None:
    april, july = (tracking(shipment(DELIVERED), each, NOW) for each in ("2025-04", "2025-07"))

    assert april == july
    assert VERSIONS[-1] == "2025-04"


def test_every_subtag_of_a_courier_has_its_words_in_aftership() -> None:
    given_by_couriers = {
        each.subtag for each in vars(statuses).values() if isinstance(each, statuses.Status)
    }

    assert given_by_couriers <= set(MESSAGES)
    assert {each.split("_")[0] for each in MESSAGES} == set(Tag)


def test_only_the_wanted_fields_are_left_and_the_id() -> None:
    assert chosen({"id": "0a", "tag": "Pending", "title": "a"}, ["tag", "nothing"]) == {
        "id": "0a",
        "tag": "Pending",
    }
    assert chosen({"id": "0a"}, []) == {"id": "0a"}


@pytest.mark.parametrize(("account", "name"), [(MAIN, "0a"), (SHOP, "shop/0a")])
def test_a_cursor_brings_back_its_position(account: Account, name: str) -> None:
    for at in (MADE, MADE - dt.timedelta(days=30_000)):
        assert position_of(cursor_of(Position(at, name)), account) == Position(at, name)


@pytest.mark.parametrize(
    "written",
    ["", "5", "null", "[]", '["a", "b"]', "[1, 2]", "[1e999, 2]", "[true, 0]", '[1e3, "a"]',
     '[99999999999999999999, "a"]', r'[1, "\ud800"]', '{"a": 1, "b": 2}', "[" * 20_000, "\xff"],
)  # fmt: skip
def test_a_cursor_that_somebody_made_up_is_refused(written: str) -> None:
    made_up = base64.urlsafe_b64encode(written.encode("latin-1")).decode()

    for cursor in (made_up, f"é{made_up}", f"{made_up}="):
        with pytest.raises(Problem, match="cursor"):
            position_of(cursor, MAIN)


def test_a_cursor_of_another_account_is_a_position_among_ones_own() -> None:
    assert position_of(cursor_of(Position(MADE, "shop/0a")), Account("other")).name == "other/0a"


def found(**query: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return conditions(filters_of(query, SHOP, {"hkpost": "hong-kong-post"}.get))


def test_every_list_is_of_one_account_and_of_what_is_not_deleted() -> None:
    assert found() == ({"account": "shop", "deleted": False}, {})


def test_lists_of_values_are_looked_for_where_they_stand() -> None:
    own, whole = found(slug="hkpost,ups", order_id="7", tracking_numbers="a-b c", tag="Pending")

    assert own["slug"] == {"$in": ["hong-kong-post", "ups"]}
    assert own["words.order_id"] == {"$in": ["7"]}
    assert set(own["number"]["$in"]) == {"A-B C", "AB C", "ABC"}
    assert whole == {"tag": {"$in": ["Pending"]}}


def test_a_keyword_is_no_pattern() -> None:
    own, _ = found(keyword="a.*b")

    assert own["$or"][0] == {"number": {"$regex": r"a\.\*b", "$options": "i"}}


@pytest.mark.parametrize(
    "written",
    [
        "2026-05-04T10:00:01+02:00",
        "2026-05-04T10:00:01 02:00",  # nobody escaped the plus
        "2026-05-04T08:00:01Z",
        "2026-05-04T08:00:01",
    ],
)
def test_dates_are_read_in_every_form_and_without_a_zone_as_utc(written: str) -> None:
    own, whole = found(created_at_min=written, updated_at_max=written)

    at = dt.datetime(2026, 5, 4, 8, 0, 1, tzinfo=dt.UTC)
    assert own["created_at"] == {"$gte": at}
    assert whole["changed_at"] == {"$lte": at}


def test_a_page_has_a_hundred_unless_it_says_otherwise() -> None:
    assert page_of({}, MAIN).most == 100
    assert page_of({"limit": "200"}, MAIN).most == 200


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
