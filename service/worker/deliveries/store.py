"""Deliveries in MongoDB: what an attempt reads and writes, and what is due.

========================= ==========================================================================
`read`                    a delivery with its event, and the row of its next attempt, if it stands:
                          all as a majority has them
`note`                    the row of an attempt; one that stands already stays as it is
`move`                    a compare-and-set on (round, made). Where somebody held or cancelled the
                          delivery meanwhile, a failure only counts the attempt; who was delivered
                          to is delivered
`Due`                     what is brought in next
========================= ==========================================================================

Plain functions do it, and `Deliveries` runs them for many callers at once: beside the thread that
stores answers of couriers, as `Due` asks for the filler. Each may be repeated.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from pymongo import ASCENDING, ReadPreference, UpdateOne
from pymongo.collection import Collection
from pymongo.read_concern import ReadConcern

from service.worker.deliveries.delivery import (
    Delivery,
    DeliveryState,
    attempt_id,
    delivery_in,
    document_of,
)
from service.worker.results.connection import Batches, Store
from service.worker.results.database import Collections, Document, log_refused
from service.worker.results.failure import faults_of

READ_TOGETHER, WRITTEN_TOGETHER = 50, 500
"""Bodies are up to 256 KiB, or 1 MiB of what a relay took, rows up to some 20 KiB."""

REST_SECONDS = 0.015
"""Between two batches, so that those of a busy process hold more items: each costs a round trip and
a task of the pool, however few it holds."""

ORDER = [("next_at", ASCENDING), ("_id", ASCENDING)]
BY_EVENT = [("made_at", ASCENDING), ("_id", ASCENDING)]
BY_ID = [("_id", ASCENDING)]

_MOVED = ("state", "round", "made", "round_from", "next_at", "why", "ended_at", "status")
_COUNTED = ("made", "round_from", "why", "status")


class Found(NamedTuple):
    """A delivery as a majority has it.

    `event`: its event, empty where that is not kept any more. `row`: of its attempt made + 1, None
    where none stands.
    """

    delivery: Delivery
    event: Document
    row: Document | None


class Move(NamedTuple):
    """A delivery as it was read, and as it is to be."""

    was: Delivery
    to: Delivery


def read(stores: Collections, ids: Sequence[str]) -> list[Found | None]:
    """Read deliveries; None for one that is not there. Raises PyMongoError."""
    wanted = {"_id": {"$in": list(set(ids))}}
    documents = majority(stores.deliveries).find(wanted)
    found = {each.id: each for each in _readable(stores.deliveries, documents)}
    rows = _by_id(stores.attempts, [attempt_id(each.id, each.made + 1) for each in found.values()])
    events = _by_id(stores.events, [each.event for each in found.values()])
    told: list[Found | None] = []
    for each in map(found.get, ids):
        if each is None:
            told.append(None)
            continue
        row = rows.get(attempt_id(each.id, each.made + 1))
        told.append(Found(each, events.get(each.event, {}), row))
    return told


def note(attempts: Collection[Document], rows: Sequence[Document]) -> list[tuple[str, str]]:
    """Write rows of attempts; tells which MongoDB refuses. Raises PyMongoError."""
    faults = faults_of(partial(attempts.insert_many, rows, ordered=False))
    return [(rows[index]["_id"], why) for index, why in faults.refused.items()]


def move_each(deliveries: Collection[Document], moves: Sequence[Move]) -> None:
    """Move deliveries on, each that stands where it was read. Raises PyMongoError."""
    done = deliveries.bulk_write([_set(each) for each in moves], ordered=False)
    if done.matched_count == len(moves):
        return
    # Somebody held or cancelled some, or this was done before.
    counted = [_count(each) for each in moves if each.to.state is not DeliveryState.DELIVERED]
    if counted:
        deliveries.bulk_write(counted, ordered=False)


class Deliveries:
    """Runs these for the event loop. All raise ResultsDown: repeat it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        rest = REST_SECONDS
        self._reads = Batches[str, Found | None](self._read, READ_TOGETHER, rest_seconds=rest)
        self._notes = Batches[Document, None](self._note, WRITTEN_TOGETHER, rest_seconds=rest)
        self._moves = Batches[Move, None](self._move, WRITTEN_TOGETHER, rest_seconds=rest)

    async def read(self, delivery: str) -> Found | None:
        """Read a delivery; None where it is not there."""
        return await self._reads.submit(delivery)

    async def note(self, row: Document) -> None:
        """Write the row of an attempt, durably on a majority."""
        await self._notes.submit(row)

    async def move(self, was: Delivery, to: Delivery) -> None:
        """Move a delivery on, unless it stands elsewhere by now, or is not there."""
        await self._moves.submit(Move(was, to))

    async def _read(self, ids: list[str]) -> Sequence[Found | None]:
        return await self._store.on_reader(read, self._store, ids)

    async def _note(self, rows: list[Document]) -> Sequence[None]:
        attempts = self._store.attempts
        log_refused(attempts, await self._store.in_background(note, attempts, rows))
        return [None] * len(rows)

    async def _move(self, moves: list[Move]) -> Sequence[None]:
        await self._store.in_background(move_each, self._store.deliveries, moves)
        return [None] * len(moves)


