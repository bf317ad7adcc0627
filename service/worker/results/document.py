"""The document of a parcel in the collection `tracking` (docs/interface.md §3). Pure.

Besides the contract's members there are four internal ones: `observed_us`, the grant of the call
whose answer this is (Redis' time in microseconds, 0 before the first answer), which decides what is
newer; `revision`, one more with each write, which tells whether somebody wrote in between;
`check_pace`, by which re-checks go (`recheck_policy.py`); and `untold`, changes of which somebody
is still to hear (`change.py`), missing where there are none.

Each account that asks for a parcel has a document of its own, also in `tracking_past` (where the
first event follows in `_id`) and in `unreadable`. No number contains `@`.

======= ====================== ================
account `_id`                  member `account`
======= ====================== ================
`main`  `"usps:9405…"`         is missing
`shop`  `"usps:9405…@shop"`    `"shop"`
======= ====================== ================
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, NamedTuple

from bson import Int64

from service.config.schema import Recheck
from service.worker.results.database import Document
from service.worker.results.recheck_policy import ParcelAge, next_check, pace_of
from tracking.call import Attempt, Call
from tracking.checkpoint import Checkpoint, Tag, Tracking, is_active
from tracking.errors import CourierError
from tracking.request import MAIN, Account, TrackingRequest

ASKED_ALONE = "asked_alone"
"""The member that is true where answers for several numbers leave this one out."""

ALONE_FACTOR = 2
"""By so much a parcel that takes a call of its own is checked less often."""

MAX_ATTEMPTS = 10
MAX_EXCERPT_BYTES = 1024

_MICROSECOND = timedelta(microseconds=1)

LASTING = ("signed_by", "proof_of_delivery", "weight_grams", "service", "reference", "sub_parcels")
"""What an answer that does not say it leaves as it was."""

CONTENT = (
    "tag",
    "subtag",
    "checkpoints",
    "expected_delivery",
    "delivered_at",
    "delivered_at_utc",
    "origin",
    "destination",
    *LASTING,
)
"""What comes from the courier: `updated_at` moves when one of these does."""


class Answer(NamedTuple):
    """A courier's answer, to be stored for the call's account."""

    call: Call
    tracking: Tracking
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed call, to be noted as `Answer` is. `final`: the operation ends with it."""

    call: Call
    error: CourierError
    attempt: Attempt
    final: bool


def id_of(request: TrackingRequest) -> str:
    """The name of a request's parcel, which is the `_id` of the document that `main` has of it."""
    return f"{request.slug}:{request.number}"


def document_id(parcel: str, account: Account) -> str:
    """Name the document that an account has of a parcel."""
    return parcel if account == MAIN else f"{parcel}@{account}"


def parcel_in(name: str) -> str:
    """Read the parcel out of what `document_id` made."""
    return name.partition("@")[0]


def of_everybody(parcel: str) -> Document:
    """Ask for the documents that accounts have of a parcel, by the index on `_id`."""
    return {"_id": {"$in": [parcel, re.compile(f"^{re.escape(parcel)}@")]}}


def whose(account: Account) -> Document:
    """Say in a document whose it is."""
    return {} if account == MAIN else {"account": account}


def fields_in(document: Mapping[str, Any] | None) -> dict[str, str]:
    """Read what its account asks the courier with, besides the number; {} where nothing is."""
    return (document or {}).get("fields") or {}


def name_of(call: Call) -> str:
    """The `_id` of the document into which an answer to this call goes."""
    return document_id(id_of(call.request), call.account)


