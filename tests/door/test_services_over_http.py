"""`/v1/services`: made, changed, tested and deleted by their account, over HTTP."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aftership_ground import Bucket
from door_ground import Client, FixedKeys, refused
from operations_ground import acts, serving_all
from test_openapi import answered, commands
from webhook_ground import KEY, store_delivery, store_service, stored

from service.http.callers import Callers
from service.operator.keys import Scope
from service.worker.deliveries.delivery import DeliveryState
from service.worker.deliveries.service import ServiceState
from tracking.request import Account

PAGE = Path(__file__).parents[2] / "docs" / "webhooks.md"
ORDERS = {"name": "orders", "destination": "https://shop.example/hooks"}
ONE = "/v1/services/orders"


@pytest.fixture
def settings(settings: dict[str, str]) -> dict[str, str]:
    """With a key by which secrets are encrypted."""
    return settings | {"TRACKER_WEBHOOKS__KEYS": KEY}


async def made(api: Client, **members: Any) -> dict[str, Any]:
    response = await api.post("/v1/services", json=ORDERS | members)
    assert response.status == 201, await response.text()
    said: dict[str, Any] = await response.json()
    return said


async def listed(api: Client) -> list[dict[str, Any]]:
    said = await (await api.get("/v1/services")).json()
    found: list[dict[str, Any]] = said["services"]
    return found


async def test_a_service_is_made_as_the_settings_say_where_nothing_else_is_named(
    api: Client,
) -> None:
    response = await api.post("/v1/services", json=ORDERS)

    told = await response.json()
    assert (response.status, response.headers["Location"]) == (201, ONE)
    assert response.headers["Cache-Control"] == "no-store"
    assert told.pop("secret").startswith("whsec_")
    assert told.pop("hears_from") is None
    [now] = await listed(api)
    assert told == now
    whole = await (await api.get(ONE)).json()
    assert whole == now | {"open": 0, "held": 0, "failing_since": None, "days": [], "errors": []}
    assert now.pop("line").startswith("~")
    assert now.pop("made_at")
    assert now == ORDERS | {
        "events": [],
        "slugs": [],
        "tags": [],
        "headers": [],
        "format": "standard",
        "concurrent": 20,
        "per_second": 10,
        "attempts": 10,
        "timeout_seconds": 15.0,
        "ordered": False,
        "state": "active",
        "disabled_at": None,
        "disabled_why": "",
        "type": "webhook",
        "addresses": [],
        "ingest": None,
    }


async def test_its_secret_is_shown_once_and_is_not_readable_where_it_is_kept(
    api: Client, bucket: Bucket
) -> None:
    secret = (await made(api))["secret"]

    shown = [await (await api.get(each)).text() for each in ("/v1/services", ONE)]
    [kept] = bucket.services.find()
    assert secret.removeprefix("whsec_") not in "".join(shown) + repr(kept)
    assert secret not in repr(list(bucket.audit.find()))


async def test_what_is_named_is_set_and_of_headers_the_values_are_not_shown(api: Client) -> None:
    wishes = {
        "events": ["parcel.delivered"],
        "slugs": ["usps", "hkpost"],
        "tags": ["Delivered"],
        "format": "aftership",
        "concurrent": 3,
        "per_second": 4,
        "attempts": 5,
        "timeout_seconds": 6.0,
        "ordered": True,
    }
    told = await made(api, headers={"Authorization": "Bearer hush"}, **wishes)

    assert told["headers"] == ["Authorization"]
    assert told["slugs"] == ["hong-kong-post", "usps"]
    assert {name: told[name] for name in wishes} | {"slugs": wishes["slugs"]} == wishes
    assert "hush" not in await (await api.get(ONE)).text()


async def test_one_is_shown_with_what_waits_and_its_figures_of_the_last_days(
    api: Client, bucket: Bucket
) -> None:
    service, other = store_service(bucket), store_service(bucket, "bills")
    for state in (DeliveryState.OPEN, DeliveryState.OPEN, DeliveryState.HELD, DeliveryState.DEAD):
        store_delivery(bucket, service, state=state)
    store_delivery(bucket, other)
    at = dt.datetime(2026, 11, 25, 8, tzinfo=dt.UTC)
    bucket.services.update_one({"name": "orders"}, {"$set": {"health.failing_since": at}})
    today = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    for ago, parts in (
        (1, {"0800": {"attempts": 3, "failed": 1, "retried": 2}, "0810": {"delivered": 2}}),
        (40, {}),
    ):
        day = today - dt.timedelta(days=ago)
        named = {"day": day, "service": service.id, "account": "main"}
        bucket.statistics.insert_one(
            {"_id": f"{day:%Y-%m-%d}:~{service.id}", **named, "parts": parts}
        )

    told = await (await api.get(ONE)).json()

    assert (told["open"], told["held"]) == (2, 1)
    assert told["failing_since"] == "2026-11-25T08:00:00Z"
    [day] = told["days"]
    assert day == {
        "day": f"{today - dt.timedelta(days=1):%Y-%m-%dT00:00:00Z}",
        "delivered": 2,
        "dead": 0,
        "cancelled": 0,
        "attempts": 3,
        "failed": 1,
        "requests": 0,
        "completed": 0,
        "retried": 2,
    }


async def test_services_are_listed_by_name(api: Client) -> None:
    for name in ("orders", "bills"):
        await made(api, name=name)

    assert [each["name"] for each in await listed(api)] == ["bills", "orders"]


async def test_a_change_leaves_what_it_does_not_name(api: Client) -> None:
    before = await made(api, events=["parcel.changed"], per_second=3)

    response = await api.patch(ONE, json={"per_second": 7, "events": []})

    changed = {"per_second": 7, "events": []}
    del before["secret"], before["hears_from"]
    assert (response.status, await response.json()) == (200, before | changed)
    assert await listed(api) == [before | changed]


async def test_a_service_is_paused_and_made_active_also_where_it_was_disabled(
    api: Client, bucket: Bucket
) -> None:
    await made(api)
    paused = await (await api.patch(ONE, json={"state": "paused"})).json()
    since = {"disabled_at": dt.datetime.now(dt.UTC), "disabled_why": "gone"}
    bucket.services.update_one({}, {"$set": {"state": "disabled", **since}})
    disabled = await (await api.get(ONE)).json()
    active = await (await api.patch(ONE, json={"state": "active"})).json()

    assert [each["state"] for each in (paused, disabled, active)] == [
        "paused",
        "disabled",
        "active",
    ]
    assert (disabled["disabled_why"], bool(disabled["disabled_at"])) == ("gone", True)
    assert (active["disabled_why"], active["disabled_at"]) == ("", None)


async def test_what_waits_for_a_deleted_service_is_cancelled_and_its_name_is_free(
    api: Client, bucket: Bucket
) -> None:
    service = store_service(bucket)
    waits, held = (
        store_delivery(bucket, service, state=state)
        for state in (DeliveryState.OPEN, DeliveryState.HELD)
    )

    response = await api.delete(ONE)

    assert (response.status, await response.read()) == (204, b"")
    assert {stored(bucket, each).state for each in (waits, held)} == {DeliveryState.CANCELLED}
    await refused(await api.get(ONE), 404)
    await made(api)
    [old, new] = bucket.services.find()
    assert old["_id"] != new["_id"]


async def test_a_test_is_a_delivery_whose_body_says_that_it_is_one(api: Client) -> None:
    await made(api)

    response = await api.post(f"{ONE}/test")

    told = await response.json()
    assert (response.status, response.headers["Location"]) == (202, told["url"])
    delivery = await (await api.get(told["url"])).json()
    assert (delivery["service"], delivery["state"]) == ("orders", "open")
    assert '"test":true' in delivery["body"]


async def test_a_new_secret_is_shown_once_and_the_old_one_signs_on_for_a_day(
    api: Client, bucket: Bucket
) -> None:
    old = (await made(api))["secret"]

    response = await api.post(f"{ONE}/secret/rotate")

    told = await response.json()
    assert (response.status, response.headers["Cache-Control"]) == (200, "no-store")
    assert told["secret"].startswith("whsec_")
    assert told["secret"] != old
    left = dt.datetime.fromisoformat(told["old_ends_at"]) - dt.datetime.now(dt.UTC)
    assert dt.timedelta(hours=23, minutes=59) < left <= dt.timedelta(days=1)
    [kept] = bucket.services.find()
    assert [bool(each["ends_at"]) for each in kept["secrets"]] == [False, True]


async def test_a_name_that_is_taken_is_a_conflict(api: Client) -> None:
    await made(api)

    problem = await refused(await api.post("/v1/services", json=ORDERS), 409)

    assert "orders already" in problem["detail"]


async def test_who_made_too_many_today_hears_when_to_come_again(
    disk: Path, settings: dict[str, str]
) -> None:
    settings |= {"TRACKER_WEBHOOKS__MADE_A_DAY": "1"}
    async with serving_all(disk / "spool.sqlite", settings) as api:
        await made(api)
        response = await api.post("/v1/services", json=ORDERS | {"name": "bills"})

        await refused(response, 429)
        assert 0 < int(response.headers["Retry-After"]) <= 86_400


async def test_without_a_key_for_secrets_none_is_made_and_the_answer_says_what_is_missing(
    disk: Path, settings: dict[str, str]
) -> None:
    del settings["TRACKER_WEBHOOKS__KEYS"]
    async with serving_all(disk / "spool.sqlite", settings) as api:
        problem = await refused(await api.post("/v1/services", json=ORDERS), 503)

        assert "service key" in problem["detail"]
        assert await listed(api) == []


@pytest.mark.parametrize(
    ("members", "parameter"),
    [
        ({"name": "Orders"}, "name"),
        ({"name": "x" * 21}, "name"),
        ({"destination": "http://shop.example/"}, "destination"),
        ({"destination": "https://127.0.0.1/"}, "destination"),
        ({"destination": "https://user:pass@shop.example/"}, "destination"),
        ({"destination": 5}, "destination"),
        ({"events": ["parcel.moved"]}, "events"),
        ({"events": "parcel.changed"}, "events"),
        ({"slugs": ["nobody"]}, "slugs"),
        ({"tags": ["Lost"]}, "tags"),
        ({"headers": {"Host": "a"}}, "headers"),
        ({"format": "xml"}, "format"),
        ({"concurrent": 0}, "concurrent"),
        ({"per_second": 1.5}, "per_second"),
        ({"attempts": 1_000}, "attempts"),
        ({"timeout_seconds": 16}, "timeout_seconds"),
        ({"state": "paused"}, "state"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_a_member_that_is_wrong_is_named_and_nothing_is_made(
    api: Client, members: dict[str, Any], parameter: str
) -> None:
    problem = await refused(await api.post("/v1/services", json=ORDERS | members), 422)

    assert problem["parameter"] == parameter
    assert await listed(api) == []


async def test_a_change_that_is_wrong_or_names_nothing_changes_nothing(api: Client) -> None:
    await made(api)
    [before] = await listed(api)

    for wishes in (
        {},
        {"state": "disabled"},
        {"name": "bills"},
        {"destination": "ftp://a.example"},
    ):
        await refused(await api.patch(ONE, json=wishes), 422)

    assert await listed(api) == [before]


@pytest.fixture
async def of_two(
    disk: Path, settings: dict[str, str]
) -> AsyncIterator[tuple[Client, dict[str, str], dict[str, str]]]:
    """All routes, with a key of `main` and one of `shop`."""
    keys, scopes = FixedKeys(), (Scope.READ, Scope.HOOKS)
    main, shop = ({"as-api-key": keys.make(each, *scopes)} for each in ("main", "shop"))
    async with serving_all(disk / "spool.sqlite", settings, callers=Callers(keys, 1_000.0)) as api:
        yield api, main, shop


async def test_another_account_s_service_is_not_there(
    of_two: tuple[Client, dict[str, str], dict[str, str]], bucket: Bucket
) -> None:
    api, main, shop = of_two
    service = store_service(bucket)
    problems = [
        await refused(await api.request(method, path, headers=shop, json=body), 404)
        for method, path, body in (
            ("GET", ONE, None),
            ("PATCH", ONE, {"state": "paused"}),
            ("DELETE", ONE, None),
            ("POST", f"{ONE}/test", None),
            ("POST", f"{ONE}/secret/rotate", None),
            ("GET", "/v1/services/never", None),
        )
    ]

    assert problems == [problems[0]] * len(problems)
    assert (await (await api.get("/v1/services", headers=shop)).json())["services"] == []
    assert (await api.get(ONE, headers=main)).status == 200
    [kept] = bucket.services.find()
    assert (kept["_id"], kept["state"]) == (service.id, ServiceState.ACTIVE)


async def test_two_accounts_may_use_one_name(
    of_two: tuple[Client, dict[str, str], dict[str, str]], bucket: Bucket
) -> None:
    api, main, shop = of_two
    bucket.accounts.insert_one({"_id": "shop"})
    store_service(bucket, "bills", account=Account("shop"))

    for key in (main, shop):
        assert (await api.post("/v1/services", json=ORDERS, headers=key)).status == 201

    assert len((await (await api.get("/v1/services", headers=shop)).json())["services"]) == 2


async def test_making_and_changing_needs_hooks_and_read(
    disk: Path, settings: dict[str, str], bucket: Bucket
) -> None:
    keys = FixedKeys()
    store_service(bucket)
    async with serving_all(disk / "spool.sqlite", settings, callers=Callers(keys, 1_000.0)) as api:
        for scopes in ([Scope.READ], [Scope.HOOKS], [Scope.INGEST, Scope.ADMIN]):
            key = {"as-api-key": keys.make("main", *scopes)}
            looking = 200 if Scope.READ in scopes else 403
            assert (await api.get(ONE, headers=key)).status == looking
            for method, path, body in (
                ("POST", "/v1/services", ORDERS | {"name": "bills"}),
                ("PATCH", ONE, {"state": "paused"}),
                ("DELETE", ONE, None),
                ("POST", f"{ONE}/test", None),
                ("POST", f"{ONE}/secret/rotate", None),
            ):
                await refused(await api.request(method, path, headers=key, json=body), 403)

    [kept] = bucket.services.find()
    assert (kept["state"], bucket.audit.count_documents({})) == ("active", 0)


async def test_each_act_is_recorded_with_the_key_by_which_it_was_done(
    of_two: tuple[Client, dict[str, str], dict[str, str]], bucket: Bucket
) -> None:
    api, main, _ = of_two
    await api.post("/v1/services", json=ORDERS, headers=main)
    await api.patch(ONE, json={"state": "paused"}, headers=main)
    await api.post(f"{ONE}/test", headers=main)
    await api.post(f"{ONE}/secret/rotate", headers=main)
    await api.delete(ONE, headers=main)

    assert {each[0] for each in acts(bucket)} == {main["as-api-key"][:15]}
    assert [each[1] for each in acts(bucket)] == [
        "service make",
        "service change",
        "service test",
        "service secret rotate",
        "service delete",
    ]
    assert {each["via"] for each in bucket.audit.find()} == {"http"}


async def test_every_curl_command_is_answered_as_the_page_says(api: Client) -> None:
    delivery = "DELIVERY"
    typed = 0
    for words, status in commands(PAGE.read_text("utf-8")):
        line = [word.replace("DELIVERY", delivery) for word in words]

        found, text = await answered(api, line)

        assert str(found).startswith(status), f"{line}: {text}"
        typed += 1
        if words[-1].endswith("/test"):
            delivery = json.loads(text)["delivery"]
    assert typed > 10


async def test_a_relay_is_made_over_http_and_shows_no_token(api: Client) -> None:
    ingest = {"handshake": "meta", "verify_token": "token-4711", "dedupe_header": "X-Event"}

    told = await made(api, type="relay", ingest=ingest)
    refusal = await api.patch(ONE, json={"events": ["parcel.changed"]})
    changed = await (await api.patch(ONE, json={"ingest": {"status": 200}})).json()

    [now] = await listed(api)
    assert now["type"] == "relay"
    assert [each.startswith("http://127.0.0.1:8081/in/main-orders-") for each in now["addresses"]]
    assert now["ingest"]["verify_token"] is True
    assert "token-4711" not in str(told) + str(now)
    assert refusal.status == 422
    assert (await refusal.json())["parameter"] == "events"
    assert changed["ingest"] == now["ingest"]
    assert (changed["ingest"]["status"], changed["ingest"]["handshake"]) == (200, "meta")


async def test_what_is_wrong_of_ingest_is_named_as_a_parameter(api: Client) -> None:
    response = await api.post("/v1/services", json=ORDERS | {"ingest": {"status": 200}})

    assert response.status == 422
    assert (await response.json())["parameter"] == "ingest"
