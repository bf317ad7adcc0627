"""Forgetting a parcel in MongoDB, and the collection `forgotten` by which writers know of it.

============ =======================================================================================
member       is
============ =======================================================================================
`_id`        `"usps:9405…"`, the parcel's name: whatever accounts have of it
at_us        when it was forgotten, by Redis' clock in microseconds: what a call that was granted
             until then found out is not stored
until        the end of the mark: no such call can be left. MongoDB deletes it then
============ =======================================================================================

A writer looks for marks before it writes. It looks seldom while there are none, and a mark may be
made right after it has looked: so `forget` during a call clears once more, when that call is over
or every writer has looked again (SEEN_SECONDS).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

from bson import Int64
from pymongo import UpdateOne
from pymongo.collection import Collection

from service.results.document import Document, id_of
from service.results.own_documents import of_everybody
from tracking.call import Call

LOOK_SECONDS = 1.0
"""How often a writer that saw no mark looks again: each look costs a call to MongoDB."""

SEEN_SECONDS = 7.0
"""After so long every writer knows a mark: it looked before, and wrote for at most OPERATION_MS.
What it then waits for is a majority, which the mark has."""

NEVER = -1


class OfCall(Protocol):
    """What is to be written of a call."""

    @property
    def call(self) -> Call:
        """The call that found it out."""


W = TypeVar("W", bound=OfCall)


class Marks:
    """The marks as a writer sees them; for one thread."""

    def __init__(self, forgotten: Collection[Document]) -> None:
        self._forgotten = forgotten
        self._any = False
        self._look_at = float("-inf")

    def left_of(self, writes: Sequence[W]) -> list[W]:
        """Those whose calls were granted since their parcel was forgotten. Raises PyMongoError."""
        marks = self.of(id_of(each.call.request) for each in writes)
        return [
            each
            for each in writes
            if each.call.granted_us > marks.get(id_of(each.call.request), NEVER)
        ]

    def of(self, names: Iterable[str]) -> Mapping[str, int]:
        """`at_us` of those among these `_id`s that were forgotten. Raises PyMongoError."""
        now = time.monotonic()
        if now >= self._look_at:
            self._any = self._forgotten.find_one({}, {"_id": 1}) is not None
            self._look_at = now + LOOK_SECONDS
        if not self._any:
            return {}
        found = self._forgotten.find({"_id": {"$in": list(names)}})
        return {mark["_id"]: mark["at_us"] for mark in found}


@dataclass(frozen=True, slots=True)
class Parcel:
    """What to forget: everything that calls granted until `at_us` found out."""

    slug: str
    number: str
    at_us: int

    @property
    def name(self) -> str:
        """Its name, as in the `_id` of its documents."""
        return f"{self.slug}:{self.number}"

    @property
    def at(self) -> datetime:
        """The same instant in the form in which MongoDB keeps it."""
        return datetime.fromtimestamp(self.at_us // 1000 / 1000, UTC)


def mark(forgotten: Collection[Document], parcels: Sequence[Parcel], seconds: float) -> None:
    """Have writers discard what was found out before; the newest mark of a parcel stands."""
    forgotten.create_index("until", expireAfterSeconds=0)
    marks = [
        UpdateOne(
            {"_id": each.name},
            {"$max": {"at_us": Int64(each.at_us), "until": each.at + timedelta(seconds=seconds)}},
            upsert=True,
        )
        for each in parcels
    ]
    forgotten.bulk_write(marks, ordered=False)


def clear(
    tracking: Collection[Document],
    past: Collection[Document],
    unreadable: Collection[Document],
    operations: Collection[Document],
    parcel: Parcel,
) -> dict[str, int]:
    """Delete what anybody has of a parcel; tells how many documents of each collection that were.

    A document that was begun after `parcel.at_us` stays: somebody has asked again.
    """
    # This service did not write a document without such a member: it goes.
    before = {"created_at": {"$not": {"$gt": parcel.at}}}
    named = {"slug": parcel.slug, "tracking_number": parcel.number}
    everybody = of_everybody(parcel.name)
    observed = {"observed_us": {"$not": {"$gt": Int64(parcel.at_us)}}}
    asked = {"slug": parcel.slug, "number": parcel.number, "admitted_at": {"$lte": parcel.at}}
    return {
        "tracking": tracking.delete_many(everybody | before).deleted_count,
        "tracking_past": past.delete_many(named | before).deleted_count,
        "unreadable": unreadable.delete_many(everybody | observed).deleted_count,
        "operations": operations.delete_many(asked).deleted_count,
    }
