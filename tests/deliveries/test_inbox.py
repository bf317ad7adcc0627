"""The inbox: each way to ask for relayed requests goes by an index; old ones are purged."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from services_ground import NOW, SHOP, WHO
from webhook_ground import (
    NOTED_AT,
    foreign,
    store_attempt,
    store_delivery,
    store_relay,
    store_relayed,
)

from service.config.schema import Config
from service.operator.accounts import add_account, remove_account, set_inbox_keep_days
from service.operator.connections import Collections
from service.operator.deliveries import DeliveryState, Which, deliveries_of
from service.operator.purge import purge
from service.operator.service_view import whole_members
from service.operator.services import Services
from service.worker.deliveries.delivery import Delivery, delivery_in, document_of
from service.worker.deliveries.purging import RELAYED_DAYS, kinds_of_deliveries
from service.worker.deliveries.service import Service, ServiceType
from service.worker.deliveries.service import document_of as service_document
from service.worker.results import retention
from service.worker.results.change import EventName
from service.worker.results.connection import Store
from service.worker.results.database import FAILED, Names, indexes_for, make_indexes
from service.worker.results.retention import purge_some
from service.worker.upkeep.purge import Purge
from tracking.request import MAIN

RELAY_REQUEST = EventName.RELAY_REQUEST
STATES = (*["delivered"] * 17, "open", "dead", "cancelled")
PAGE = 50
ENDED = NOW - dt.timedelta(days=31)


def many_of(store: Collections, most: int) -> list[Service]:
    """So many relayed requests of three relays, beside as many deliveries of a webhook service."""
    relays = [store_relay(store, name) for name in ("shopify", "stripe", "github")]
    others = [store_relay(store, "theirs", account=SHOP)]
    webhooks = replace(relays[0], id="w" * 16, name="webhooks", type=ServiceType.WEBHOOK)
    store.services.insert_one(service_document(webhooks))
    make_indexes(store.deliveries, indexes_for(Names(""))["deliveries"])
    for begin in range(0, most, 5_000):
        batch: list[dict[str, Any]] = []
        for number in range(begin, min(most, begin + 5_000)):
            service = (*relays, *relays, *others)[number % 7]
            at = NOW - dt.timedelta(seconds=number)
            state = STATES[number % len(STATES)]
            made = Delivery(
                id=f"R{number:08}",
                service=service.id,
                account=service.account,
                event=f"E{number}",
                type=RELAY_REQUEST,
                made_at=at,
                next_at=at,
                state=DeliveryState(state),
                status=200 if state == "delivered" else 500 + number % 4,
                ended_at=None if state == "open" else at,
            )
            words = ["orders", "paid", f"n{number % 100}", f"id{number}"]
            batch.append(document_of(made) | {"words": words})
            noted = replace(made, id=f"W{number:08}", service=webhooks.id, account=MAIN)
            batch.append(document_of(replace(noted, type=EventName.PARCEL_CHANGED)))
        store.deliveries.insert_many(batch)
    return relays


def looks_at(store: Collections, which: Which) -> tuple[int, int, int]:
    """What MongoDB looked at for a page: index keys, documents, and how many it gave."""
    bucket = store.deliveries.database
    bucket["system.profile"].drop()
    bucket.command("profile", 2)
    deliveries_of(store, which, PAGE)
    bucket.command("profile", 0)
    wanted = {"ns": store.deliveries.full_name, "op": "query"}
    [found] = bucket["system.profile"].find(wanted)
    assert "IXSCAN" in found["planSummary"], found["planSummary"]
    assert not found.get("hasSortStage"), found["planSummary"]
    return found["keysExamined"], found["docsExamined"], found["nreturned"]


def each_way(relay: Service, most: int) -> Iterator[tuple[str, Which]]:
    """Each way to ask for a page of relayed requests."""
    all_of = Which(MAIN, event=RELAY_REQUEST)
    of = replace(all_of, service=relay.id)
    middle = NOW - dt.timedelta(seconds=most // 2)
    yield "all", all_of
    yield "until", replace(all_of, until=middle)
    yield "behind", replace(all_of, behind=(middle, "R"))
    yield "service", of
    yield "service until", replace(of, until=middle)
    yield "service behind", replace(of, behind=(middle, "R"))
    for word in ("", "of a service"):
        base = of if word else all_of
        yield f"state {word}", replace(base, state=DeliveryState.DEAD)
        yield f"state behind {word}", replace(base, state=DeliveryState.DEAD, behind=(middle, "R"))
        yield f"status {word}", replace(base, status=502)
        yield f"status behind {word}", replace(base, status=502, behind=(middle, "R"))
        yield f"word {word}", replace(base, words=("orders",))
        yield f"word behind {word}", replace(base, words=("orders",), behind=(middle, "R"))
        yield f"rare words {word}", replace(base, words=("orders", "paid", "n42"))
        yield f"words until {word}", replace(base, words=("n42", "orders"), until=middle)


@pytest.mark.parametrize("most", [2_000, pytest.param(100_000, marks=pytest.mark.prove)])
async def test_each_way_to_ask_for_a_page_looks_at_little_more_than_it_gives(
    store: Store, most: int
) -> None:
    relays = many_of(store, most)

    looked = {way: looks_at(store, which) for way, which in each_way(relays[0], most)}

    # Of each state of a service, and of each service, the index is asked once.
    asked = len(DeliveryState) * (len(relays) + 1)
    wide = {
        way: (keys, documents, given)
        for way, (keys, documents, given) in looked.items()
        if documents > 2 * given or keys > 2 * given + asked or not given
    }
    assert wide == {}


async def test_a_cursor_goes_through_thousands_and_shows_each_once(store: Store) -> None:
    many_of(store, 3_000)
    which, seen = Which(MAIN, event=RELAY_REQUEST), list[str]()

    while page := deliveries_of(store, which, 200):
        seen += [each.id for each in page]
        which = replace(which, behind=(page[-1].made_at, page[-1].id))

    wanted = [f"R{number:08}" for number in range(3_000) if number % 7 != 6]
    assert seen == wanted


def old(store: Any, relay: Service, days: float = 31, **members: Any) -> Delivery:
    """A relayed request that ended so many days ago, after one attempt and one not counted."""
    at = NOW - dt.timedelta(days=days)
    given = {"state": DeliveryState.DELIVERED, "made": 1, "ended_at": at, **members}
    made = store_relayed(store, relay, foreign(relay, received_at=at), **given)
    store_attempt(store, made, 1)
    store_attempt(store, made, 2)
    return made


def counts(store: Collections) -> list[int]:
    homes = (store.deliveries, store.events, store.attempts)
    return [home.count_documents({}) for home in homes]


async def test_what_was_kept_long_enough_goes_with_its_body_and_its_attempts(store: Store) -> None:
    relay = store_relay(store)
    for state in (DeliveryState.DELIVERED, DeliveryState.COMPLETED, DeliveryState.DEAD):
        old(store, relay, state=state)
    old(store, relay, state=DeliveryState.OPEN, ended_at=None)
    old(store, relay, days=29)

    await Purge(store, Names(""), ()).look()

    assert counts(store) == [2, 2, 4]
    assert {each["state"] for each in store.deliveries.find()} == {"open", "delivered"}


async def test_an_account_may_have_its_requests_kept_for_ninety_days(store: Store) -> None:
    add_account(store, SHOP)
    set_inbox_keep_days(store, WHO, SHOP, 90)
    theirs, ours = store_relay(store, account=SHOP), store_relay(store)
    kept, _, _ = old(store, theirs, 89), old(store, theirs, 91), old(store, ours, 31)

    await Purge(store, Names(""), ()).look()
    assert [each["_id"] for each in store.deliveries.find()] == [kept.id]

    set_inbox_keep_days(store, WHO, SHOP, None)
    await Purge(store, Names(""), ()).look()
    assert counts(store) == [0, 0, 0]


async def test_a_body_lives_as_long_as_its_request_may_be_sent_again(store: Store) -> None:
    made = old(store, store_relay(store), 0)
    [event] = store.events.find({"_id": made.event})

    assert event["until"] - event["at"] == dt.timedelta(days=RELAYED_DAYS)
    assert dt.timedelta(days=7 + 30 + 90) < dt.timedelta(days=RELAYED_DAYS)


async def test_webhooks_are_purged_by_their_own_days(store: Store) -> None:
    relay = store_relay(store)
    store_delivery(store, relay, ended_at=ENDED, state=DeliveryState.DELIVERED)
    keeps = Names("", deliveries_keep_days=40, inbox_keep_days=40)

    await Purge(store, keeps, ()).look()
    assert store.deliveries.count_documents({}) == 1
    await Purge(store, replace(keeps, deliveries_keep_days=30), ()).look()
    assert store.deliveries.count_documents({}) == 0


async def test_a_purge_goes_in_batches_and_looks_at_nothing_that_stays(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH_SIZE", 3)
    make_indexes(store.deliveries, indexes_for(Names(""))["deliveries"])
    add_account(store, SHOP)
    set_inbox_keep_days(store, WHO, SHOP, 90)
    theirs, ours = store_relay(store, account=SHOP), store_relay(store)
    for number in range(40):
        old(store, theirs, 60 + number / 10)
    for _ in range(7):
        old(store, ours)
    kinds = {each.name: each for each in kinds_of_deliveries(store, Names(""), NOW)}
    [kind] = [
        each
        for each in kinds_of_deliveries(store, Names(""), NOW)
        if each.name == "inbox" and each.old["account"] != SHOP
    ]

    assert [purge_some(kind) for _ in range(4)] == [(3, True), (3, True), (1, False), (0, False)]
    looked = store.deliveries.find(kind.old).explain()["executionStats"]
    assert (looked["totalDocsExamined"], looked["totalKeysExamined"] <= 5) == (0, True)
    for each in kinds.values():
        assert "COLLSCAN" not in str(store.deliveries.find(each.old).explain())
    assert counts(store) == [40, 40, 80]


async def test_what_is_sent_again_while_it_is_purged_keeps_its_body(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay = store_relay(store)
    again, gone = old(store, relay), old(store, relay)
    [kind] = [each for each in kinds_of_deliveries(store, Names(""), NOW) if each.name == "inbox"]
    delete_many = type(store.deliveries).delete_many

    def late(home: Any, *args: Any, **named: Any) -> Any:
        open_again = {"$set": {"state": "open", "ended_at": None}}
        store.deliveries.update_one({"_id": again.id}, open_again)
        return delete_many(home, *args, **named)

    monkeypatch.setattr(type(store.deliveries), "delete_many", late)
    purge_some(kind)

    assert [each["_id"] for each in store.deliveries.find()] == [again.id]
    assert store.events.count_documents({"_id": again.event}) == 1
    assert store.events.count_documents({"_id": gone.event}) == 0


def test_what_a_removed_account_had_ends_and_is_purged(
    config: Config, stores: Collections, ours: Services
) -> None:
    add_account(stores, SHOP)
    set_inbox_keep_days(stores, WHO, SHOP, 90)
    relay = store_relay(stores, account=SHOP)
    made = old(stores, relay, state=DeliveryState.OPEN, ended_at=None)
    old(stores, relay, 40)

    ours.end(WHO, SHOP)
    remove_account(stores, SHOP)

    [ended] = stores.deliveries.find({"_id": made.id})
    assert (delivery_in(ended).state, ended["why"]) == (DeliveryState.CANCELLED, "service_deleted")
    assert ended["ended_at"]
    purge(config, lambda *_: None, dry=False)
    assert counts(stores) == [1, 1, 2]
    stores.deliveries.update_one({"_id": made.id}, {"$set": {"ended_at": ENDED}})
    assert purge(config, lambda *_: None, dry=True).counts["inbox"] == 1
    purge(config, lambda *_: None, dry=False)
    assert counts(stores) == [0, 0, 0]


def test_the_purge_by_hand_says_how_far_it_is(config: Config, stores: Collections) -> None:
    relay, heard, numbers = store_relay(stores), list[tuple[str, int, int]](), count()
    for _ in range(3):
        old(stores, relay, 31 + next(numbers))

    purge(config, lambda *batch: heard.append(batch), dry=False)

    assert ("inbox", 3, 3) in heard


def test_the_last_five_errors_of_a_service_are_shown_with_it(
    stores: Collections, ours: Services
) -> None:
    relay = store_relay(stores)
    made = store_relayed(stores, relay, made=8)
    make_indexes(stores.attempts, indexes_for(Names(""))["attempts"])
    for number in range(1, 8):
        store_attempt(stores, made, number)
    store_attempt(stores, made, 8, status=200, failure=None)
    store_attempt(stores, store_relayed(stores, store_relay(stores, "other")), 1)

    errors = whole_members(ours, MAIN, "shopify")["errors"]

    assert [each["number"] for each in errors] == [7, 6, 5, 4, 3]
    assert errors[0] == {
        "delivery": made.id,
        "number": 7,
        "at": NOTED_AT + dt.timedelta(seconds=7),
        "ms": 42,
        "status": 500,
        "failure": "server_error",
    }
    wanted = {"service": relay.id, **FAILED}
    looked = stores.attempts.find(wanted).sort("at", -1).limit(5).explain()["executionStats"]
    assert (looked["totalKeysExamined"], looked["totalDocsExamined"]) == (5, 5)