class Due:
    """Finds for the event loop what is brought in next. All raise ResultsDown."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def due(
        self, service: str, now: dt.datetime, most: int, besides: Iterable[str] = ()
    ) -> list[Delivery]:
        """List open deliveries of a service that are due, by (next_at, _id), without some."""
        wanted = {"next_at": {"$lte": now}, "_id": {"$nin": list(besides)}}
        return await self._open(service, wanted, ORDER, most)

    async def head(self, service: str, settled: dt.datetime) -> Delivery | None:
        """Find the first open delivery of a service by the time of its event, and its id."""
        found = await self._open(service, {"made_at": {"$lte": settled}}, BY_EVENT, 1)
        return next(iter(found), None)

    async def later_on(self, service: str, after: str) -> Delivery | None:
        """Find an open delivery of a service behind this id, or the first of all."""
        behind = await self._open(service, {"_id": {"$gt": after}}, BY_ID, 1)
        return next(iter(behind or await self._open(service, {}, BY_ID, 1)), None)

    async def is_open(self, ids: Iterable[str]) -> bool:
        """Whether one of these deliveries is open."""
        wanted = {"_id": {"$in": list(ids)}, "state": DeliveryState.OPEN}
        found = await self._store.in_background(self._store.deliveries.find_one, wanted, {"_id": 1})
        return found is not None

    async def services_with_due(self, services: Sequence[str], now: dt.datetime) -> frozenset[str]:
        """Name those of these services that have something due."""
        return await self._store.in_background(_services_with_due, self._store, services, now)

    async def _open(
        self, service: str, members: Document, order: list[tuple[str, int]], most: int
    ) -> list[Delivery]:
        wanted = {"service": service, "state": DeliveryState.OPEN, **members}
        return await self._store.in_background(_list, self._store.deliveries, wanted, order, most)


def majority(collection: Collection[Document]) -> Collection[Document]:
    """Ask for what a majority has."""
    return collection.with_options(
        read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern("majority")
    )


def _services_with_due(
    stores: Collections, services: Sequence[str], now: dt.datetime
) -> frozenset[str]:
    due_now = {"state": DeliveryState.OPEN, "next_at": {"$lte": now}}
    one: list[Document] = [{"$match": due_now}, {"$limit": 1}, {"$project": {"_id": 1}}]
    looked = {
        "from": stores.deliveries.name,
        "localField": "_id",
        "foreignField": "service",
        "pipeline": one,
        "as": "due",
    }
    found = stores.services.aggregate(
        [
            {"$match": {"_id": {"$in": list(services)}}},
            {"$project": {"_id": 1}},
            {"$lookup": looked},
            {"$match": {"due.0": {"$exists": True}}},
        ]
    )
    return frozenset(each["_id"] for each in found)


def _by_id(collection: Collection[Document], ids: Sequence[str]) -> dict[str, Document]:
    return {each["_id"]: each for each in majority(collection).find({"_id": {"$in": list(ids)}})}


def _list(
    deliveries: Collection[Document], wanted: Document, order: list[tuple[str, int]], most: int
) -> list[Delivery]:
    found = deliveries.find(wanted, {"words": 0}).sort(order).limit(most)
    return list(_readable(deliveries, found))


def _readable(
    deliveries: Collection[Document], documents: Iterable[Document]
) -> Iterator[Delivery]:
    """Read deliveries; what somebody else wrote is logged, and keeps no other one back."""
    for each in documents:
        try:
            yield delivery_in(each)
        except (LookupError, TypeError, ValueError) as error:
            why = f"this service did not write it so: {error!r}"
            log_refused(deliveries, [(str(each["_id"]), why)])


def _set(each: Move) -> UpdateOne:
    wanted: Document = {"_id": each.was.id, "round": each.was.round, "made": each.was.made}
    if each.to.state is not DeliveryState.DELIVERED:
        wanted["state"] = DeliveryState.OPEN
    return UpdateOne(wanted, {"$set": _members(each.to, _MOVED)})


def _count(each: Move) -> UpdateOne:
    wanted = {
        "_id": each.was.id,
        "round": each.was.round,
        "made": each.was.made,
        "state": {"$ne": DeliveryState.OPEN},
    }
    return UpdateOne(wanted, {"$set": _members(each.to, _COUNTED)})


def _members(delivery: Delivery, names: Sequence[str]) -> Document:
    document = document_of(delivery)
    return {name: document[name] for name in names}
