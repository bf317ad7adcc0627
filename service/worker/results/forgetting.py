"""Forgetting a parcel: deletes its documents, and marks it in the collection `forgotten`.

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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from bson import Int64
from pymongo import UpdateOne
from pymongo.collection import Collection

from service.worker.results.connection import NEVER, Marks
from service.worker.results.database import Collections, Document
from service.worker.results.document import of_everybody

SEEN_SECONDS = 7.0
"""After so long every writer knows a mark: it looked before, and wrote for at most OPERATION_MS.
What it then waits for is a majority, which the mark has."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """A parcel to forget, with all that calls granted until `at_us` found out."""

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


def clear(stores: Collections, parcel: Parcel) -> dict[str, int]:
    """Delete what every account has of a parcel. Returns how many documents of each kind.

    A document that was begun after `parcel.at_us` stays: somebody has asked again.
    """
    # This service did not write a document without such a member: it goes.
    before = {"created_at": {"$not": {"$gt": parcel.at}}}
    observed = {"observed_us": {"$not": {"$gt": Int64(parcel.at_us)}}}
    everybody = of_everybody(parcel.name)
    named = {"slug": parcel.slug, "number": parcel.number}
    past = {"slug": parcel.slug, "tracking_number": parcel.number}
    wanted: dict[str, tuple[Collection[Document], Document]] = {
        "tracking": (stores.tracking, everybody | before),
        "tracking_past": (stores.past, past | before),
        "unreadable": (stores.unreadable, everybody | observed),
        "operations": (stores.operations, named | {"admitted_at": {"$lte": parcel.at}}),
        "shipments": (stores.shipments, {"parcel": parcel.name, "created_at": {"$lte": parcel.at}}),
        "links": (stores.links, named),
        "refused": (stores.refused, {f"document.{name}": text for name, text in named.items()}),
    }
    row = {"parcel": parcel.name}
    stores.imports.update_many({"rows.parcel": parcel.name}, {"$pull": {"rows": row}})
    return {kind: home.delete_many(each).deleted_count for kind, (home, each) in wanted.items()}


class Written(NamedTuple):
    """A document that was just written: its `_id`, its parcel, and when that was asked for."""

    id: object
    parcel: str
    asked_us: float


def written(document: Document) -> Written:
    """Say it of a document of `operations` or `dead`."""
    asked_at = document.get("admitted_at") or document["at"]
    parcel = f"{document['slug']}:{document['number']}"
    return Written(document["_id"], parcel, asked_at.timestamp() * 1_000_000)


def withdraw(
    home: Collection[Document], forgotten: Collection[Document], made: Iterable[Written]
) -> None:
    """Delete documents again that were asked for before their parcel was forgotten.

    Call it after the write, not before: `forget` makes its mark first and then deletes what is
    there. Raises PyMongoError.
    """
    there = list(made)
    marks = Marks(forgotten).of({each.parcel for each in there}) if there else {}
    gone = [each.id for each in there if each.asked_us <= marks.get(each.parcel, NEVER)]
    if gone:
        home.delete_many({"_id": {"$in": gone}})
