"""How a delivery moves in MongoDB: by compare-and-set, whatever people did meanwhile."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest
from engine import BODY, EVENT, deliveries_of, insert, service

from service.worker.deliveries.delivery import Delivery, DeliveryState, delivery_in
from service.worker.deliveries.service import ServiceState, document_of
from service.worker.deliveries.store import (
    Deliveries,
    Due,
    Move,
    move_each,
    note,
    read,
)
from service.worker.results.connection import Store
from tracking.request import MAIN

SHOP = service()
NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
(ONE,) = deliveries_of(SHOP, 1)
FAILED = replace(ONE, made=1, why="timeout", next_at=ONE.next_at + dt.timedelta(minutes=5))
TAKEN = replace(ONE, made=1, state=DeliveryState.DELIVERED, ended_at=NOW)


def stored(store: Store, **members: Any) -> None:
    insert(store, [replace(ONE, **members)])


def move(store: Store, was: Delivery, to: Delivery) -> None:
    move_each(store.deliveries, [Move(was, to)])


def now(store: Store) -> Delivery:
    return delivery_in(store.deliveries.find_one({"_id": ONE.id}) or {})


def test_a_delivery_moves_from_where_it_stands_and_repeating_that_changes_nothing(
    store: Store,
) -> None:
    stored(store)
    move(store, ONE, FAILED)
    assert now(store) == FAILED

    move(store, ONE, FAILED)
    assert now(store) == FAILED


@pytest.mark.parametrize("members", [{"round": 2, "round_from": 0}, {"made": 3}])
def test_a_delivery_that_stands_elsewhere_stays_there(
    store: Store, members: dict[str, Any]
) -> None:
    stored(store, **members)
    before = now(store)

    move(store, ONE, TAKEN)
    assert now(store) == before


@pytest.mark.parametrize("state", [DeliveryState.CANCELLED, DeliveryState.HELD])
def test_a_failure_only_counts_where_somebody_cancelled_or_held_meanwhile(
    store: Store, state: DeliveryState
) -> None:
    stored(store, state=state)

    move(store, ONE, FAILED)
    assert now(store) == replace(ONE, state=state, made=1, why="timeout")


def test_who_was_delivered_to_is_delivered_whatever_was_done_meanwhile(store: Store) -> None:
    stored(store, state=DeliveryState.CANCELLED)

    move(store, ONE, TAKEN)
    assert now(store) == TAKEN


def test_of_many_that_move_together_each_is_as_alone(store: Store) -> None:
    first, held, elsewhere = deliveries_of(SHOP, 3)
    insert(
        store,
        [first, replace(held, state=DeliveryState.HELD), replace(elsewhere, made=4)],
    )

    move_each(
        store.deliveries, [Move(each, replace(each, made=1)) for each in (first, held, elsewhere)]
    )

    moved = {each["_id"]: (each["state"], each["made"]) for each in store.deliveries.find()}
    assert moved == {first.id: ("open", 1), held.id: ("held", 1), elsewhere.id: ("open", 4)}


async def test_a_delivery_is_read_with_its_event_and_the_row_of_its_next_attempt(
    store: Store,
) -> None:
    deliveries = Deliveries(store)
    stored(store, made=2)
    assert await deliveries.read("nobody") is None
    found = await deliveries.read(ONE.id)
    assert found is not None
    assert (found.event, found.row) == ({}, None)

    event = {"_id": EVENT, "bodies": {"standard": BODY}}
    store.events.insert_one(event)
    for number in (2, 3):
        await deliveries.note({"_id": f"{ONE.id}.{number}", "ms": number})
    found = await deliveries.read(ONE.id)
    assert found is not None
    assert (found.event, found.row) == (event, {"_id": f"{ONE.id}.3", "ms": 3})


def test_the_row_of_an_attempt_is_written_once(store: Store) -> None:
    rows = [{"_id": f"{ONE.id}.1", "status": 200}, {"_id": f"{ONE.id}.2", "status": 200}]
    assert note(store.attempts, rows[:1]) == []

    assert note(store.attempts, [{**rows[0], "status": 500}, rows[1]]) == []
    assert list(store.attempts.find().sort("_id")) == rows


async def test_what_is_due_comes_by_its_instant_and_id_and_the_head_by_its_event(
    store: Store,
) -> None:
    first, second, third, fourth = deliveries_of(SHOP, 4, ago=600)
    late = replace(first, next_at=third.next_at)
    insert(store, [late, second, third, replace(fourth, state=DeliveryState.HELD)])

    asked = Due(store)
    found = await asked.due(SHOP.id, NOW, 10)
    assert found[0] == second
    assert [each.id for each in found[1:]] == sorted([late.id, third.id])
    assert await asked.due(SHOP.id, NOW, 1, [second.id]) == found[1:2]
    assert await asked.due(SHOP.id, second.next_at, 10) == [second]
    assert await asked.head(SHOP.id, NOW) == late
    assert await asked.head(SHOP.id, first.made_at - dt.timedelta(seconds=1)) is None


@pytest.mark.usefixtures("unread_log")
async def test_a_document_that_somebody_else_wrote_keeps_no_delivery_back(store: Store) -> None:
    odd, good = deliveries_of(SHOP, 2, ago=600)
    insert(store, [odd, good])
    store.deliveries.update_one({"_id": odd.id}, {"$set": {"type": "of a later version"}})

    assert await Due(store).due(SHOP.id, NOW, 10) == [good]
    assert [found and found.delivery for found in read(store, [odd.id, good.id])] == [None, good]


async def test_another_one_comes_each_time_and_then_the_first_again(store: Store) -> None:
    some = deliveries_of(SHOP, 3)
    insert(store, some)

    after, found = "", list[str]()
    for _ in range(4):
        another = await Due(store).later_on(SHOP.id, after)
        assert another is not None
        found.append(after := another.id)
    assert found == [*sorted(each.id for each in some), min(each.id for each in some)]


async def test_services_are_found_by_one_delivery_that_is_due(store: Store) -> None:
    busy, idle, later = service(), service(), service()
    for each in (busy, idle, later):
        store.services.insert_one(document_of(each))
    insert(store, deliveries_of(busy, 3, ago=600))
    tomorrow = NOW + dt.timedelta(days=1)
    insert(store, [replace(each, next_at=tomorrow) for each in deliveries_of(later, 1)])
    insert(
        store,
        [replace(each, state=DeliveryState.HELD) for each in deliveries_of(idle, 1, ago=600)],
    )

    assert await Due(store).services_with_due([busy.id, idle.id, later.id], NOW) == {busy.id}
    assert await Due(store).services_with_due([idle.id, later.id], NOW) == frozenset()


async def test_an_accounts_services_are_found_without_a_look_at_others_or_deleted_ones(
    store: Store,
) -> None:
    await store.prepare()
    for slot, account in enumerate(("main", "acme", "shop")):
        ids = {"account": account, "slot": slot, "live": True}
        store.services.insert_one(document_of(service()) | ids)
    store.services.insert_one(document_of(service(state=ServiceState.DELETED)))

    for named in ({}, {"name": "shop"}):
        wanted = {"account": MAIN, **named, "state": {"$ne": ServiceState.DELETED.value}}
        told = store.services.find(wanted).explain()["executionStats"]
        assert (told["nReturned"], told["totalDocsExamined"]) == (1, 1)


async def test_bodies_go_by_their_date_and_deliveries_and_attempts_after_their_days(
    store: Store,
) -> None:
    await store.prepare()

    def expiring(attribute: str) -> dict[str, int]:
        found = store.named(attribute).index_information().items()
        return {
            name: spec["expireAfterSeconds"] for name, spec in found if "expireAfterSeconds" in spec
        }

    day = 86_400
    assert expiring("events") == {"until_1": 0}
    # The purge goes by the settings; this is for what it left for longer than anything is kept.
    assert expiring("deliveries") == {"ended_at_1": (90 + 30) * day}
    assert expiring("attempts") == {"at_1": 30 * day}