def granted_at(call: Call) -> datetime:
    """When the courier was asked, by the clock of Redis, which all workers share."""
    return datetime.fromtimestamp(call.granted_us // 1000 / 1000, UTC)


def begun(
    request: TrackingRequest, at: datetime, content: Document, account: Account = MAIN
) -> Document:
    """The first document of a parcel, with what a courier says about it, before any status."""
    return {
        "_id": document_id(id_of(request), account),
        **whose(account),
        "slug": request.slug,
        "tracking_number": request.number,
        "fields": dict(request.fields),
        "delivered": False,
        "active": True,
        **content,
        "error": None,
        "attempts": [],
        "tracked_count": 0,
        "created_at": at,
        "updated_at": at,
        "last_checked_at": None,
        "next_check_at": None,
        "check_pace": None,
        "observed_us": Int64(0),
        "revision": 0,
    }


def content_of(tracking: Tracking) -> Document:
    """The members of a document that come from a courier's answer."""
    return {
        "tag": str(tracking.tag),
        "subtag": tracking.subtag,
        "checkpoints": [_checkpoint(each) for each in tracking.checkpoints],
        "expected_delivery": tracking.expected_delivery,
        "delivered_at": tracking.delivered_at,
        "delivered_at_utc": _or_none(tracking.delivered_at_utc),
        "signed_by": tracking.signed_by,
        "origin": tracking.origin,
        "destination": tracking.destination,
        "proof_of_delivery": tracking.proof_of_delivery,
        "weight_grams": tracking.weight_grams,
        "service": tracking.service,
        "reference": tracking.reference,
        "sub_parcels": list(tracking.sub_parcels),
    }


def with_status(
    document: Document, tag: Tag, subtag: str, at: datetime, recheck: Recheck
) -> Document:
    """Set a document's tag, its subtag and what follows from them."""
    document |= {
        "tag": str(tag),
        "subtag": subtag,
        "delivered": tag is Tag.DELIVERED,
        "active": is_active(tag, subtag),
    }
    return scheduled(document, tag, at, recheck)


def scheduled(document: Document, tag: Tag, at: datetime, recheck: Recheck) -> Document:
    """Plan the next check of a document, which has this tag, after one at `at`."""
    parcel = ParcelAge(document["_id"], tag, document["created_at"], document["updated_at"])
    due = next_check(parcel, at, recheck) if document["active"] else None
    if due and ASKED_ALONE in document:
        due = at + ALONE_FACTOR * (due - at)
    pace = due and pace_of(tag, document.get("expected_delivery"), at, due).text
    document |= {"next_check_at": due, "check_pace": pace}
    return document


def with_attempt(document: Document, attempt: Attempt) -> Document:
    """Add an attempt unless it is there; the newest MAX_ATTEMPTS stay, oldest first."""
    at, before = stored(attempt.at), document["attempts"]
    if not before or at not in [each["at"] for each in before]:
        noted = {
            "at": at,
            "outcome": attempt.outcome,
            "http_status": attempt.http_status,
            "ms": attempt.ms,
            "excerpt": attempt.excerpt and clean(attempt.excerpt, MAX_EXCERPT_BYTES),
        }
        attempts = sorted([*before, noted], key=itemgetter("at")) if before else [noted]
        document["attempts"] = attempts[-MAX_ATTEMPTS:]
    return document


def stored(instant: datetime) -> datetime:
    """Bring an instant to the form in which MongoDB gives it back: UTC, whole milliseconds."""
    if instant.tzinfo is not UTC:
        instant = instant.astimezone(UTC)
    beyond = instant.microsecond % 1000
    return instant - _MICROSECOND * beyond if beyond else instant


def stored_now() -> datetime:
    """Give this instant in that form."""
    return stored(datetime.now(UTC))


def clean(text: str, most: int) -> str:
    """Cut to `most` bytes, and make sure that it can be written as UTF-8."""
    return text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


def text_of(body: bytes) -> str | bytes:
    """Decode a body that is text, for people; any other stays as it came."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body


def body_in(document: Document) -> bytes:
    """Read the `body` that `text_of` made."""
    body = document.get("body") or b""
    return body.encode() if isinstance(body, str) else bytes(body)


def _checkpoint(checkpoint: Checkpoint) -> Document:
    # Taken apart and written out: a fifth less than `_asdict` and what to change then.
    at, message, tag, subtag, country, iso3, offset, utc, *place = checkpoint
    city, state, postal_code, location, raw_tag = place
    return {
        "checkpoint_time": at,
        "message": message,
        "tag": str(tag),
        "subtag": subtag,
        "country_name": country,
        "country_iso3": iso3,
        "checkpoint_offset": offset,
        "checkpoint_utc": None if utc is None else stored(utc),
        "city": city,
        "state": state,
        "postal_code": postal_code,
        "location": location,
        "raw_tag": raw_tag,
    }


def _or_none(instant: datetime | None) -> datetime | None:
    return None if instant is None else stored(instant)
