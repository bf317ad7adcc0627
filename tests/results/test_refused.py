"""A document that MongoDB refuses is refused alone: the others are stored, and nothing is lost."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import pytest
from pymongo.collection import Collection
from store_parcels import (
    FIRST,
    answered,
    attempt,
    call,
    delivered,
    failure,
    hours,
    on_its_way,
    scan,
)

from service.observe.events import Event
from service.worker.results import database as database_module
from service.worker.results.connection import Store
from service.worker.results.database import Document, Names
from service.worker.results.dead import Dead
from service.worker.results.forgetting import Parcel, clear, mark
from service.worker.results.queries import end_checks, put_off_checks
from service.worker.results.recheck_policy import Pace
from service.worker.results.refused import counted, insert_each, try_again
from service.worker.results.retention import BATCH_SIZE, kinds, purge_some
from service.worker.results.statistics import add_codes, listed_codes, read_days, save_days
from service.worker.results.trackings import Trackings
from tracking.call import DeadLetter
from tracking.errors import UnstorableAnswer
from tracking.tally import Day, Histogram, Tally

POISON = "POISON01"
AT = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


def refuse(collection: Collection[Document], **poison: Any) -> None:
    """Have MongoDB refuse one document from now on, as an operator may."""
    database = collection.database
    if collection.name not in database.list_collection_names():
        database.create_collection(collection.name)
    wanted = {name: {"$ne": value} for name, value in poison.items()}
    database.command("collMod", collection.name, validator=wanted)


def allow(collection: Collection[Document]) -> None:
    collection.database.command("collMod", collection.name, validator={})


def aside(store: Store) -> Collection[Document]:
    return store.operations.database["refused"]


def names(collection: Collection[Document]) -> list[str]:
    return sorted(each["_id"] for each in collection.find({}, {"_id": 1}))


@pytest.mark.parametrize("stands_already", [False, True])
async def test_one_answer_that_is_refused_leaves_the_others_to_be_stored(
    store: Store, trackings: Trackings, *, stands_already: bool
) -> None:
    numbers = ["NUMBER1", POISON, "NUMBER2"]
    for number in numbers if stands_already else ():
        await answered(trackings, call(number=number), on_its_way(FIRST))
    refuse(store.tracking, tracking_number=POISON)

    calls = [call(hours(1), number) for number in numbers]
    told = await asyncio.gather(
        *(trackings.save(of, delivered(FIRST), attempt(of)) for of in calls), return_exceptions=True
    )

    assert [type(each) for each in told] == [type(None), UnstorableAnswer, type(None)]
    assert "Document failed validation" in str(told[1])
    tags = {each["tracking_number"]: each["tag"] for each in store.tracking.find()}
    assert tags == {"NUMBER1": "Delivered", "NUMBER2": "Delivered"} | (
        {POISON: "InTransit"} if stands_already else {}
    )
    assert trackings.is_available


async def test_a_unique_index_of_others_refuses_the_second_document_and_nothing_else(
    store: Store, trackings: Trackings
) -> None:
    store.tracking.create_index("delivered", unique=True)
    calls = [call(number=number) for number in ("NUMBER1", "NUMBER2")]

    told = await asyncio.gather(
        trackings.save(calls[0], on_its_way(FIRST), attempt(calls[0])),
        trackings.save(calls[1], on_its_way(FIRST), attempt(calls[1])),
        return_exceptions=True,
    )

    assert [type(each) for each in told] == [type(None), UnstorableAnswer]


async def test_a_failure_that_cannot_be_noted_lets_its_operation_end(
    store: Store, trackings: Trackings
) -> None:
    refuse(store.tracking, tracking_number=POISON)
    noted = failure(call(number=POISON))

    await trackings.fail(noted.call, noted.error, noted.attempt, final=True)

    assert names(store.tracking) == []


async def test_a_past_parcel_that_is_refused_stops_only_its_own_number(
    store: Store, trackings: Trackings
) -> None:
    for number in (POISON, "NUMBER1"):
        await answered(trackings, call(number=number), delivered(FIRST))
    refuse(store.past, tracking_number=POISON)

    again = scan("2026-08-01T08:00:00", "Accepted")
    calls = [call(hours(5_000), number) for number in (POISON, "NUMBER1")]
    told = await asyncio.gather(
        *(trackings.save(of, on_its_way(again), attempt(of)) for of in calls),
        return_exceptions=True,
    )

    assert [type(each) for each in told] == [UnstorableAnswer, type(None)]
    assert [each["tracking_number"] for each in store.past.find()] == ["NUMBER1"]


async def test_a_record_of_a_dead_request_that_is_refused_is_kept_aside_until_it_is_taken(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[Event, Any]] = []
    monkeypatch.setattr(database_module, "emit", lambda event, **more: told.append((event, more)))
    refuse(store.dead, number=POISON)
    port = Dead(store)

    for _ in range(2):
        await asyncio.gather(
            *(
                port.record(
                    [DeadLetter(number, "courier_down", "502", b"{}", "usps", number, at=AT)]
                )
                for number in (POISON, "NUMBER1")
            )
        )

    assert names(store.dead) == ["NUMBER1"]
    assert names(aside(store)) == [f"dead:{POISON}"]
    assert {event for event, _ in told} == {Event.REFUSED_DOCUMENT}
    assert told[0][1]["document"] == POISON
    assert try_again(store.dead, store.forgotten) == 0
    ((name, (count, why)),) = counted(aside(store)).items()
    assert (name, count) == ("dead", 1)
    assert "failed validation" in why
    allow(store.dead)
    assert try_again(store.dead, store.forgotten) == 1
    assert names(store.dead) == ["NUMBER1", POISON]
    assert names(aside(store)) == []


async def test_what_was_forgotten_meanwhile_is_not_put_back(store: Store) -> None:
    document = {"_id": "o@1", "slug": "usps", "number": POISON, "admitted_at": AT}
    parcel = Parcel("usps", POISON, round(AT.timestamp() * 1_000_000))
    refuse(store.operations, number=POISON)
    assert insert_each(store.operations, [document]) == [
        ("o@1", "MongoDB refuses it: Document failed validation")
    ]
    allow(store.operations)
    mark(store.forgotten, [parcel], 3_600)

    try_again(store.operations, store.forgotten)

    assert (names(store.operations), names(aside(store))) == ([], [])
    insert_each(aside(store), [{"_id": "operations:o@1", "document": document}])
    assert clear(store, parcel)["refused"] == 1


async def test_a_check_that_cannot_be_put_off_is_named_and_the_others_are(store: Store) -> None:
    due = {"next_check_at": AT, "slug": "usps"}
    store.tracking.insert_many([{"_id": each, "n": each, **due} for each in "abc"])
    refuse(store.tracking, n="b")
    later = AT + dt.timedelta(hours=1)

    put = Pace(first=False, seconds=3_600, put=True)

    stay = put_off_checks(store.tracking, dict.fromkeys("abc", AT), put, later)
    ended = end_checks(store.tracking, ["b", "c"])

    assert [name for name, _ in stay] == [name for name, _ in ended] == ["b"]
    checks = {each["_id"]: each["next_check_at"] for each in store.tracking.find()}
    assert checks == {"a": later, "b": AT, "c": None}


async def test_an_excerpt_that_cannot_be_deleted_leaves_the_others_to_be(store: Store) -> None:
    kept = {"attempts": [{"at": AT - dt.timedelta(days=99), "excerpt": "502"}], "revision": 1}
    store.tracking.insert_many([{"_id": str(n), "n": n, **kept} for n in range(BATCH_SIZE)])
    refuse(store.tracking, n=0)
    (kind, _) = [each for each in kinds(store, Names(""), AT) if each.name == "excerpts"]

    assert purge_some(kind) == (BATCH_SIZE - 1, True)
    assert purge_some(kind) == (0, False)


async def test_a_count_that_is_refused_leaves_the_others_to_be_counted_once(store: Store) -> None:
    refuse(store.unknown_codes, code="ZZ")
    refuse(store.statistics, slug="usps")
    tally = Tally({"SUCCESS": 3}, Histogram({}), Histogram({}))

    refused = add_codes(store.unknown_codes, {("ups", "ZZ"): 1, ("ups", "AA"): 2}, AT)
    days = save_days(store.statistics, [Day(0, "usps", tally), Day(0, "ups", tally)])

    assert [name for name, _ in refused] == ["ups:ZZ"]
    assert [(each["code"], each["count"]) for each in listed_codes(store.unknown_codes)] == [
        ("AA", 2)
    ]
    assert [name for name, _ in days] == ["1970-01-01:usps"]
    assert read_days(store.statistics, "ups", [0])[0].counts["SUCCESS"] == 3
