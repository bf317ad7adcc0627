"""What is marked is told once, whatever dies on the way: the outbox on a real MongoDB."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from followers import NOW, Known, Lines, mark, marked_document, service
from pymongo.errors import AutoReconnect

from service.worker.deliveries import outbox as module
from service.worker.deliveries.delivery import DeliveryState, delivery_id, delivery_in, event_id
from service.worker.deliveries.outbox import Outbox, left_marks, pull
from service.worker.deliveries.service import Format, ServiceState, Wanted
from service.worker.results.change import EventName, Mark
from service.worker.results.connection import Store
from service.worker.results.database import UNTOLD
from service.worker.results.forgetting import Parcel
from service.worker.results.forgetting import mark as forget
from tracking.checkpoint import Tag
from tracking.errors import ResultsDown
from tracking.request import Account, Number, Slug

SHIPMENT: dict[str, Any] = {
    "account": "main",
    "parcel": "usps:94000001",
    "slug": "usps",
    "number": "94000001",
    "completed": None,
    "created_at": NOW,
}
CHANGED, DELIVERED = EventName.PARCEL_CHANGED, EventName.PARCEL_DELIVERED
SOON = 10.0


@pytest.fixture
async def store(store: Store) -> Store:
    await store.prepare()
    return store


@pytest.fixture
def known() -> Known:
    return Known([service("a")])


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def outbox(store: Store, known: Known, lines: Lines) -> Outbox:
    return Outbox(store, known, lines.bring)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def running(outbox: Outbox) -> AsyncIterator[None]:
    task = asyncio.create_task(outbox.run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while not condition():  # noqa: ASYNC110 - it is MongoDB that changes
            await asyncio.sleep(0.005)


def deliveries(store: Store) -> list[dict[str, Any]]:
    return list(store.deliveries.find().sort("type"))


def left(store: Store) -> int:
    return store.tracking.count_documents({UNTOLD: {"$exists": True}})


async def test_a_change_that_is_noted_becomes_events_and_deliveries_and_its_mark_goes(
    store: Store, outbox: Outbox, lines: Lines
) -> None:
    store.tracking.insert_one(marked_document(mark()))

    async with running(outbox):
        outbox.note([mark()])
        await until(lambda: left(store) == 0)
        await until(lambda: bool(lines.brought))

    changed, delivered = deliveries(store)
    assert changed["_id"] == delivery_id(mark().id, CHANGED, "a" * 16)
    assert delivered["event"] == event_id(mark().id, DELIVERED)
    assert (changed["state"], changed["next_at"], changed["made"]) == ("open", NOW, 0)
    assert changed["parcel"] == "usps:94000001"
    assert lines.brought == [delivery_in(changed), delivery_in(delivered)]
    event = store.events.find_one({"_id": delivered["event"]})
    assert event is not None
    assert (event["account"], event["parcel"], event["at"]) == ("main", "usps:94000001", NOW)
    body = json.loads(event["bodies"]["standard"])
    assert (body["type"], body["timestamp"]) == ("parcel.delivered", "2026-03-01T12:00:00.250Z")
    assert body["data"]["before"]["tag"] == "InTransit"
    document = store.tracking.find_one({})
    assert document is not None
    assert document["revision"] == 4


class Dies(Exception):
    """The process vanishes here."""


STEPS = ("events.insert", "deliveries.insert", "tracking.update", "bring in")
DEATHS = [(step, when) for step in STEPS for when in ("before", "after")]


@pytest.mark.parametrize("death", DEATHS, ids=" ".join)
async def test_a_process_that_vanishes_at_any_step_loses_nothing_and_doubles_nothing(
    store: Store,
    known: Known,
    lines: Lines,
    monkeypatch: pytest.MonkeyPatch,
    death: tuple[str, str],
) -> None:
    step, when = death
    store.tracking.insert_one(marked_document(mark()))

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def dies(*args: Any, **more: Any) -> Any:
            if when == "after":
                real(*args, **more)
            raise Dies

        return dies

    first = Outbox(store, known, dying(lines.bring) if step == "bring in" else lines.bring)  # type: ignore[arg-type]
    with monkeypatch.context() as patched:
        if step != "bring in":
            collection, method = step.split(".")
            names = {"insert": "insert_many", "update": "bulk_write"}
            home = store.named(collection)
            patched.setattr(home, names[method], dying(getattr(home, names[method])))
        with pytest.raises(Dies):
            await first.tell([mark()])

    second = Lines()
    monkeypatch.setattr(module, "LEFT_SECONDS", 0.0)
    await Outbox(store, known, second.bring).sweep()  # type: ignore[arg-type]

    ids = {delivery_id(mark().id, each, "a" * 16) for each in (CHANGED, DELIVERED)}
    assert {each["_id"] for each in deliveries(store)} == ids
    assert store.events.count_documents({}) == len(ids)
    assert left(store) == 0
    assert len(lines.brought) + len(second.brought) in {0, 2}


async def test_a_sweep_tells_of_what_nobody_else_does_and_of_nothing_younger(
    store: Store, outbox: Outbox
) -> None:
    now = dt.datetime.now(dt.UTC)
    old = mark("1", at=now - dt.timedelta(seconds=11))
    young = mark("2", at=now, number=Number("94000002"))
    store.tracking.insert_many([marked_document(old), marked_document(young)])
    # Too many for one batch.
    store.tracking.insert_many(
        marked_document(old._replace(id=f"{n}", number=Number(f"95{n:06}"))) for n in range(150)
    )

    assert await outbox.sweep() == 151

    assert store.tracking.distinct("_id", {UNTOLD: {"$exists": True}}) == ["usps:94000002"]
    assert store.events.count_documents({}) == 2 * 151


async def test_a_sweep_reads_nothing_but_an_index_of_documents_with_marks(store: Store) -> None:
    wanted = {f"{UNTOLD}.at": {"$gt": dt.datetime(1970, 1, 1, tzinfo=dt.UTC), "$lt": NOW}}
    plan = store.tracking.find(wanted).explain()["queryPlanner"]["winningPlan"]

    assert plan["inputStage"]["indexName"] == "untold.at_1"
    assert plan["inputStage"]["isPartial"]


async def test_what_nobody_wants_to_hear_loses_its_mark_and_leaves_nothing(
    store: Store, known: Known, outbox: Outbox, lines: Lines
) -> None:
    known.services = [
        service("a", wanted=Wanted(events=frozenset({EventName.PARCEL_EXPIRED}))),
        service("b", wanted=Wanted(slugs=frozenset({Slug("dhl")}))),
        service("c", wanted=Wanted(tags=frozenset({Tag.EXCEPTION}))),
        service("d", Account("shop")),
    ]
    store.tracking.insert_one(marked_document(mark()))

    await outbox.tell([mark()])

    assert left(store) == 0
    assert deliveries(store) == lines.brought == []
    assert store.events.count_documents({}) == 0


async def test_each_service_gets_what_it_wants_and_an_event_is_stored_once(
    store: Store, known: Known, outbox: Outbox, lines: Lines
) -> None:
    known.services = [
        service("a"),
        service("b", wanted=Wanted(events=frozenset({DELIVERED}))),
        service("c", ordered=True),
        service("d", state=ServiceState.PAUSED),
        service("e", state=ServiceState.DISABLED),
    ]

    await outbox.tell([mark()])

    assert store.events.count_documents({}) == 2
    found = {(each["service"][0], each["type"]): each["state"] for each in deliveries(store)}
    assert found == {
        ("a", "parcel.changed"): "open",
        ("a", "parcel.delivered"): "open",
        ("b", "parcel.delivered"): "open",
        ("c", "parcel.changed"): "open",
        ("c", "parcel.delivered"): "open",
        ("d", "parcel.changed"): DeliveryState.HELD,
        ("d", "parcel.delivered"): DeliveryState.HELD,
        ("e", "parcel.changed"): DeliveryState.HELD,
        ("e", "parcel.delivered"): DeliveryState.HELD,
    }
    assert {each.service[0] for each in lines.brought} == {"a", "b", "c"}


async def test_aftership_hears_of_each_change_once_in_its_own_words(
    store: Store, known: Known, outbox: Outbox
) -> None:
    late = frozenset({DELIVERED})
    known.services = [
        service("a", format=Format.AFTERSHIP),
        service("b", format=Format.AFTERSHIP, wanted=Wanted(events=late)),
        service("c"),
    ]
    store.shipments.insert_many(
        [
            {"_id": "1", "words": {"title": "Shoes"}, "deleted": False} | SHIPMENT,
            {"_id": "2", "words": {}, "deleted": True} | SHIPMENT,
        ]
    )

    await outbox.tell([mark()])

    found = {(each["service"][0], each["type"]) for each in deliveries(store)}
    assert found == {
        ("a", "parcel.changed"),
        ("b", "parcel.delivered"),
        ("c", "parcel.changed"),
        ("c", "parcel.delivered"),
    }
    event = store.events.find_one({"type": "parcel.changed"})
    assert event is not None
    assert set(event["bodies"]) == {"standard", "aftership"}
    said = json.loads(event["bodies"]["aftership"])
    assert (said["event"], said["is_tracking_first_tag"]) == ("tracking_update", True)
    assert said["ts"] == int(NOW.timestamp())
    assert uuid.UUID(said["event_id"]).version == 4
    shown = said["msg"]
    assert (shown["id"], shown["title"], shown["tag"]) == ("1", "Shoes", "Delivered")
    assert (shown["slug"], shown["tracking_number"]) == ("usps", "94000001")
    assert [each["message"] for each in shown["checkpoints"]] == ["Delivered"]


async def test_a_service_that_is_disabled_for_long_hears_of_nothing_new(
    store: Store, known: Known, outbox: Outbox
) -> None:
    gone = NOW - dt.timedelta(days=8)
    known.services = [service("a", state=ServiceState.DISABLED, disabled_at=gone)]

    await outbox.tell([mark()])

    assert deliveries(store) == []


async def test_a_process_that_knows_no_services_yet_learns_them_before_it_tells(
    store: Store, lines: Lines
) -> None:
    known = Known(revision=0, learns=[service("a")])
    outbox = Outbox(store, known, lines.bring)  # type: ignore[arg-type]
    assert outbox.hears(Account("anybody"))

    await outbox.tell([mark()])

    assert len(lines.brought) == 2


async def test_what_came_while_mongodb_was_away_is_told_later(
    store: Store, outbox: Outbox, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.01)
    real, failures = store.events.insert_many, iter(range(3))

    def insert(*args: Any, **more: Any) -> Any:
        if next(failures, None) is not None:
            raise AutoReconnect("it is away")
        return real(*args, **more)

    monkeypatch.setattr(store.events, "insert_many", insert)
    store.tracking.insert_one(marked_document(mark()))

    async with running(outbox):
        outbox.note([mark()])
        await until(lambda: left(store) == 0)
        await until(lambda: len(lines.brought) == 2)


async def test_a_mark_stays_where_mongodb_refuses_its_event(store: Store, outbox: Outbox) -> None:
    store.tracking.database.command("collMod", "events", validator={"slug": {"$ne": "usps"}})
    good = mark("2", slug=Slug("dhl"))
    store.tracking.insert_many([marked_document(mark()), marked_document(good)])

    await outbox.tell([mark(), good])

    assert store.tracking.distinct("_id", {UNTOLD: {"$exists": True}}) == ["usps:94000001"]
    assert {each["parcel"] for each in deliveries(store)} == {"dhl:94000001"}


async def test_a_parcel_that_was_forgotten_meanwhile_is_told_of_to_nobody(
    store: Store, outbox: Outbox, lines: Lines
) -> None:
    at_us = round(NOW.timestamp() * 1_000_000) + 1
    forget(store.forgotten, [Parcel("usps", "94000001", at_us)], 3600.0)

    await outbox.tell([mark()])

    assert deliveries(store) == lines.brought == []
    assert store.events.count_documents({}) == 0


async def test_a_mark_is_pulled_alone_and_a_writer_that_read_before_notices(store: Store) -> None:
    other = mark("2")
    store.tracking.insert_one(marked_document(mark(), other))

    pull(store.tracking, [mark()])
    pull(store.tracking, [mark()])

    document = store.tracking.find_one({})
    assert document is not None
    assert [each["id"] for each in document[UNTOLD]] == [other.id]
    assert document["revision"] == 4


async def test_what_is_no_mark_holds_up_no_other(store: Store, outbox: Outbox) -> None:
    old: dict[str, Any] = {"slug": "usps", "tracking_number": "X", "untold": [{"at": NOW}]}
    store.tracking.insert_many([old | {"_id": "usps:X"}, marked_document(mark())])

    assert await outbox.sweep() == 1


async def test_while_mongodb_is_away_a_sweep_says_so(store: Store, outbox: Outbox) -> None:
    await store.close()

    with pytest.raises(ResultsDown):
        await outbox.sweep()


def test_all_marks_of_a_document_are_read(store: Store) -> None:
    both: list[Mark] = [mark(), mark("2")]
    store.tracking.insert_one(marked_document(*both))

    assert left_marks(store.tracking, NOW + dt.timedelta(seconds=1), 10) == both
