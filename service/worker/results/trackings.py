"""The collection `tracking` as the flow sees it: one await per answer, one bulk write for many.

The newest observation wins over every other writer. Most documents are new, and an insert costs the
server a fifth of an upsert: so all are inserted at first. Those that were there already are read,
merged and replaced, each only if it is still what was read (`revision`); where somebody was
quicker, again. Merging is idempotent, so it does no harm to merge what is stored already. What is
not to be written because it is there counts once a majority has it. A document that MongoDB refuses
is refused alone.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial

import bson
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from pymongo import ReplaceOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, PyMongoError
from pymongo.read_concern import ReadConcern

from service.config.schema import Recheck
from service.worker.results.change import Changes, Mark, marked
from service.worker.results.connection import Batches, Marks, Store, durable, write_nothing
from service.worker.results.database import Collections, Document, log_refused
from service.worker.results.document import Answer, Failure, document_id, id_of, name_of
from service.worker.results.failure import faults_in, mongodb_down
from service.worker.results.merge import Merged, in_order, merge
from service.worker.results.queries import end_checks
from service.worker.results.unreadable import UnreadAnswer, keep_unread
from tracking.call import Attempt, Call, Verdict
from tracking.checkpoint import Tag, Tracking, summary
from tracking.errors import (
    CourierError,
    ResultsDown,
    TrackingError,
    UnreadableAnswer,
    UnstorableAnswer,
)
from tracking.operation import State
from tracking.request import Account, Origin, TrackingRequest, account_of

CLOCKS_APART = 5.0
"""Seconds that Redis' clock may be ahead of this machine's. An answer from further ahead has an age
that nobody can know."""

DOUBTED_SECONDS = 60.0
"""For so long after a write that was not confirmed each answer is looked for before it is written:
an answer in hand is tried for no longer than a call may take."""

MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
"""MongoDB's own limit."""

MAX_ROUNDS = 50
"""In each round somebody succeeds; so many failures in a row are no coincidence any more."""

Write = Answer | Failure
RecheckOf = Callable[[str], Recheck]
"""What `[recheck]` says for a slug."""

Hears = Callable[[Account], bool]
"""Whether somebody may follow an account's parcels."""

_FRESH = {"tag": 1, "subtag": 1, "observed_us": 1, "checkpoints": {"$size": "$checkpoints"}}


