"""Subscriptions, lines of services and what keeps them, on a real MongoDB and Redis."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from limits.admin.line_scripts import newest_revision
from service.config.schema import Config, Webhooks, silence_seconds
from service.worker.deliveries.delivery import Delivery, DeliveryState
from service.worker.deliveries.delivery import document_of as delivery_document
from service.worker.deliveries.ingest_label import IngestLabel
from service.worker.deliveries.keeper import Bounds, Keeper
from service.worker.deliveries.lines import ServiceLines
from service.worker.deliveries.service import (
    Ingest,
    Service,
    ServiceState,
    ServiceType,
    Wanted,
    document_of,
    new_service_id,
)
from service.worker.deliveries.subscriptions import Keeping, Subscriptions, announce
from service.worker.results.change import EventName
from service.worker.results.connection import Store
from tracking.line import service_line
from tracking.request import MAIN, Account

NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
SHOP = Account("shop")
CONFIG = Config()

Add = Callable[..., Service]


@pytest.fixture
def add(store: Store) -> Add:
    def add_one(name: str = "erp", account: Account = MAIN, **members: Any) -> Service:
        members = {"destination": "https://a.example/", "secrets": (), "headers": {}, **members}
        added = Service(new_service_id(), account, name, made_at=NOW, **members)
        store.services.insert_one(document_of(added))
        return added

    return add_one


@pytest.fixture
async def known(store: Store) -> Subscriptions:
    return Subscriptions(store)


def delete(store: Store, service: Service, ago: float = 0.0) -> None:
    deleted_at = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=ago)
    gone = {"state": "deleted", "deleted_at": deleted_at}
    store.services.update_one({"_id": service.id}, {"$set": gone})


def test_every_account_is_heard_until_services_are_known(known: Subscriptions) -> None:
    assert known.hears(MAIN)
    assert known.hears(SHOP)
    assert known.revision == 0


async def test_an_account_is_heard_that_has_a_service_for_its_parcels(
    known: Subscriptions, add: Add
) -> None:
    add("ends", Account("one"), wanted=Wanted(frozenset({EventName.OPERATION_ENDED})))
    add("some", Account("two"), wanted=Wanted(frozenset({EventName.PARCEL_EXPIRED})))
    add("off", Account("three"), state=ServiceState.DISABLED)

    await known.learn()

    heard = [known.hears(Account(name)) for name in ("main", "one", "two", "three")]
    assert heard == [False, False, True, True]


async def test_relay_and_courier_services_hear_of_no_event(known: Subscriptions, add: Add) -> None:
    kinds = (ServiceType.RELAY, ServiceType.COURIER)
    added = [add(each.value, type=each, ingest=Ingest(random=each.value)) for each in kinds]
    add("off", type=ServiceType.RELAY, ingest=Ingest(random="off"), state=ServiceState.PAUSED)

    await known.learn()

    assert not known.hears(MAIN)
    assert known.of(MAIN) == ()
    assert known.named(MAIN, "relay") is None
    labels = [IngestLabel(MAIN, each, each) for each in ("relay", "courier", "off")]
    assert [known.active(each) for each in labels] == [*added, None]
    assert {each.name for each in known.all()} == {"relay", "courier", "off"}


async def test_services_are_found_by_account_name_and_line(
    known: Subscriptions, add: Add, store: Store
) -> None:
    erp, crm, other = add("erp"), add("crm"), add("erp", SHOP)
    delete(store, crm)

    await known.learn()

    assert list(known.of(MAIN)) == [erp]
    assert known.named(SHOP, "erp") == other
    assert known.named(MAIN, "crm") is None
    assert known.by_line(erp.line) == erp
    assert known.by_line(crm.line) is None
    assert sorted(each.id for each in known.all()) == sorted([erp.id, other.id])


async def test_a_document_that_cannot_be_read_leaves_the_others_known(
    known: Subscriptions, add: Add, store: Store
) -> None:
    erp = add()
    store.services.insert_one({**document_of(erp), "_id": "new", "events": ["parcel.lost"]})
    store.services.insert_one({"_id": "x"})

    await known.learn()

    assert list(known.all()) == [erp]


async def test_a_time_out_above_what_is_set_now_is_as_long_as_that(store: Store, add: Add) -> None:
    add(timeout_seconds=20.0)
    known = Subscriptions(store, timeout_most=5.0)

    await known.learn()

    assert known.named(MAIN, "erp").timeout_seconds == 5.0  # type: ignore[union-attr]
    assert known.longest_seconds == 10.0


async def test_an_announced_change_is_one_of_rules(
    store: Store, redis: Redis, known: Subscriptions, add: Add
) -> None:
    await known.learn()
    erp = add()

    await announce(store, redis, erp.line)
    await known.look()

    assert known.revision == await newest_revision(redis) == 1
    assert known.named(MAIN, "erp") == erp


async def test_nothing_is_read_again_while_nothing_was_changed(
    known: Subscriptions, add: Add
) -> None:
    await known.look()
    add()

    await known.look()

    assert not known.all()


async def test_the_rules_of_a_line_are_those_of_its_service_and_the_same_until_it_is_changed(
    store: Store, known: Subscriptions, add: Add
) -> None:
    erp = add(concurrent=3, per_second=7, timeout_seconds=2.0)
    lines = ServiceLines(CONFIG, known)
    await known.learn()
    before = lines.rules_of(erp.line)
    await known.learn()
    same = lines.rules_of(erp.line)

    store.services.update_one({"_id": erp.id}, {"$set": {"concurrent": 4, "ordered": True}})
    await known.learn()
    after = lines.rules_of(erp.line)

    assert (before.concurrent, before.per_second, before.max_waiting) == (3, 7, 146)
    assert before.kind.name == "delivery"
    assert before.call_timeout_seconds == 7.0
    assert before.lease_seconds - before.call_timeout_seconds >= silence_seconds(CONFIG)
    assert same is before
    assert after.concurrent == 1


def test_a_line_that_is_not_known_goes_by_the_configuration(known: Subscriptions) -> None:
    config = Config(webhooks=Webhooks(concurrent=4, per_second=5))
    lines = ServiceLines(config, known)

    rules = lines.rules_of(service_line("a" * 16))

    assert (rules.concurrent, rules.per_second) == (4, 5)
    assert not lines.known()


async def test_the_line_of_a_deleted_service_is_known_and_wide_until_it_is_cleared(
    store: Store, known: Subscriptions, add: Add
) -> None:
    erp, new = add(per_second=1), add("crm")
    delete(store, erp, ago=61)
    delete(store, new)
    lines = ServiceLines(CONFIG, known)
    await known.learn()
    before = set(lines.known()), set(lines.removed())
    wide = lines.rules_of(erp.line)

    lines.cleared(erp.line)
    lines.cleared(new.line)

    assert before == ({erp.line, new.line},) * 2
    assert wide.per_second > 100
    # Another process may not have heard of the new one yet.
    assert list(lines.removed()) == list(lines.known()) == [new.line]


async def test_what_a_deleted_service_left_is_ended_and_nobody_reads_it_again(
    store: Store, known: Subscriptions, add: Add
) -> None:
    erp, crm = add(), add("crm")
    for number, (service, state) in enumerate(
        [(erp, "open"), (erp, "held"), (erp, "delivered"), (crm, "open")]
    ):
        each = Delivery(str(number), service.id, MAIN, "e", EventName.PARCEL_CHANGED, NOW, NOW)
        store.deliveries.insert_one({**delivery_document(each), "state": state})
    delete(store, erp, ago=61)
    keeping = Keeping(store, known.leftovers, known.learn)

    await keeping.look()
    await Keeper(store, Bounds(), known.learn).look()
    states = [each["state"] for each in store.deliveries.find().sort("_id")]
    still = list(known.leftovers.lines())
    known.leftovers.clear(erp.line)
    await keeping.look()
    await known.learn()

    assert states == ["cancelled", "cancelled", "delivered", DeliveryState.OPEN]
    assert still == [erp.line]
    assert not known.leftovers.lines()
    assert store.services.find_one({"_id": erp.id})["cleared_at"]  # type: ignore[index]
    assert list(known.all()) == [crm]


async def test_there_are_none_once_that_is_known_and_a_deleted_one_left_nothing(
    store: Store, known: Subscriptions, add: Add
) -> None:
    unknown = known.are_none
    await known.learn()
    of_nobody = known.are_none
    erp = add()
    await known.learn()
    of_one = known.are_none
    delete(store, erp)
    await known.learn()
    of_a_deleted_one = known.are_none
    store.services.update_one({"_id": erp.id}, {"$set": {"cleared_at": NOW}})
    await known.learn()

    assert (unknown, of_nobody, of_one, of_a_deleted_one) == (False, True, False, False)
    assert known.are_none


async def test_a_deleted_service_is_read_until_none_of_its_deliveries_is_open(
    store: Store, known: Subscriptions, add: Add
) -> None:
    erp = add()
    delete(store, erp, ago=61)
    late = Delivery("late", erp.id, MAIN, "e", EventName.PARCEL_CHANGED, NOW, NOW)
    store.deliveries.insert_one(delivery_document(late))
    keeping = Keeping(store, known.leftovers, known.learn)
    await known.learn()

    known.leftovers.clear(erp.line)
    await keeping.look()

    assert "cleared_at" not in (store.services.find_one({"_id": erp.id}) or {})
