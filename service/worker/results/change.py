"""Changes: what a write to a parcel's document means to those who follow the parcel.

================== ===============================================================================
event              when
================== ===============================================================================
parcel.changed     tag, subtag, expected delivery or checkpoints are others than before
parcel.delivered   and the parcel is delivered, which it was not
parcel.exception   and its tag has become Exception
parcel.expired     and its tag has become Expired
operation.ended    a request ended that names a service
service.disabled   a service is switched off; the account's other services hear of it
service.recovered  it takes deliveries again
================== ===============================================================================

A parcel of which nothing is stored stands as one that its courier does not know yet: a first answer
that says so is no change.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from tracking.checkpoint import NOT_FOUND_YET, Tag

WATCHED = ("tag", "subtag", "expected_delivery", "checkpoints")
"""Members of a document that make a change when they do."""


class EventName(StrEnum):
    """The names of events, as they stand in bodies and filters."""

    PARCEL_CHANGED = "parcel.changed"
    PARCEL_DELIVERED = "parcel.delivered"
    PARCEL_EXCEPTION = "parcel.exception"
    PARCEL_EXPIRED = "parcel.expired"
    OPERATION_ENDED = "operation.ended"
    SERVICE_DISABLED = "service.disabled"
    SERVICE_RECOVERED = "service.recovered"


_OF_TAG: Mapping[str, EventName] = {
    Tag.DELIVERED: EventName.PARCEL_DELIVERED,
    Tag.EXCEPTION: EventName.PARCEL_EXCEPTION,
    Tag.EXPIRED: EventName.PARCEL_EXPIRED,
}

_UNKNOWN: Mapping[str, Any] = {
    "tag": str(NOT_FOUND_YET.tag),
    "subtag": NOT_FOUND_YET.subtag,
    "expected_delivery": None,
    "checkpoints": [],
}


def changed_members(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the watched members that a write changed; `before` None: there was no document."""
    old = _UNKNOWN if before is None else before
    return tuple(name for name in WATCHED if old.get(name) != after.get(name))


def events_of(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> tuple[EventName, ...]:
    """List the events of a write to a parcel's document, parcel.changed first; none for no change.

    A number that its courier uses again is another parcel: pass None for `before`.
    """
    changed = changed_members(before, after)
    if not changed:
        return ()
    special = _OF_TAG.get(after["tag"]) if "tag" in changed else None
    return (EventName.PARCEL_CHANGED, special) if special else (EventName.PARCEL_CHANGED,)
