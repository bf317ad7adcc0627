"""`/v1/deliveries`: listed, shown with what was tried, resent and cancelled by their account."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from aftership_ground import Bucket
from door_ground import NOWHERE, Client, jobs_in, refused
from webhook_ground import (
    BODY,
    NOTED_AT,
    foreign,
    set_state,
    store_attempt,
    store_delivery,
    store_relay,
    store_relayed,
    store_service,
    stored,
)

from devstack.servers import Server
from service.config.schema import Beanstalkd, Config
from service.http import deliveries as routes
from service.operator import deliveries, delivery_acts
from service.operator.audit import Operator
from service.worker.deliveries.delivery import Delivery, DeliveryState
from service.worker.deliveries.service import ServiceState
from service.worker.results.change import EventName
from service.worker.tubes.envelope import DRAINS_TUBE
from tracking.request import MAIN

DEAD, HELD, OPEN = DeliveryState.DEAD, DeliveryState.HELD, DeliveryState.OPEN
DELIVERED, CANCELLED = DeliveryState.DELIVERED, DeliveryState.CANCELLED
ENDED: Mapping[str, Any] = {"made": 3, "ended_at": NOTED_AT, "why": "timeout"}


async def listed(api: Client, query: str = "") -> dict[str, Any]:
    response = await api.get(f"/v1/deliveries{query}")
    assert response.status == 200, await response.text()
    said: dict[str, Any] = await response.json()
    return said


async def resent(api: Client, **meant: Any) -> dict[str, Any]:
    response = await api.post("/v1/deliveries/resend", json=meant)
    assert response.status == 200, await response.text()
    said: dict[str, Any] = await response.json()
    return said


def recent(moment: dt.datetime) -> bool:
    return abs(dt.datetime.now(dt.UTC) - moment) < dt.timedelta(seconds=20)


async def test_deliveries_are_listed_page_by_page_those_of_the_newest_events_first(
    api: Client, bucket: Bucket
) -> None:
    service = store_service(bucket)
    made = [store_delivery(bucket, service, minutes // 2) for minutes in range(5)]

    first = await listed(api, "?limit=3")
    second = await listed(api, f"?limit=3&cursor={first['cursor']}")

    newest = sorted(made, key=lambda each: (each.made_at, each.id), reverse=True)
    found = [each["id"] for page in (first, second) for each in page["deliveries"]]
    assert found == [each.id for each in newest]
    assert second["cursor"] is None


async def test_a_delivery_is_listed_with_its_service_its_event_and_how_it_stands(
    api: Client, bucket: Bucket
) -> None:
    service = store_service(bucket)
    made = store_delivery(bucket, service, state=OPEN, made=1, why="timeout", operation="order-1")

    [told] = (await listed(api))["deliveries"]

    at = "2026-11-20T12:00:00Z"
    assert told == {
        "id": made.id,
        "service": "orders",
        "event": "parcel.changed",
        "event_id": made.event,
        "parcel": "usps:9405903699300184125060",
        "operation": "order-1",
        "state": "open",
        "why": "timeout",
        "made": 1,
        "round": 1,
        "made_at": at,
        "next_at": at,
        "ended_at": None,
    }


@pytest.mark.parametrize(
    "query",
    [
        "service=bills",
        "state=dead",
        "event=parcel.delivered",
        "parcel=ups:1Z12345E0205271688",
        "since=2026-11-20T12:09:00Z",
        "until=2026-11-20T11:59:00Z",
        "service=bills&state=dead&event=parcel.delivered&since=2026-11-20T13:09:00%2B01:00",
    ],
)
async def test_each_filter_leaves_only_what_agrees_with_it(
    api: Client, bucket: Bucket, query: str
) -> None:
    other = store_service(bucket)
    store_delivery(bucket, other)
    minutes = -10 if "until" in query else 10
    meant = store_delivery(
        bucket,
        store_service(bucket, "bills"),
        minutes,
        type=EventName.PARCEL_DELIVERED,
        state=DEAD,
        parcel="ups:1Z12345E0205271688",
    )

    assert [each["id"] for each in (await listed(api, f"?{query}"))["deliveries"]] == [meant.id]


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("service=nope", "service"),
        ("state=lost", "state"),
        ("event=parcel.moved", "event"),
        ("since=yesterday", "since"),
        ("since=0001-01-01T00:00:00%2B10:00", "since"),
        ("until=12", "until"),
        ("cursor=x", "cursor"),
        ("limit=0", "limit"),
        ("sevice=a", "sevice"),
    ],
)
async def test_a_filter_that_cannot_be_meant_is_named(
    api: Client, query: str, parameter: str
) -> None:
    problem = await refused(await api.get(f"/v1/deliveries?{query}"), 400)

    assert problem["parameter"] == parameter


async def test_one_is_shown_with_the_bytes_that_are_sent_and_what_each_attempt_was_answered(
    api: Client, bucket: Bucket
) -> None:
    made = store_delivery(bucket, store_service(bucket), made=2, state=OPEN)
    store_attempt(bucket, made, 1, status=None, failure="timeout", headers={}, body=b"")
    store_attempt(bucket, made, 2)
    store_attempt(bucket, made, 3, status=204, failure=None)  # stored, and not counted yet

    told = await (await api.get(f"/v1/deliveries/{made.id}")).json()

    assert json.loads(told["body"]) == BODY
    first, second, third = told["attempts"]
    assert (first["number"], first["status"], first["failure"]) == (1, None, "timeout")
    assert second == {
        "number": 2,
        "at": "2026-11-20T12:00:02Z",
        "ms": 42,
        "status": 500,
        "failure": "server_error",
        "headers": {"content-type": "text/plain"},
        "body": "out of order\\xff",
    }
    assert (third["number"], third["status"], third["failure"]) == (3, 204, None)


async def test_a_body_that_is_not_kept_any_more_is_null(api: Client, bucket: Bucket) -> None:
    made = store_delivery(bucket, store_service(bucket), body=False)

    told = await (await api.get(f"/v1/deliveries/{made.id}")).json()

    assert (told["body"], told["attempts"]) == (None, [])


async def test_of_a_deleted_service_deliveries_are_shown_with_the_name_that_it_had(
    api: Client, bucket: Bucket
) -> None:
    service = store_service(bucket)
    made = store_delivery(bucket, service, state=DELIVERED)
    set_state(bucket, service, ServiceState.DELETED)

    [told] = (await listed(api))["deliveries"]

    assert (told["id"], told["service"]) == (made.id, "orders")


@pytest.mark.parametrize("state", [DEAD, DELIVERED, CANCELLED, HELD])
async def test_what_is_resent_is_due_now_with_all_attempts_of_a_new_round(
    api: Client, bucket: Bucket, state: DeliveryState
) -> None:
    made = store_delivery(bucket, store_service(bucket), state=state, **ENDED)

    response = await api.post(f"/v1/deliveries/{made.id}/resend")

    told = await response.json()
    assert (response.status, told["state"], told["round"], told["made"]) == (202, "open", 2, 3)
    now = stored(bucket, made)
    assert (now.state, now.round, now.made, now.round_from) == (OPEN, 2, 3, 3)
    assert (now.why, now.ended_at, recent(now.next_at)) == ("", None, True)


async def test_an_open_one_that_is_resent_is_due_now_and_its_round_goes_on(
    api: Client, bucket: Bucket
) -> None:
    made = store_delivery(bucket, store_service(bucket), made=3, why="timeout")

    assert (await api.post(f"/v1/deliveries/{made.id}/resend")).status == 202

    now = stored(bucket, made)
    assert (now.state, now.round, now.made, now.round_from) == (OPEN, 1, 3, 0)
    assert (now.why, recent(now.next_at)) == ("timeout", True)


async def test_the_body_of_what_is_resent_is_kept_for_the_new_round(
    api: Client, bucket: Bucket
) -> None:
    made = store_delivery(bucket, store_service(bucket), state=DEAD, **ENDED)
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    bucket.events.update_one({"_id": made.event}, {"$set": {"until": soon}})

    await api.post(f"/v1/deliveries/{made.id}/resend")

    [event] = bucket.events.find()
    assert event["until"] > soon + dt.timedelta(days=30)


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (ServiceState.DISABLED, "make it active first"),
        (ServiceState.DELETED, "is deleted"),
    ],
)
async def test_to_a_service_that_takes_nothing_nothing_is_resent(
    api: Client, bucket: Bucket, state: ServiceState, why: str
) -> None:
    service = store_service(bucket)
    made = store_delivery(bucket, service, state=DEAD, **ENDED)
    set_state(bucket, service, state)

    problem = await refused(await api.post(f"/v1/deliveries/{made.id}/resend"), 409)

    assert why in problem["detail"]
    assert stored(bucket, made) == made


async def test_what_has_no_body_any_more_is_not_resent(api: Client, bucket: Bucket) -> None:
    made = store_delivery(bucket, store_service(bucket), state=DEAD, body=False, **ENDED)

    problem = await refused(await api.post(f"/v1/deliveries/{made.id}/resend"), 409)

    assert "not kept any more" in problem["detail"]
    assert stored(bucket, made) == made


@pytest.mark.parametrize("state", [OPEN, HELD])
async def test_what_is_cancelled_is_final_and_cancelling_twice_is_answered_alike(
    api: Client, bucket: Bucket, state: DeliveryState
) -> None:
    made = store_delivery(bucket, store_service(bucket), state=state, made=1)

    answers = [await api.post(f"/v1/deliveries/{made.id}/cancel") for _ in "12"]

    assert [each.status for each in answers] == [200, 200]
    first, second = [await each.json() for each in answers]
    assert first == second
    assert (first["state"], first["why"], first["next_at"]) == ("cancelled", "by_hand", None)
    now = stored(bucket, made)
    assert (now.state, now.round, now.made) == (CANCELLED, 1, 1)
    assert now.ended_at
    assert recent(now.ended_at)


@pytest.mark.parametrize("state", [DELIVERED, DEAD])
async def test_what_is_over_is_not_cancelled(
    api: Client, bucket: Bucket, state: DeliveryState
) -> None:
    made = store_delivery(bucket, store_service(bucket), state=state, **ENDED)

    await refused(await api.post(f"/v1/deliveries/{made.id}/cancel"), 409)

    assert stored(bucket, made) == made


async def test_what_an_attempt_changes_meanwhile_is_not_overwritten(
    api: Client, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = store_delivery(bucket, store_service(bucket))
    change = delivery_acts._changed  # noqa: SLF001 - an attempt ends right before it

    def ends_before(*args: Any) -> bool:
        arrived = {"state": "delivered", "made": 1, "ended_at": NOTED_AT}
        bucket.deliveries.update_one({"_id": made.id}, {"$set": arrived})
        return change(*args)

    monkeypatch.setattr(delivery_acts, "_changed", ends_before)

    await refused(await api.post(f"/v1/deliveries/{made.id}/cancel"), 409)

    assert (stored(bucket, made).state, stored(bucket, made).made) == (DELIVERED, 1)


async def test_what_is_made_due_by_hand_has_workers_look_at_its_line_at_once(
    whole: Client, bucket: Bucket, beanstalkd: Server
) -> None:
    shop, relay = store_service(bucket), store_relay(bucket, "relay")
    one = store_delivery(bucket, shop, state=HELD)
    relayed = store_relayed(bucket, relay, foreign(relay), state=DEAD)

    for path, body, wanted in (
        (f"deliveries/{one.id}/resend", {}, [shop]),
        (f"inbox/{relayed.id}/resend", {}, [relay]),
        (f"inbox/{relayed.id}/edit", {"body": "another"}, [relay]),
        ("deliveries/resend", {"state": "open"}, [shop, relay]),
        ("services/orders/test", {}, [shop]),
    ):
        response = await whole.post(f"/v1/{path}", json=body)
        assert response.status < 300, await response.text()
        put = [json.loads(each)["payload"] for each in jobs_in(beanstalkd, tube=DRAINS_TUBE)]
        assert sorted(each["line"] for each in put) == sorted(each.line for each in wanted), path


async def test_a_filter_resends_what_is_dead_or_held_and_nothing_else(
    api: Client, bucket: Bucket
) -> None:
    service = store_service(bucket)
    made = {state: store_delivery(bucket, service, state=state, made=2) for state in DeliveryState}

    told = await resent(api, service="orders")

    assert told == {"resent": 2, "failed": 0, "failures": [], "cursor": None}
    after = {state: stored(bucket, each) for state, each in made.items()}
    assert [after[each].round for each in (DEAD, HELD)] == [2, 2]
    assert {after[each].state for each in (DEAD, HELD)} == {OPEN}
    assert [after[each] for each in (OPEN, DELIVERED, CANCELLED)] == [
        made[each] for each in (OPEN, DELIVERED, CANCELLED)
    ]


async def test_a_filter_cancels_what_is_open_or_held_and_nothing_else(
    api: Client, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_acts, "BATCH_SIZE", 2)
    service, other = store_service(bucket), store_service(bucket, "other")
    made = {state: store_delivery(bucket, service, state=state, made=2) for state in DeliveryState}
    beside = store_delivery(bucket, other, state=OPEN)

    told = await (await api.post("/v1/deliveries/cancel", json={"service": "orders"})).json()
    again = await (await api.post("/v1/deliveries/cancel", json={"service": "orders"})).json()
    of_state = await (await api.post("/v1/deliveries/cancel", json={"state": "delivered"})).json()

    assert told == {"cancelled": 2, "failed": 0, "failures": [], "cursor": None}
    assert again == told | {"cancelled": 0}
    assert (of_state["cancelled"], of_state["failed"]) == (0, 1)
    assert "it has arrived" in of_state["failures"][0]["detail"]
    for state, one in made.items():
        after = stored(bucket, one)
        if state in {OPEN, HELD}:
            assert (after.state, after.why, recent(after.ended_at)) == (CANCELLED, "by_hand", True)
        else:
            assert after == one
    assert stored(bucket, beside) == beside


async def test_a_state_that_is_named_is_resent_from_a_time_on(api: Client, bucket: Bucket) -> None:
    service = store_service(bucket)
    old, new = (store_delivery(bucket, service, each, state=DELIVERED) for each in (0, 10))

    told = await resent(api, state="delivered", since="2026-11-20T12:05:00Z")

    assert told["resent"] == 1
    assert (stored(bucket, old).state, stored(bucket, new).state) == (DELIVERED, OPEN)


async def test_of_many_the_oldest_are_resent_first_and_the_cursor_names_where_to_go_on(
    api: Client, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_acts, "BATCH_SIZE", 2)
    monkeypatch.setattr(routes, "ACTED_MOST", 3)
    service = store_service(bucket)
    made = [store_delivery(bucket, service, minutes, state=HELD) for minutes in range(5)]
    bucket.events.delete_one({"_id": made[1].event})

    first = await resent(api, state="held")
    states = [stored(bucket, each).state for each in made]
    second = await resent(api, state="held", cursor=first["cursor"])

    assert (first["resent"], first["failed"], states) == (2, 1, [OPEN, HELD, OPEN, HELD, HELD])
    [failure] = first["failures"]
    assert (failure["id"], "not kept" in failure["detail"]) == (made[1].id, True)
    assert (second["resent"], second["failed"], second["cursor"]) == (2, 0, None)


async def test_which_are_resent_or_cancelled_must_be_said(api: Client, bucket: Bucket) -> None:
    made = store_delivery(bucket, store_service(bucket), state=DEAD)

    for meant in ({}, {"all": False}, {"all": True, "state": "dead"}):
        for act in ("resend", "cancel"):
            problem = await refused(await api.post(f"/v1/deliveries/{act}", json=meant), 422)
            assert problem["parameter"] == "all"
    assert stored(bucket, made) == made
    assert (await resent(api, all=True))["resent"] == 1


def held_ones(bucket: Bucket, count: int) -> list[Delivery]:
    service = store_service(bucket)
    return [store_delivery(bucket, service, each, state=HELD) for each in range(count)]


def test_an_act_on_many_stops_at_the_end_of_a_batch_once_its_time_is_over(
    bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_acts, "BATCH_SIZE", 2)
    made = held_ones(bucket, 5)

    services: Any = SimpleNamespace(config=Config(beanstalkd=Beanstalkd((NOWHERE,))), stores=bucket)
    came = delivery_acts.resend_all(services, Operator(), deliveries.Which(MAIN), 0.0)

    assert (came.done, came.behind) == (2, (made[1].made_at, made[1].id))
