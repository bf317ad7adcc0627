"""The collection `tracking` as the flow sees it: one await per request, one write for many."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Sequence
from functools import partial

from pymongo.read_concern import ReadConcern

from service.observe.events import Event
from service.observe.log import emit
from service.results.batches import Batches
from service.results.bulk import BulkWriter, RecheckOf, Write
from service.results.connection import Document, Store
from service.results.document import Answer, Failure, id_of
from service.results.own_documents import document_id
from service.results.queries import end_checks
from service.results.unreadable import Kept, keep
from tracking.call import Attempt, Call, Verdict
from tracking.checkpoint import Tag, Tracking
from tracking.errors import CourierError, ResultsDown, TrackingError, UnreadableAnswer
from tracking.operation import State
from tracking.request import Origin, TrackingRequest, account_of
from tracking.summary import summary

CLOCKS_APART = 5.0
"""Seconds that Redis' clock may be ahead of this machine's. An answer from further ahead has an age
that nobody can know."""

DOUBTED_SECONDS = 60.0
"""For so long after a write that was not confirmed each answer is looked for before it is written:
an answer in hand is tried for no longer than a call may take."""

_FRESH = {
    "tag": 1,
    "subtag": 1,
    "observed_us": 1,
    "checkpoints": {"$size": "$checkpoints"},
}


class Trackings:
    """Implements `service.ports.Results`."""

    def __init__(self, store: Store, recheck_of: RecheckOf) -> None:
        self._store = store
        self._recheck_of = recheck_of
        self._writes: Batches[Write, None] = Batches(self._write)
        self._unread: Batches[Kept, None] = Batches(self._keep)
        self._doubted_until = float("-inf")

    @property
    def is_available(self) -> bool:
        """Whether MongoDB takes writes, as far as is known."""
        return self._store.is_available

    def available(self) -> Awaitable[object]:
        """Wait while MongoDB is away."""
        return self._store.available()

    def save(self, call: Call, tracking: Tracking, attempt: Attempt) -> Awaitable[None]:
        """Store an answer. ResultsDown: repeat it; UnstorableAnswer: it cannot be stored."""
        return self._writes.submit(Answer(call, tracking, attempt))

    async def fail(self, call: Call, error: CourierError, attempt: Attempt, *, final: bool) -> None:
        """Store that a call failed, and what could not be read. Raises ResultsDown: repeat it."""
        if isinstance(error, UnreadableAnswer) and error.unread is not None:
            await self._unread.submit(Kept(call, error.unread, attempt.at, error.message))
        await self._writes.submit(Failure(call, error, attempt, final))

    async def fresh(self, request: TrackingRequest, max_age: float) -> Verdict | None:
        """The stored answer, if the courier was asked for it at most `max_age` seconds ago.

        None also when the last operation failed since, or the request names a field that the
        courier was not asked with. Raises ResultsDown.
        """
        now = time.time()
        # A re-check names what was stored when it was put: somebody may know better since.
        named = {} if request.origin is Origin.AUTOMATIC else request.fields
        wanted = {
            "_id": document_id(id_of(request), account_of(request)),
            "observed_us": {
                "$gte": int((now - max_age) * 1_000_000),
                "$lte": int((now + CLOCKS_APART) * 1_000_000),
            },
            "error": None,
            **{f"fields.{name}": text for name, text in named.items()},
        }
        found = await self._store.read(self._find, wanted, _FRESH) if max_age > 0 else None
        if found is None:
            return None
        output = summary(Tag(found["tag"]), found["subtag"], found["checkpoints"])
        observed_ms = found["observed_us"] // 1000
        return Verdict(State.SUCCESS, output, observed_ms=observed_ms)

    async def end_checks(self, request: TrackingRequest) -> None:
        """Ask about the parcel no more by ourselves, until its next answer. Raises ResultsDown."""
        name = document_id(id_of(request), account_of(request))
        await self._store.run(end_checks, self._store.tracking, [name])

    def _find(self, wanted: Document, members: Document | None = None) -> Document | None:
        # What a majority has: an answer that a failover took back was none.
        durable = self._store.tracking.with_options(read_concern=ReadConcern("majority"))
        return durable.find_one(wanted, members)

    async def _keep(self, kept: Sequence[Kept]) -> list[None]:
        unreadable = self._store.unreadable
        for name, why in await self._store.run(keep, unreadable, kept, self._store.marks):
            emit(Event.REFUSED_DOCUMENT, collection=unreadable.name, document=name, error=why)
        return [None] * len(kept)

    async def _write(self, writes: Sequence[Write]) -> list[TrackingError | None]:
        store = self._store
        writer = BulkWriter(store.tracking, store.past, store.marks, self._recheck_of)
        doubted = time.monotonic() < self._doubted_until
        write = partial(writer.write, writes, doubted=doubted)
        try:
            told = await store.write(write, _is_confirmed)
        except ResultsDown as error:
            self._doubt(error)
            raise
        failed = next((each for each in told if isinstance(each, ResultsDown)), None)
        if failed is not None:
            self._doubt(failed)
        return told

    def _doubt(self, error: ResultsDown) -> None:
        self._doubted_until = time.monotonic() + DOUBTED_SECONDS
        self._store.failed(error.__cause__)


def _is_confirmed(told: Sequence[TrackingError | None]) -> bool:
    return not any(isinstance(each, ResultsDown) for each in told)
