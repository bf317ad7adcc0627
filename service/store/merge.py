"""What becomes of a stored document when an answer or a failure comes in. Pure.

Newest wins, by the instant at which the courier was asked (Redis' time of the grant). Then:

=============================================== ===============================================
the answer                                      the stored checkpoints
=============================================== ===============================================
holds none                                      stay, with their tag
holds fewer than are stored                     those older than its oldest stay, the rest goes
holds as many or more                           are replaced
begins long after a parcel that was done        go to `tracking_past`: the number is used again
=============================================== ===============================================
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from service.store.schedule import next_check
from tracking.call import Attempt, Call
from tracking.checkpoint import FINAL_SUBTAGS, Checkpoint, Tag, Tracking
from tracking.errors import CourierError, InvalidNumber

Document = dict[str, Any]

ATTEMPTS_KEPT = 10
EXPIRES_AFTER = dt.timedelta(days=30)
"""AfterShip's rule: without information for this long a parcel is Expired."""

USED_AGAIN_AFTER = dt.timedelta(days=30)
"""A parcel that was done gets stray events for days, not for a month; carriers give a number out
again after months at the earliest."""

_CONTENT = (
    "tag",
    "subtag",
    "delivered",
    "active",
    "checkpoints",
    "expected_delivery",
    "delivered_at",
    "delivered_at_utc",
    "signed_by",
    "origin",
    "destination",
)


@dataclass(frozen=True, slots=True)
class Change:
    """What to write: the document, and before it a copy of the one that it replaces, if any."""

    document: Document
    past: Document | None = None


def answered(
    stored: Document | None,
    call: Call,
    tracking: Tracking,
    attempt: Attempt,
    draw: Callable[[], float] = random.random,
) -> Change | None:
    """Lay an answer over what is stored; None: it is not newer, nothing changes."""
    if stored is not None and call.granted_us <= stored["observed_us"]:
        return None
    observed = _instant(call.granted_us)
    if stored is not None and _used_again(stored, tracking):
        fresh = answered(None, call, tracking, attempt, draw)
        return fresh and Change(
            {**fresh.document, "revision": stored["revision"] + 1}, _past(stored)
        )
    document = dict(stored) if stored else _blank(call, observed)
    content = _content(stored, tracking)
    if any(document.get(name) != value for name, value in content.items()):
        document["updated_at"] = observed
    document |= _expired(content, observed - document["updated_at"])
    document |= {
        "error": None,
        "observed_us": call.granted_us,
        "last_checked_at": observed,
        "tracked_count": document["tracked_count"] + 1,
    }
    _record(document, attempt)
    document["next_check_at"] = _next_check_at(document, draw)
    return Change(document)


def failed(
    stored: Document | None, call: Call, error: CourierError, attempt: Attempt, *, final: bool
) -> Change | None:
    """Note a failed call; None: it is noted already. Never touches checkpoints or tags."""
    observed = _instant(call.granted_us)
    document = dict(stored) if stored else _blank(call, observed)
    at = _milliseconds(attempt.at)
    noted = any(line["at"] == at for line in document["attempts"])
    if noted and not (final and document["error"] is None):
        return None
    if not noted:
        _record(document, attempt)
    else:
        document["revision"] += 1
    if final:
        document["error"] = {"code": error.code, "message": error.message, "at": at}
    if isinstance(error, InvalidNumber):
        document["active"], document["next_check_at"] = False, None
    return Change(document)


def _blank(call: Call, observed: dt.datetime) -> Document:
    request = call.request
    return {
        "_id": f"{request.slug}:{request.number}",
        "slug": request.slug,
        "tracking_number": request.number,
        "tag": Tag.PENDING.value,
        "subtag": "Pending_001",
        "delivered": False,
        "active": True,
        "checkpoints": [],
        "expected_delivery": None,
        "delivered_at": None,
        "delivered_at_utc": None,
        "signed_by": None,
        "origin": None,
        "destination": None,
        "error": None,
        "attempts": [],
        "tracked_count": 0,
        "created_at": observed,
        "updated_at": observed,
        "last_checked_at": None,
        "next_check_at": None,
        "observed_us": 0,
        "revision": 0,
    }


