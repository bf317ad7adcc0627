"""Retention: purges what is older than its setting allows, a few documents at a time, by an index.

========== ============================ ============================================================
kind       setting                      old is
========== ============================ ============================================================
operations `[operations] keep_days`     an operation that ended so long ago
dead       `[dead] keep_days`           a record of a dead request
unreadable `[dead] keep_days`           an answer that could not be read, with its body
results    `[results] keep_days`        a parcel that ended, 0 for never; not while somebody is
                                        still to hear of a change of it (change.py)
past       `[results] keep_days`        an earlier parcel of the same number, 0 for never
excerpts   `[results] excerpt_days`     what an attempt quotes of an answer; the attempt stays
========== ============================ ============================================================

MongoDB itself deletes all but operations and excerpts, too: those may be so many that it would be
busy with nothing else for minutes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pymongo
from pymongo.collection import Collection

from service.worker.results.database import (
    HAS_EXCERPT,
    NONE_UNTOLD,
    UNBOUNDED_SECONDS,
    Collections,
    Document,
    Names,
    change_each,
)

BATCH_SIZE = 500
"""Documents of one batch: MongoDB is busy with them for some ten milliseconds."""

REST = 19.0
"""A batch is followed by a rest that lasts so many times as long: others have their turn."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of document that has an end. `change`: what is done instead of deleting it.

    `gone` ends what belongs to documents that are deleted; it gets their `needed` members.
    """

    name: str
    collection: Collection[Document]
    old: Document
    change: Document | None = None
    filters: list[Mapping[str, Any]] = field(default_factory=list)
    gone: Callable[[Sequence[Document]], object] | None = None
    needed: tuple[str, ...] = ("_id",)


def kinds(stores: Collections, names: Names, now: dt.datetime) -> Iterator[Kind]:
    """List all kinds that have an end."""

    def before(days: int) -> dt.datetime:
        return now - dt.timedelta(days=days)

    ended = {"finished_at": {"$lt": before(names.operations_keep_days)}}
    yield Kind("operations", stores.operations, ended)
    recorded = {"at": {"$lt": before(names.dead_keep_days)}}
    yield Kind("dead", stores.dead, recorded)
    yield Kind("unreadable", stores.unreadable, recorded)
    if names.results_keep_days:
        changed = {"updated_at": {"$lt": before(names.results_keep_days)}}
        yield Kind("results", stores.tracking, {"active": False, **NONE_UNTOLD, **changed})
        yield Kind("past", stores.past, changed)
    for collection in (stores.tracking, stores.past):
        yield _excerpts(collection, before(names.excerpt_days))


def _excerpts(collection: Collection[Document], before: dt.datetime) -> Kind:
    old = {"at": {"$lt": before}, "excerpt": {"$gt": ""}}
    # A writer that read the document before must see that somebody has changed it: `revision`.
    change = {"$set": {"attempts.$[old].excerpt": ""}, "$inc": {"revision": 1}}
    filters: list[Mapping[str, Any]] = [{"old.at": {"$lt": before}}]
    wanted = {**HAS_EXCERPT, "attempts": {"$elemMatch": old}}
    return Kind("excerpts", collection, wanted, change, filters)


def purge_some(kind: Kind) -> tuple[int, bool]:
    """Purge one batch. Returns how many, and whether there may be more. Raises PyMongoError."""
    asked = kind.collection.find(kind.old, list(kind.needed), limit=BATCH_SIZE)
    found = list(asked.batch_size(BATCH_SIZE))
    names = [each["_id"] for each in found]
    if not names:
        return 0, False
    # Asked once more: what somebody has changed meanwhile is not old any more. By `_id`: with the
    # other index MongoDB would look at all that is old, for each batch.
    wanted = {"_id": {"$in": names}, **kind.old}
    if kind.change is None:
        count = kind.collection.delete_many(wanted, hint="_id_").deleted_count
        if kind.gone is not None:
            stay = set(kind.collection.distinct("_id", {"_id": {"$in": names}}))
            kind.gone([each for each in found if each["_id"] not in stay])
    else:
        count, _ = change_each(kind.collection, wanted, kind.change, kind.filters or None)
    # None of them: they are refused, and would be found again at once.
    return count, count > 0 and len(names) == BATCH_SIZE


def count_old(kind: Kind) -> int:
    """Count what is old; of millions that takes seconds. Raises PyMongoError."""
    with pymongo.timeout(UNBOUNDED_SECONDS):
        return kind.collection.count_documents(kind.old)
