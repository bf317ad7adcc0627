"""One document of the collection `tracking` (docs/interface.md §3), and what goes into it.

Besides the contract's members there are two internal ones: `observed_us`, the grant of the call
whose answer this is (Redis' time in microseconds, 0 before the first answer), which decides what is
newer; and `revision`, one more with each write, which tells whether somebody wrote in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, NamedTuple

from bson import Int64

from service.config.schema import Recheck
from service.results.own_documents import document_id, whose
from service.results.schedule import Standing, next_check
from tracking.account import MAIN, Account
from tracking.call import Attempt, Call
from tracking.checkpoint import NOT_FOUND_YET, Checkpoint, Tag, Tracking, is_active
from tracking.errors import CourierError
from tracking.request import TrackingRequest

Document = dict[str, Any]

ATTEMPTS_MOST = 10
EXCERPT_MOST = 1024
"""Bytes."""

_MICROSECOND = timedelta(microseconds=1)

LASTING = (
    "signed_by",
    "proof_of_delivery",
    "weight_grams",
    "service",
    "reference",
    "sub_parcels",
)
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


def name_of(call: Call) -> str:
    """The `_id` of the document into which an answer to this call goes."""
    return document_id(id_of(call.request), call.account)


def granted_at(call: Call) -> datetime:
    """When the courier was asked, by the clock of Redis, which all workers share."""
    return datetime.fromtimestamp(call.granted_us // 1000 / 1000, UTC)


def blank(call: Call) -> Document:
    """A document about a parcel of which nothing is known yet."""
    return begun(call.request, granted_at(call), content_of(NOT_FOUND_YET), call.account)


def begun(
    request: TrackingRequest, at: datetime, content: Document, account: Account = MAIN
) -> Document:
    """The first document about a parcel, with what a courier says about it, before any status."""
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
        "observed_us": Int64(0),
        "revision": 0,
    }


def content_of(tracking: Tracking) -> Document:
    """What a courier's answer puts into the document."""
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


def tracking_in(document: Document) -> Tracking:
    """Read back what `content_of` stored."""
    said = {name: document[name] for name in CONTENT}
    said["tag"], said["sub_parcels"] = Tag(said["tag"]), tuple(said["sub_parcels"])
    scans = (each | {"tag": Tag(each["tag"])} for each in said["checkpoints"])
    return Tracking(**said | {"checkpoints": tuple(Checkpoint(**each) for each in scans)})


def with_status(
    document: Document, tag: Tag, subtag: str, at: datetime, recheck: Recheck
) -> Document:
    """Give a document a tag and everything that follows from it."""
    document |= {
        "tag": str(tag),
        "subtag": subtag,
        "delivered": tag is Tag.DELIVERED,
        "active": is_active(tag, subtag),
    }
    return scheduled(document, tag, at, recheck)


def scheduled(document: Document, tag: Tag, at: datetime, recheck: Recheck) -> Document:
    """Plan the next check of a document, which has this tag, after one at `at`."""
    parcel = Standing(document["_id"], tag, document["created_at"], document["updated_at"])
    document["next_check_at"] = next_check(parcel, at, recheck) if document["active"] else None
    return document


def with_attempt(document: Document, attempt: Attempt) -> Document:
    """Add an attempt unless it is there; the newest ATTEMPTS_MOST stay, oldest first."""
    at, before = stored(attempt.at), document["attempts"]
    if at not in [each["at"] for each in before]:
        noted = {
            "at": at,
            "outcome": attempt.outcome,
            "http_status": attempt.http_status,
            "ms": attempt.ms,
            "excerpt": clean(attempt.excerpt, EXCERPT_MOST),
        }
        attempts = sorted([*before, noted], key=itemgetter("at"))
        document["attempts"] = attempts[-ATTEMPTS_MOST:]
    return document


def stored(instant: datetime) -> datetime:
    """Bring an instant to the form in which MongoDB gives it back: UTC, whole milliseconds."""
    if instant.tzinfo is not UTC:
        instant = instant.astimezone(UTC)
    beyond = instant.microsecond % 1000
    return instant - _MICROSECOND * beyond if beyond else instant


def clean(text: str, most: int) -> str:
    """Cut to `most` bytes, and make sure that it can be written as UTF-8."""
    return text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


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