def _content(stored: Document | None, tracking: Tracking) -> Document:
    if stored is not None and stored["checkpoints"] and not tracking.checkpoints:
        return {name: stored[name] for name in _CONTENT}
    checkpoints = [_checkpoint(each) for each in tracking.checkpoints]
    if stored is not None and len(checkpoints) < len(stored["checkpoints"]):
        checkpoints = _older(stored["checkpoints"], checkpoints[0]) + checkpoints
    return {
        "tag": tracking.tag.value,
        "subtag": tracking.subtag,
        "delivered": tracking.delivered,
        "active": tracking.active,
        "checkpoints": checkpoints,
        "expected_delivery": tracking.expected_delivery,
        "delivered_at": tracking.delivered_at,
        "delivered_at_utc": _milliseconds(tracking.delivered_at_utc),
        "signed_by": tracking.signed_by,
        "origin": tracking.origin,
        "destination": tracking.destination,
    }


def _older(stored: list[Document], oldest: Document) -> list[Document]:
    return [each for each in stored if _before(each, oldest)]


def _before(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if one["checkpoint_utc"] and other["checkpoint_utc"]:
        return bool(one["checkpoint_utc"] < other["checkpoint_utc"])
    return bool(one["checkpoint_time"] < other["checkpoint_time"])


def _used_again(stored: Document, tracking: Tracking) -> bool:
    done = stored["delivered"] or stored["subtag"] in FINAL_SUBTAGS or stored["tag"] == Tag.EXPIRED
    if not (done and stored["checkpoints"] and tracking.checkpoints):
        return False
    last, first = stored["checkpoints"][-1], tracking.checkpoints[0]
    if last["checkpoint_utc"] and first.checkpoint_utc:
        return bool(first.checkpoint_utc - last["checkpoint_utc"] >= USED_AGAIN_AFTER)
    # Local times of two places are at most 26 hours apart: no matter, a month is meant.
    ended = dt.datetime.fromisoformat(last["checkpoint_time"]).replace(tzinfo=None)
    begins = dt.datetime.fromisoformat(first.checkpoint_time).replace(tzinfo=None)
    return begins - ended >= USED_AGAIN_AFTER


def _past(stored: Document) -> Document:
    first = stored["checkpoints"][0]["checkpoint_time"]
    return {**stored, "_id": f"{stored['_id']}:{first}"}


def _expired(content: Document, unchanged: dt.timedelta) -> Document:
    if content["active"] and unchanged >= EXPIRES_AFTER:
        return {**content, "tag": Tag.EXPIRED.value, "subtag": "Expired_001", "active": False}
    return content


def _record(document: Document, attempt: Attempt) -> None:
    line = {
        "at": _milliseconds(attempt.at),
        "outcome": attempt.outcome,
        "http_status": attempt.http_status,
        "ms": attempt.ms,
        "excerpt": attempt.excerpt,
    }
    document["attempts"] = [*document["attempts"], line][-ATTEMPTS_KEPT:]
    document["revision"] += 1


def _next_check_at(document: Document, draw: Callable[[], float]) -> dt.datetime | None:
    if not document["active"]:
        return None
    checked = document["last_checked_at"]
    unchanged = checked - document["updated_at"]
    wait = next_check(Tag(document["tag"]), document["tracked_count"], unchanged, draw)
    return _milliseconds(checked + wait)


def _checkpoint(checkpoint: Checkpoint) -> Document:
    document = asdict(checkpoint)
    document["tag"] = checkpoint.tag.value
    document["checkpoint_utc"] = _milliseconds(checkpoint.checkpoint_utc)
    return document


def _instant(micros: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(micros // 1000 / 1000, dt.UTC)


def _milliseconds(instant: dt.datetime | None) -> dt.datetime | None:
    """BSON keeps milliseconds: what is compared later must have lost the rest before."""
    if instant is None:
        return None
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)
