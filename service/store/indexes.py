"""The indexes that the worker's own questions need, and how long what is kept aside is kept."""

from __future__ import annotations

from typing import Any

from pymongo import ASCENDING
from pymongo.collection import Collection

DAY_SECONDS = 86_400
CODE_KEEP_DAYS = 90


def index_tracking(tracking: Collection[Any]) -> None:
    """For re-checks, for readers of what changed, and for counts. Repeating changes nothing."""
    tracking.create_index("next_check_at", partialFilterExpression={"active": True})
    # Both keys: a reader pages through many parcels of one instant (examples/read_changes.py).
    tracking.create_index([("updated_at", ASCENDING), ("_id", ASCENDING)])
    tracking.create_index([("tag", ASCENDING), ("slug", ASCENDING)])


def index_past(past: Collection[Any]) -> None:
    """For the earlier parcels of a number. Repeating changes nothing."""
    past.create_index([("slug", ASCENDING), ("tracking_number", ASCENDING)])


def index_dead(dead: Collection[Any], keep_days: int) -> None:
    """For lists, and for the end of `keep_days`."""
    dead.create_index([("slug", ASCENDING), ("reason", ASCENDING)])
    _expire(dead, keep_days)


def index_unreadable(unreadable: Collection[Any], keep_days: int) -> None:
    """For the end of `keep_days`; there are few, so they are searched without an index."""
    _expire(unreadable, keep_days)


def index_unknown_codes(unknown_codes: Collection[Any]) -> None:
    """For the end of those that no courier gives any more. Repeating changes nothing."""
    unknown_codes.create_index("last_seen", expireAfterSeconds=CODE_KEEP_DAYS * DAY_SECONDS)


def _expire(collection: Collection[Any], keep_days: int) -> None:
    """Have documents deleted so long after `at`; it follows the setting when that changes."""
    seconds = keep_days * DAY_SECONDS
    found = collection.index_information().get("at_1")
    if found is None:
        collection.create_index("at", expireAfterSeconds=seconds)
    elif found.get("expireAfterSeconds") != seconds:
        change = {"keyPattern": {"at": 1}, "expireAfterSeconds": seconds}
        collection.database.command("collMod", collection.name, index=change)
