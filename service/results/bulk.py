"""Writes to `tracking` in bulk, so that the newest observation wins over every other writer.

Most documents are new, and an insert costs the server a fifth of an upsert: so all are inserted at
first. Those that were there already are read, merged and replaced, each only if it is still what
was read (`revision`); where somebody was quicker, again. Merging is idempotent, so it does no harm
to merge what is stored already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import bson
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from pymongo import ReplaceOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from service.config.schema import Recheck
from service.results.connection import Document
from service.results.document import Answer, Failure, name_of
from service.results.forgetting import Marks
from service.results.merge import Merged, merge
from tracking.errors import ResultsDown, TrackingError, UnreadableAnswer
from tracking.request import Origin

DUPLICATE_KEY = 11000
DOCUMENT_MOST = 16 * 1024 * 1024
"""Bytes; MongoDB's own limit."""

ROUNDS_MOST = 50
"""In each round somebody succeeds; so many failures in a row are no coincidence any more."""

Write = Answer | Failure
RecheckOf = Callable[[str], Recheck]
"""What `[recheck]` says for a slug."""


class _Unstorable(Exception):
    """What BSON or MongoDB cannot hold, or cannot be merged with what somebody else put there."""


class BulkWriter:
    """Stores answers and failures; for one thread."""

    def __init__(
        self,
        tracking: Collection[Document],
        past: Collection[Document],
        marks: Marks,
        recheck_of: RecheckOf,
    ) -> None:
        self._tracking = tracking
        self._past = past
        self._marks = marks
        self._recheck_of = recheck_of

    def write(self, writes: Sequence[Write]) -> list[TrackingError | None]:
        """Store all. None for each that is stored, UnreadableAnswer for an answer that cannot be.

        What was asked before its parcel was forgotten is dropped, and so is a failure that cannot
        be noted: its operation ends all the same.
        Raises PyMongoError or ResultsDown: all of them may be stored or not.
        """
        parcels: dict[str, _Parcel] = {}
        for write in self._marks.left_of(writes):
            name = name_of(write.call)
            if name not in parcels:
                parcels[name] = _Parcel(name, self._recheck_of(write.call.request.slug))
            parcels[name].writes.append(write)
        left = list(parcels.values())
        self._read(each for each in left if each.is_known())
        for _ in range(ROUNDS_MOST):
            left = self._round([each for each in left if each.merge()])
            if not left:
                break
            self._read(left)
        else:
            raise ResultsDown(f"{len(left)} documents change faster than they can be written")
        refused = {id(write): error for each in parcels.values() for write, error in each.refused}
        return [refused.get(id(write)) for write in writes]

    def _round(self, parcels: Sequence[_Parcel]) -> list[_Parcel]:
        """Try to store all; returns those of which it is not known that they are stored."""
        past = [copy for each in parcels for copy in each.past]
        if past:
            copies = [ReplaceOne({"_id": each["_id"]}, each, upsert=True) for each in past]
            self._past.bulk_write(copies, ordered=False)
        new = [each for each in parcels if each.stored is None]
        known = [each for each in parcels if each.stored is not None]
        return self._insert(new) + self._replace(known)

    def _insert(self, parcels: Sequence[_Parcel]) -> list[_Parcel]:
        if not parcels:
            return []
        try:
            self._tracking.insert_many([each.merged for each in parcels], ordered=False)
        except BulkWriteError as error:
            return [parcels[index] for index in duplicates_in(error)]
        return []

    def _replace(self, parcels: Sequence[_Parcel]) -> list[_Parcel]:
        if not parcels:
            return []
        replaced: list[ReplaceOne[Document]] = [
            ReplaceOne(each.unchanged(), each.merged) for each in parcels
        ]
        result = self._tracking.bulk_write(replaced, ordered=False)
        # Which of them did not match is not told.
        return [] if result.matched_count == len(replaced) else list(parcels)

    def _read(self, parcels: Iterable[_Parcel]) -> None:
        wanted = {each.name: each for each in parcels}
        if not wanted:
            return
        for each in wanted.values():
            each.stored = None
        for document in self._tracking.find({"_id": {"$in": list(wanted)}}):
            wanted[document["_id"]].stored = document


class _Parcel:
    """One document on its way: what is stored as far as we know, and what is to be written.

    `stored` None: there is no document, or so we guess.
    """

    def __init__(self, name: str, recheck: Recheck) -> None:
        self.name = name
        self.recheck = recheck
        self.writes: list[Write] = []
        self.refused: list[tuple[Write, TrackingError]] = []
        self.stored: Document | None = None
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
                    if isinstance(write, Answer):
                        text = f"the answer cannot be stored: {error}"
                        self.refused.append((write, UnreadableAnswer(text)))
            self.writes = good
            return bool(good) and self._merge(good)

    def _merge(self, writes: Iterable[Write]) -> bool:
        document, self.past = self.stored, []
        for write in writes:
            merged = _merged(document, write, self.recheck)
            document = merged.document
            self.past += merged.past
        if document is None or document is self.stored:
            return False
        revision = self.stored["revision"] + 1 if self.stored else 0
        self.merged = _encoded(document | {"revision": revision})
        return True


def duplicates_in(error: BulkWriteError) -> list[int]:
    """Which of the inserted documents were there already. Raises `error` if it is anything else."""
    faults = error.details["writeErrors"]
    unconfirmed = error.details.get("writeConcernErrors")
    if unconfirmed or any(each["code"] != DUPLICATE_KEY for each in faults):
        raise error
    return [each["index"] for each in faults]


def _merged(document: Document | None, write: Write, recheck: Recheck) -> Merged:
    try:
        return merge(document, write, recheck)
    except (KeyError, TypeError, ValueError) as error:
        raise _Unstorable(f"this service did not write the stored document: {error!r}") from error


def _encoded(document: Document) -> RawBSONDocument:
    try:
        data = bson.encode(document)
    except (BSONError, OverflowError, UnicodeError) as error:
        raise _Unstorable(str(error)) from error
    if len(data) > DOCUMENT_MOST:
        raise _Unstorable(f"{len(data)} bytes are more than a document may have")
    return RawBSONDocument(data)
