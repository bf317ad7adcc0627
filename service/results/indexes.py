"""The indexes that the worker's own questions need, and how long what is kept aside is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import bson
import pymongo
from pymongo import ASCENDING
from pymongo.collection import Collection

from service.results.names import LINKS, OPERATIONS, UNKNOWN_CODES, Names

DAY_SECONDS = 86_400
CODE_KEEP_DAYS = 90
KEEP_DAYS_INDEX = "keep_days"
"""A name of its own: no index that was made for reading must ever begin to delete."""

OF_BEFORE = "next_check_at_1"
"""Of `tracking`, when couriers took no turns."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""Before any check: an index on dates alone needs a bound to compare with."""

HAS_EXCERPT: Mapping[str, Any] = {"attempts.excerpt": {"$gt": ""}}
"""Documents with an attempt that quotes an answer: those of failures."""

Spec = Mapping[str, Any]
"""What MongoDB tells of an index that is there."""


@dataclass(frozen=True, slots=True)
class Index:
    """One index, ascending in its `members`.

    `keep_days`: documents go so long after the date in its one member; 0: none ever goes, so the
    index is not to be there; None: it is for questions, and removes nothing.
    """

    members: tuple[str, ...]
    partial: Mapping[str, Any] | None = None
    keep_days: int | None = None
    own_name: str = ""

    @property
    def name(self) -> str:
        """By default what MongoDB itself would call it."""
        return self.own_name or "_".join(f"{member}_{ASCENDING}" for member in self.members)

    def has_keys_of(self, spec: Spec) -> bool:
        """Whether an index that is there has the same members, for the same documents."""
        keys = [(member, ASCENDING) for member in self.members]
        partial = spec.get("partialFilterExpression") or {}
        # As BSON: whether a date has a zone in Python depends on who read it.
        same = bson.encode(partial) == bson.encode(self.partial or {})
        return list(spec["key"]) == keys and same and "collation" not in spec

    def is_served_by(self, spec: Spec) -> bool:
        """Whether an index that is there does the same, whatever it is called."""
        keeps = None if self.keep_days is None else self.keep_days * DAY_SECONDS
        return (
            self.has_keys_of(spec)
            and not spec.get("sparse")
            and spec.get("expireAfterSeconds") == keeps
        )


def indexes_for(names: Names) -> dict[str, Sequence[Index]]:
    """The indexes of every collection, by its name."""
    return {
        names.tracking: (
            # For re-checks.
            Index(
                ("active", "slug", "next_check_at"),
                {"active": True, "next_check_at": {"$gt": EPOCH}},
            ),
            # A reader pages through many parcels of one instant (examples/read_changes.py).
            Index(("updated_at", "_id")),
            Index(("tag", "slug")),
            Index(("updated_at",), {"active": False}, names.results_keep_days, KEEP_DAYS_INDEX),
            Index(("attempts.at",), HAS_EXCERPT),
        ),
        names.past: (
            Index(("slug", "tracking_number")),
            Index(("updated_at",), None, names.results_keep_days, KEEP_DAYS_INDEX),
            Index(("attempts.at",), HAS_EXCERPT),
        ),
        names.dead: (
            Index(("slug", "reason")),
            Index(("operations",)),
            Index(("at",), None, names.dead_keep_days),
            # Listed page by page, the newest first.
            Index(("at", "_id")),
        ),
        # There are few, so they are searched without an index.
        names.unreadable: (Index(("at",), None, names.dead_keep_days),),
        # By id they are found by `_id`. Purge ends them, a few at a time: MongoDB itself would
        # delete those of a minute at once.
        OPERATIONS: (Index(("slug", "number", "admitted_at")), Index(("finished_at",))),
        LINKS: (Index(("sha256",)), Index(("account", "_id")), Index(("slug", "number"))),
        UNKNOWN_CODES: (Index(("last_seen",), None, CODE_KEEP_DAYS),),
    }


def make_indexes(collection: Collection[Any], wanted: Sequence[Index]) -> None:
    """Make what is missing, and follow settings that changed. Repeating it changes nothing."""
    for index in wanted:
        found = collection.index_information()
        if index.keep_days is not None:
            _expire(collection, index, found)
        elif not any(map(index.is_served_by, found.values())):
            _make(collection, index)
    if OF_BEFORE in collection.index_information():
        collection.drop_index(OF_BEFORE)


def _expire(collection: Collection[Any], index: Index, found: Mapping[str, Spec]) -> None:
    """Have documents deleted after the days of the setting, those that are there already too."""
    days, spec = index.keep_days or 0, found.get(index.name)
    if spec is None:
        if days and not any(map(index.is_served_by, found.values())):
            _make(collection, index, expireAfterSeconds=days * DAY_SECONDS)
    elif not days:
        collection.drop_index(index.name)
    elif spec.get("expireAfterSeconds") != days * DAY_SECONDS:
        change = {"name": index.name, "expireAfterSeconds": days * DAY_SECONDS}
        collection.database.command("collMod", collection.name, index=change)


def _make(collection: Collection[Any], index: Index, **options: Any) -> None:
    if index.partial is not None:
        options["partialFilterExpression"] = index.partial
    keys = [(member, ASCENDING) for member in index.members]
    # Over millions of documents this takes longer than any other operation may.
    with pymongo.timeout(None):
        collection.create_index(keys, name=index.name, **options)
