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
relay.request      another system sent a request to a relay; no filter names it
================== ===============================================================================

A parcel of which nothing is stored stands as one that its courier does not know yet: a first answer
that says so is no change.

The write that changes a document adds a mark to its list `untold`, where somebody may follow the
parcel. It stands there until the outbox has told of the change (deliveries/outbox.py).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from service.worker.results.database import UNTOLD, Document
from service.worker.results.document import CONTENT, document_id, stored
from tracking.checkpoint import NOT_FOUND_YET, Tag
from tracking.request import MAIN, Account, Number, Slug

WATCHED = ("tag", "subtag", "expected_delivery", "checkpoints")
"""Members of a document that make a change when they do."""

TOLD = (*CONTENT, "delivered", "active", "tracked_count", "updated_at")
"""Members of a document that its followers hear of."""

MARKS_MOST = 20
"""Marks of a document: so many changes of one parcel wait only where nobody tells of any."""

CHECKPOINTS_MOST = 50
"""The newest checkpoints that a mark holds: more than nearly all parcels ever have."""

ID_BYTES = 16


class EventName(StrEnum):
    """The names of events, as they stand in bodies and filters."""

    PARCEL_CHANGED = "parcel.changed"
    PARCEL_DELIVERED = "parcel.delivered"
    PARCEL_EXCEPTION = "parcel.exception"
    PARCEL_EXPIRED = "parcel.expired"
    OPERATION_ENDED = "operation.ended"
    SERVICE_DISABLED = "service.disabled"
    SERVICE_RECOVERED = "service.recovered"
    RELAY_REQUEST = "relay.request"


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


class Mark(NamedTuple):
    """A change that its followers are still to hear of, as it stands in the document's `untold`.

    `id` is random. `before`: what the watched members were, checkpoints as their number, or None
    where there was no document of this parcel. `after`: the content that was written, with its
    newest CHECKPOINTS_MOST checkpoints.
    """

    id: str
    account: Account
    slug: Slug
    number: Number
    events: tuple[EventName, ...]
    changed: tuple[str, ...]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any]
    at: datetime

    @property
    def document(self) -> str:
        """The `_id` of the document in which it stands."""
        return document_id(f"{self.slug}:{self.number}", self.account)


class Changes(Protocol):
    """Follows the changes of parcels, so that those who want to hear of them do."""

    def hears(self, account: Account) -> bool:
        """Whether somebody may follow an account's parcels. Called in the thread that writes."""

    def note(self, marks: Sequence[Mark]) -> None:
        """Take note of marks that a majority has; they stand in their documents as well."""


def marked(before: Document | None, after: Document, at: datetime) -> tuple[Document, Mark | None]:
    """Add the mark of a change to the document that is about to be written, if it is one.

    `before`: what is stored of the same parcel. Of MARKS_MOST marks the last one and the new one
    become one, under a new id: the outbox may be telling of the last one, and pulls it then.
    """
    events = events_of(before, after)
    if not events:
        return after, None
    changed = changed_members(before, after)
    old, untold = before and _watched(before), list(after.get(UNTOLD) or ())
    while len(untold) >= MARKS_MOST:
        last = untold.pop()
        events = tuple(each for each in EventName if each in {*events, *last["events"]})
        changed = tuple(each for each in WATCHED if each in {*changed, *last["changed"]})
        old = last["before"]
    written = {
        "id": secrets.token_hex(ID_BYTES),
        "events": list(events),
        "changed": list(changed),
        "before": old,
        "after": _told(after),
        "at": stored(at),
    }
    return after | {UNTOLD: [*untold, written]}, _mark_in(after, written)


def marks_in(document: Document) -> list[Mark]:
    """Read the marks of a document. Raises KeyError, TypeError, ValueError for what is none."""
    return [_mark_in(document, each) for each in document.get(UNTOLD) or ()]


def _mark_in(document: Document, written: Document) -> Mark:
    return Mark(
        id=written["id"],
        account=document.get("account", MAIN),
        slug=document["slug"],
        number=document["tracking_number"],
        events=tuple(map(EventName, written["events"])),
        changed=tuple(written["changed"]),
        before=written["before"],
        after=written["after"],
        at=written["at"],
    )


def _watched(document: Document) -> Document:
    members = {name: document.get(name) for name in WATCHED}
    return members | {"checkpoints": len(document.get("checkpoints") or ())}


def _told(document: Document) -> Document:
    members = {name: document.get(name) for name in TOLD}
    return members | {"checkpoints": document["checkpoints"][-CHECKPOINTS_MOST:]}
