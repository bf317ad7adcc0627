"""The indexes that the worker's own questions need, and how long what is kept aside is kept."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pymongo
from pymongo import ASCENDING
from pymongo.collection import Collection

DAY_SECONDS = 86_400
CODE_KEEP_DAYS = 90
KEEP_DAYS_INDEX = "keep_days"
"""A name of its own: no index that was made for reading must ever begin to delete."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""Before any check: an index on dates alone needs a bound to compare with."""


def index_tracking(tracking: Collection[Any], keep_days: int) -> None:
    """For re-checks, readers of what changed, and counts; and for the end of `keep_days`."""
    due = {"active": True, "next_check_at": {"$gt": EPOCH}}
    keys = [("active", ASCENDING), ("slug", ASCENDING), ("next_check_at", ASCENDING)]
    with pymongo.timeout(None):  # there may be millions of documents of before
        tracking.create_index(keys, partialFilterExpression=due)
    if "next_check_at_1" in tracking.index_information():
        tracking.drop_index("next_check_at_1")  # of before, when couriers took no turns
    # Both keys: a reader pages through many parcels of one instant (examples/read_changes.py).
    tracking.create_index([("updated_at", ASCENDING), ("_id", ASCENDING)])
    tracking.create_index([("tag", ASCENDING), ("slug", ASCENDING)])
    ended = {"active": False}
    _expire(tracking, "updated_at", keep_days, name=KEEP_DAYS_INDEX, partialFilterExpression=ended)


def index_past(past: Collection[Any], keep_days: int) -> None:
    """For the earlier parcels of a number, and for the end of `keep_days`."""
    past.create_index([("slug", ASCENDING), ("tracking_number", ASCENDING)])
    _expire(past, "updated_at", keep_days, name=KEEP_DAYS_INDEX)


def index_dead(dead: Collection[Any], keep_days: int) -> None:
    """For lists, and for the end of `keep_days`."""
    dead.create_index([("slug", ASCENDING), ("reason", ASCENDING)])
    _expire(dead, "at", keep_days)


def index_unreadable(unreadable: Collection[Any], keep_days: int) -> None:
    """For the end of `keep_days`; there are few, so they are searched without an index."""
    _expire(unreadable, "at", keep_days)


def index_unknown_codes(unknown_codes: Collection[Any]) -> None:
    """For the end of those that no courier gives any more. Repeating changes nothing."""
    unknown_codes.create_index("last_seen", expireAfterSeconds=CODE_KEEP_DAYS * DAY_SECONDS)


def _expire(collection: Collection[Any], member: str, keep_days: int, **options: Any) -> None:
    """Have documents deleted so long after `member`; 0 days for never.

    It follows the setting when that changes, for the documents that are there already too.
    """
    name, seconds = options.setdefault("name", f"{member}_1"), keep_days * DAY_SECONDS
    found = collection.index_information().get(name)
    if found is None and keep_days:
        # Over millions of documents this takes longer than any other operation may.
        with pymongo.timeout(None):
            collection.create_index(member, expireAfterSeconds=seconds, **options)
    elif found is not None and not keep_days:
        collection.drop_index(name)
    elif found is not None and found.get("expireAfterSeconds") != seconds:
        change = {"name": name, "expireAfterSeconds": seconds}
        collection.database.command("collMod", collection.name, index=change)
