"""The collection `tracking`: answers and failures, written in bulk, newest wins.

What comes in during one write goes out with the next: new documents are inserted, and only those
that were there before are read, merged and replaced, each only if it is still what was read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bson.errors import BSONError
from pymongo import InsertOne, ReplaceOne
from pymongo.errors import BulkWriteError, DocumentTooLarge

from service.store.connection import Document, Store
from service.store.merge import Change, answered, failed
from tracking.call import Attempt, Call, Verdict
from tracking.checkpoint import Tracking
from tracking.errors import CourierError, ResultsDown, UnreadableAnswer
from tracking.operation import State
from tracking.request import TrackingRequest

MOST_AT_ONCE = 500
DUPLICATE_KEY = 11000

Merge = Callable[[Document | None], Change | None]


@dataclass(slots=True)
class _Write:
    """One pending change of one document: `merge` says what, given what is stored."""

    id: str
    merge: Merge
    done: asyncio.Future[None]


class Trackings:
    """Implements `service.ports.Results`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pending: list[_Write] = []
        self._writer: asyncio.Task[None] | None = None

    async def available(self) -> None:
        """Wait while MongoDB is away."""
        await self._store.available()

    async def save(self, call: Call, tracking: Tracking, attempt: Attempt) -> None:
        """Store an answer. Raises ResultsDown: repeat it; UnreadableAnswer: it cannot be stored."""
        await self._write(call, lambda stored: answered(stored, call, tracking, attempt))

    async def fail(self, call: Call, error: CourierError, attempt: Attempt, *, final: bool) -> None:
        """Store that a call failed. Raises ResultsDown: repeat it."""
        await self._write(call, lambda stored: failed(stored, call, error, attempt, final=final))

    async def fresh(self, request: TrackingRequest, max_age: float) -> Verdict | None:
        """The stored answer, if the courier was asked for it at most `max_age` seconds ago."""
        since_us = (time.time() - max_age) * 1_000_000
        wanted = {"_id": f"{request.slug}:{request.number}", "observed_us": {"$gte": since_us}}
        fields = {"tag": 1, "subtag": 1, "delivered": 1, "observed_us": 1, "checkpoints.tag": 1}
        found = await self._store.run(lambda: self._store.tracking.find_one(wanted, fields))
        if found is None:
            return None
        output = {name: found[name] for name in ("tag", "subtag", "delivered")}
        return Verdict(
            State.SUCCESS,
            {**output, "checkpoints": len(found["checkpoints"])},
            tracking=found["_id"],
            observed_ms=found["observed_us"] // 1000,
        )

    async def _write(self, call: Call, merge: Merge) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        name = f"{call.request.slug}:{call.request.number}"
        self._pending.append(_Write(name, merge, done))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_all())
        await done

    async def _write_all(self) -> None:
        try:
            while self._pending:
                batch, self._pending = self._next_batch()
                await self._write_batch(batch)
        finally:
            self._writer = None

    def _next_batch(self) -> tuple[list[_Write], list[_Write]]:
        """As many as fit, but no document twice: its second change must see the first."""
        batch: dict[str, _Write] = {}
        later: list[_Write] = []
        for write in self._pending:
            if write.id in batch or len(batch) >= MOST_AT_ONCE:
                later.append(write)
            else:
                batch[write.id] = write
        return list(batch.values()), later

    async def _write_batch(self, batch: list[_Write]) -> None:
        try:
            await self._store.run(self._apply, batch)
        except ResultsDown as error:
            _settle(batch, error)
        except (BSONError, OverflowError, UnicodeError, DocumentTooLarge) as error:
            # One answer that BSON cannot hold must not take the others with it.
            if len(batch) == 1:
                _settle(batch, UnreadableAnswer(f"the answer cannot be stored: {error}"))
                return
            for write in batch:
                await self._write_batch([write])
        except BaseException as error:
            _settle(batch, ResultsDown(f"the write was cut off: {error!r}"))
            raise
        else:
            _settle(batch, None)

    def _apply(self, batch: Sequence[_Write]) -> None:
        """Insert what is new, merge and replace the rest until each is in. On our one thread."""
        left = self._insert(batch)
        while left:
            left = self._replace(left)

    def _insert(self, batch: Sequence[_Write]) -> list[_Write]:
        new = [change.document for write in batch if (change := write.merge(None))]
        try:
            self._store.tracking.bulk_write([InsertOne(each) for each in new], ordered=False)
        except BulkWriteError as error:
            faults = error.details["writeErrors"]
            if any(fault["code"] != DUPLICATE_KEY for fault in faults):
                raise
            there = {fault["op"]["_id"] for fault in faults}
            return [write for write in batch if write.id in there]
        return []

    def _replace(self, batch: Sequence[_Write]) -> list[_Write]:
        """Returns what somebody else changed meanwhile, to be merged anew."""
        found = self._store.tracking.find({"_id": {"$in": [write.id for write in batch]}})
        stored = {document["_id"]: document for document in found}
        changes = {write.id: write.merge(stored.get(write.id)) for write in batch}
        past = [change.past for change in changes.values() if change and change.past]
        if past:
            copies = [ReplaceOne({"_id": each["_id"]}, each, upsert=True) for each in past]
            self._store.past.bulk_write(copies, ordered=False)
        replaced = [
            ReplaceOne({"_id": name, "revision": stored[name]["revision"]}, change.document)
            for name, change in changes.items()
            if change and name in stored
        ]
        if not replaced:
            return []
        result = self._store.tracking.bulk_write(replaced, ordered=False)
        # Which ones did not match is not told; merging the others again changes nothing.
        return [] if result.matched_count == len(replaced) else list(batch)


def _settle(batch: Sequence[_Write], error: Exception | None) -> None:
    for write in batch:
        if write.done.done():
            continue
        if error is None:
            write.done.set_result(None)
        else:
            write.done.set_exception(error)