class Trackings:
    """Stores answers and failures, and reads fresh answers; implements `service.ports.Results`."""

    def __init__(self, store: Store, recheck_of: RecheckOf, changes: Changes | None = None) -> None:
        """`changes`: who is to hear of changes; None: nobody."""
        self._store = store
        self._recheck_of = recheck_of
        self._changes = changes
        self._writes: Batches[Write, None] = Batches(self._write)
        self._unread: Batches[UnreadAnswer, None] = Batches(self._keep_unread)
        self._marks = Marks(store.forgotten)
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

    def save_all(
        self, answers: Sequence[tuple[Call, Tracking, Attempt]]
    ) -> Awaitable[Sequence[TrackingError | None]]:
        """Store answers in one batch; what `save` would raise of each."""
        return self._writes.submit_all([Answer(*each) for each in answers])

    async def fail(self, call: Call, error: CourierError, attempt: Attempt, *, final: bool) -> None:
        """Store that a call failed, and what could not be read. Raises ResultsDown: repeat it."""
        if isinstance(error, UnreadableAnswer) and error.unread is not None:
            await self._unread.submit(UnreadAnswer(call, error.unread, attempt.at, error.message))
        await self._writes.submit(Failure(call, error, attempt, final))

    async def fresh(self, request: TrackingRequest, max_age: float) -> Verdict | None:
        """Find the stored answer if its call was granted at most `max_age` seconds ago.

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
        found = await self._store.on_reader(self._find, wanted, _FRESH) if max_age > 0 else None
        if found is None:
            return None
        output = summary(Tag(found["tag"]), found["subtag"], found["checkpoints"])
        observed_ms = found["observed_us"] // 1000
        return Verdict(State.SUCCESS, output, observed_ms=observed_ms)

    async def end_checks(self, request: TrackingRequest) -> None:
        """Ask about the parcel no more by ourselves, until its next answer. Raises ResultsDown."""
        name = document_id(id_of(request), account_of(request))
        await self._store.on_writer(end_checks, self._store.tracking, [name])

    def _find(self, wanted: Document, members: Document | None = None) -> Document | None:
        # What a majority has: an answer that a failover took back was none.
        of_majority = self._store.tracking.with_options(read_concern=ReadConcern("majority"))
        return of_majority.find_one(wanted, members)

    async def _keep_unread(self, answers: Sequence[UnreadAnswer]) -> list[None]:
        unreadable = self._store.unreadable
        step = partial(keep_unread, unreadable, self._marks)
        log_refused(unreadable, await self._store.on_writer(step, answers))
        return [None] * len(answers)

    async def _write(self, writes: Sequence[Write]) -> list[TrackingError | None]:
        store = self._store
        changes = self._changes
        hears = changes.hears if changes else nobody
        writer = BulkWriter(store, self._marks, self._recheck_of, hears)
        doubted = time.monotonic() < self._doubted_until
        write = partial(writer.write, writes, doubted=doubted)
        try:
            errors = await store.write(write, _is_confirmed)
        except ResultsDown as error:
            self._doubt(error)
            raise
        failed = next((each for each in errors if isinstance(each, ResultsDown)), None)
        if failed is not None:
            self._doubt(failed)
        if changes and writer.noted:
            changes.note(writer.noted)
        return errors

    def _doubt(self, error: ResultsDown) -> None:
        self._doubted_until = time.monotonic() + DOUBTED_SECONDS
        self._store.failed(error.__cause__)


def nobody(_: Account) -> bool:
    """Nobody follows any parcel."""
    return False


def _is_confirmed(errors: Sequence[TrackingError | None]) -> bool:
    return not any(isinstance(each, ResultsDown) for each in errors)


class _Unstorable(Exception):
    """An answer that BSON cannot hold, or a document with which nothing can be merged."""


class BulkWriter:
    """Stores answers and failures; for one thread."""

    def __init__(
        self, stores: Collections, marks: Marks, recheck_of: RecheckOf, hears: Hears
    ) -> None:
        self._tracking = stores.tracking
        self._past = stores.past
        self._marks = marks
        self._recheck_of = recheck_of
        self._hears = hears
        self.noted: list[Mark] = []
        """Marks of changes, in documents that a majority has."""

    def write(
        self, writes: Sequence[Write], *, doubted: bool = False
    ) -> list[TrackingError | None]:
        """Store all. None for each that a majority has, UnstorableAnswer for what cannot be stored.

        ResultsDown, with the driver's error as its cause: it may be stored or not. What was asked
        before its parcel was forgotten is dropped, and so is a failure that cannot be noted: its
        operation ends all the same. `doubted`: writes before were not confirmed, so that the same
        may be there already. Raises PyMongoError: all of them may be stored or not.
        """
        parcels: dict[str, _Parcel] = {}
        for write in self._marks.left_of(writes):
            name = name_of(write.call)
            if name not in parcels:
                recheck = self._recheck_of(write.call.request.slug)
                parcels[name] = _Parcel(name, recheck, heard=self._hears(write.call.account))
            parcels[name].writes.append(write)
        failure: PyMongoError | None = None
        try:
            self._store(list(parcels.values()), doubted=doubted)
        except PyMongoError as error:
            failure = error
        errors: dict[int, TrackingError] = {}
        for each in parcels.values():
            errors.update((id(write), why) for write, why in each.refused)
            if each.mark and each.is_stored:
                self.noted.append(each.mark)
        if lost := [each for each in parcels.values() if not each.is_stored]:
            down = _unconfirmed(failure)
            errors.update((id(write), down) for each in lost for write in each.writes)
        return [errors.get(id(write)) for write in writes]

    def write_one(self, answer: Answer) -> None:
        """Store one answer. Raises what `write` returns or raises."""
        for error in self.write([answer]):
            if error is not None:
                raise error

    def _store(self, left: Sequence[_Parcel], *, doubted: bool) -> None:
        self._read(each for each in left if doubted or each.is_known())
        for _ in range(MAX_ROUNDS):
            changed: list[_Parcel] = []
            same: list[_Parcel] = []
            for each in left:
                (changed if each.merge() else same).append(each)
            # Before anything else is written, for which no majority may be found.
            if unwritten := [each for each in same if each.writes]:
                self._confirm(unwritten)
            left = self._round(changed)
            if not left:
                return
            self._read(left)

    def _confirm(self, parcels: Sequence[_Parcel]) -> None:
        """Make sure that a majority has what made these writes unnecessary.

        It may be what they wrote themselves, at a try that was not confirmed.
        """
        if lacking := self._not_durable(parcels):
            write_nothing(self._tracking)
            # Another primary may serve by now, who lacks it.
            self._not_durable(lacking)

    def _not_durable(self, parcels: Sequence[_Parcel]) -> list[_Parcel]:
        self._read(parcels, durable(self._tracking))
        for each in parcels:
            each.is_stored = not each.merge()
        return [each for each in parcels if not each.is_stored]

    def _round(self, parcels: Sequence[_Parcel]) -> list[_Parcel]:
        """Try to store all; returns those of which it is not known that they are stored."""
        again = self._keep_past(parcels)
        ready = [each for each in parcels if each.writes and each not in again]
        new = [each for each in ready if each.stored is None]
        known = [each for each in ready if each.stored is not None]
        return [*again, *self._insert(new), *self._replace(known)]

    def _keep_past(self, parcels: Sequence[_Parcel]) -> set[_Parcel]:
        copies = [(each, copy) for each in parcels for copy in each.past]
        if not copies:
            return set()
        wanted = [ReplaceOne({"_id": copy["_id"]}, copy, upsert=True) for _, copy in copies]
        try:
            self._past.bulk_write(wanted, ordered=False)
        except BulkWriteError as error:
            return _part(error, [each for each, _ in copies])
        return set()

    def _insert(self, parcels: Sequence[_Parcel]) -> set[_Parcel]:
        known: set[_Parcel] = set()
        if not parcels:
            return known
        try:
            self._tracking.insert_many([each.merged for each in parcels], ordered=False)
        except BulkWriteError as error:
            known = _part(error, parcels)
        for each in parcels:
            each.is_stored = each not in known
        return known

    def _replace(self, parcels: Sequence[_Parcel]) -> list[_Parcel]:
        if not parcels:
            return []
        replaced: list[ReplaceOne[Document]] = [
            ReplaceOne(each.unchanged(), each.merged) for each in parcels
        ]
        try:
            matched = self._tracking.bulk_write(replaced, ordered=False).matched_count
        except BulkWriteError as error:
            _part(error, parcels)
            matched = error.details["nMatched"]
        taken = [each for each in parcels if each.writes]
        # MongoDB does not tell which of them did not match.
        if matched < len(taken):
            return taken
        for each in taken:
            each.is_stored = True
        return []

    def _read(self, parcels: Iterable[_Parcel], source: Collection[Document] | None = None) -> None:
        wanted = {each.name: each for each in parcels}
        if not wanted:
            return
        for each in wanted.values():
            each.stored = None
        source = self._tracking if source is None else source
        for document in source.find({"_id": {"$in": list(wanted)}}):
            wanted[document["_id"]].stored = document


class _Parcel:
    """One document that is being written: what is stored as far as we know, and what to write.

    `stored` None: there is no document, or so we guess. `is_stored`: a majority has what was to be
    written. `heard`: somebody may follow the parcel; `mark`: that of the change that is written.
    """

    def __init__(self, name: str, recheck: Recheck, *, heard: bool) -> None:
        self.name = name
        self.recheck = recheck
        self.heard = heard
        self.mark: Mark | None = None
        self.writes: list[Write] = []
        self.refused: list[tuple[Write, TrackingError]] = []
        self.stored: Document | None = None
        self.is_stored = False
        self.merged: RawBSONDocument
        self.past: list[Document] = []

    def is_known(self) -> bool:
        """Whether there probably is a document: re-checks begin with one."""
        return self.writes[0].call.request.origin is Origin.AUTOMATIC

    def unchanged(self) -> Document:
        """The filter that finds the stored document only if nobody wrote it since it was read."""
        return {"_id": self.name, "revision": (self.stored or {})["revision"]}

    def merge(self) -> bool:
        """Work out what to write; false where there is nothing to write.

        Encoded here, one by one: a single answer that cannot be stored must not stop the others.
        """
        try:
            return self._merge(self.writes)
        except _Unstorable:
            good = []
            for write in self.writes:
                try:
                    self._merge([write])
                    good.append(write)
                except _Unstorable as error:
                    self._refuse(write, str(error))
            self.writes = good
            return bool(good) and self._merge(good)

    def refuse(self, why: str) -> None:
        """Store nothing of it: MongoDB does not take the document."""
        for write in self.writes:
            self._refuse(write, why)
        self.writes = []

    def _refuse(self, write: Write, why: str) -> None:
        if isinstance(write, Answer):
            text = f"the answer cannot be stored: {why}"
            self.refused.append((write, UnstorableAnswer(text)))

    def _merge(self, writes: Iterable[Write]) -> bool:
        document, self.past, self.mark = self.stored, [], None
        for write in writes:
            merged = _merged(document, write, self.recheck)
            document = merged.document
            self.past += merged.past
        if document is None or document is self.stored:
            return False
        if self.heard:
            # A number that is used again is another parcel: that one did not change.
            before = None if self.past else self.stored
            document, self.mark = marked(before, document, datetime.now(UTC))
        revision = self.stored["revision"] + 1 if self.stored else 0
        self.merged = _encoded(document | {"revision": revision})
        return True


def _unconfirmed(failure: PyMongoError | None) -> ResultsDown:
    if failure is None:
        return ResultsDown("a majority does not have it yet, or it changes all the time")
    down = mongodb_down(failure)
    down.__cause__ = failure
    return down


def _part(error: BulkWriteError, parcels: Sequence[_Parcel]) -> set[_Parcel]:
    """Refuse those that MongoDB does not take, and return those that were there already.

    Raises `error` if it is about more.
    """
    faults = faults_in(error)
    for index, why in faults.refused.items():
        parcels[index].refuse(why)
    return {parcels[index] for index in faults.known}


def _merged(document: Document | None, write: Write, recheck: Recheck) -> Merged:
    try:
        ordered = document and in_order(document, write, time.time_ns() // 1000)
        return merge(ordered, write, recheck)
    except (KeyError, TypeError, ValueError) as error:
        raise _Unstorable(f"this service did not write the stored document: {error!r}") from error


def _encoded(document: Document) -> RawBSONDocument:
    try:
        data = bson.encode(document)
    except (BSONError, OverflowError, UnicodeError) as error:
        raise _Unstorable(str(error)) from error
    if len(data) > MAX_DOCUMENT_BYTES:
        raise _Unstorable(f"{len(data)} bytes are more than a document may have")
    return RawBSONDocument(data)
