"""The merge of an answer, or of a failure, into the stored document. Pure.

======================================== ==========================================================
the answer                               makes of the document
======================================== ==========================================================
observed no later than the stored one    nothing: it has been stored, or overtaken
without checkpoints, and Pending         the stored content stays: couriers forget old parcels
without checkpoints, with another tag    the status is the new one, the stored checkpoints stay
with checkpoints                         the content is the new one; before it stay the stored
                                         checkpoints that are older than its oldest
with checkpoints, all of them long       a new document: the number is used again (RECYCLED_…)
after the stored ones
with nothing new for so many days        Expired (`[recheck] expires_after_days`)
without a detail (LASTING)               the stored one stays: who signed, the weight, …
to a call for this number alone, as      `asked_alone` is true, and the next check is due in twice
others left it out                       the time, until an answer brings another tag
======================================== ==========================================================

A failure that ends an operation makes a parcel Expired that had no answer for so many days. One
over which too many workers vanished is not planned to be checked again: its next answer plans that.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from bson import Int64

from service.config.schema import Recheck
from service.worker.results.database import UNTOLD, Document
from service.worker.results.document import (
    ASKED_ALONE,
    CONTENT,
    LASTING,
    Answer,
    Failure,
    begun,
    clean,
    content_of,
    fields_in,
    granted_at,
    scheduled,
    stored,
    with_attempt,
    with_status,
)
from tracking.call import Call
from tracking.checkpoint import NOT_FOUND_YET, Tag, is_active
from tracking.errors import InvalidNumber, WorkersVanished
from tracking.request import Origin

RECYCLED_AFTER_END = timedelta(days=30)
"""From the last event of a parcel that has arrived, come back or been lost, to the first event of
an answer. What follows an end (a proof of delivery, a late scan) comes within days, and answers
that still know the delivery begin before it."""

RECYCLED_AFTER_SILENCE = timedelta(days=120)
"""The same for a parcel that never arrived. Couriers forget events after 90 to 120 days: a gap
shorter than that may lie within one slow journey whose beginning was forgotten."""

MAX_MESSAGE_BYTES = 1024

EXPIRED_SUBTAG = "Expired_001"

DEFAULTS = Recheck()

CLOCKS_APART_US = 1_000_000
"""So far Redis' clock may be ahead of this machine's without being wrong."""


class Merged(NamedTuple):
    """The document to store. `past`: documents to copy to `tracking_past` first."""

    document: Document
    past: tuple[Document, ...] = ()


def merge(old: Document | None, write: Answer | Failure, recheck: Recheck = DEFAULTS) -> Merged:
    """Apply one write to what is stored. Changes nothing in place.

    `recheck` is what holds for the parcel's courier. The result's document is `old` itself when
    there is nothing to write.
    """
    if isinstance(write, Failure):
        document = _failed(old, write, recheck)
        return Merged(old if old is not None and old == document else document)
    if old is not None and write.call.granted_us <= old["observed_us"]:
        return Merged(old)
    content = content_of(write.tracking)
    if old is not None and _is_recycled(old, content):
        document = _answered(None, write, content, recheck)
        if UNTOLD in old:
            document[UNTOLD] = old[UNTOLD]
        return Merged(document, (_past(old),))
    return Merged(_answered(old, write, content, recheck))


def in_order(old: Document, write: Answer | Failure, now_us: int) -> Document:
    """Make a stored observation older than a write if its time is still to come.

    Another Redis granted that call, whose clock was ahead: until that time has come all answers
    would be taken for older ones. Where the write's own grant is to come too, the clocks of this
    machine and of Redis are apart, and the grants are in order.
    """
    granted_us = write.call.granted_us
    if granted_us <= now_us and old["observed_us"] > now_us + CLOCKS_APART_US:
        return old | {"observed_us": Int64(granted_us - 1)}
    return old


def _answered(
    old: Document | None, answer: Answer, content: Document, recheck: Recheck
) -> Document:
    at = granted_at(answer.call)
    content = content | {"checkpoints": _recorded(old["checkpoints"] if old else [], content, at)}
    if old is None:
        document = begun(answer.call.request, at, content, answer.call.account)
        changed = True
    else:
        # A document from before a member was added lacks it.
        kept = dict(old) if CONTENT[-1] in old else content_of(NOT_FOUND_YET) | old
        document = _with_fields(kept, answer.call)
        content = _joined(document, content)
        changed = _differs(document, content)
        if changed:
            document |= content | {"updated_at": at}
    tag, subtag = Tag(document["tag"]), document["subtag"]
    if not changed and is_active(tag, subtag) and _is_over(document["updated_at"], at, recheck):
        tag, subtag = Tag.EXPIRED, EXPIRED_SUBTAG
        document["updated_at"] = at
    if old is not None and old["tag"] != tag:
        document.pop(ASKED_ALONE, None)
    elif answer.call.alone:
        document[ASKED_ALONE] = True
    document |= {
        "error": None,
        "tracked_count": document["tracked_count"] + 1,
        "last_checked_at": at,
        "observed_us": Int64(answer.call.granted_us),
    }
    return with_attempt(with_status(document, tag, subtag, at, recheck), answer.attempt)


def _failed(old: Document | None, failure: Failure, recheck: Recheck) -> Document:
    at = stored(failure.attempt.at)
    asked_at = granted_at(failure.call)
    call = failure.call
    if old is None:
        begins = begun(call.request, asked_at, content_of(NOT_FOUND_YET), call.account)
        document = scheduled(begins, Tag.PENDING, asked_at, recheck)
    else:
        document = dict(old)
    document = with_attempt(_with_fields(document, call), failure.attempt)
    shown = document["error"]
    overtaken = call.granted_us <= document["observed_us"] or (shown and shown["at"] >= at)
    if not failure.final or overtaken:
        return document
    error = failure.error
    document["error"] = {
        "code": error.code,
        "message": clean(error.message, MAX_MESSAGE_BYTES),
        "at": at,
    }
    if isinstance(error, InvalidNumber) and document["active"]:
        # The end of the parcel, which is counted from here, is a change that readers must see.
        document |= {"active": False, "updated_at": asked_at}
    elif document["active"] and _is_over(_last_answer_at(document), asked_at, recheck):
        document["updated_at"] = asked_at
        return with_status(document, Tag.EXPIRED, EXPIRED_SUBTAG, asked_at, recheck)
    if isinstance(error, WorkersVanished):
        return document | {"next_check_at": None}
    return scheduled(document, Tag(document["tag"]), asked_at, recheck)


def _with_fields(document: Document, call: Call) -> Document:
    """Keep what a courier was asked with, for re-checks: the newest values win and fill gaps.

    Those of a schedule only fill gaps: a re-check may have been put before the newest were stored.
    """
    asked, kept = dict(call.request.fields), fields_in(document)
    older = call.request.origin is Origin.AUTOMATIC or call.granted_us < document["observed_us"]
    document["fields"] = asked | kept if older else kept | asked
    return document


def _is_over(since: datetime, at: datetime, recheck: Recheck) -> bool:
    return at - since >= timedelta(days=recheck.expires_after_days)


def _last_answer_at(document: Document) -> datetime:
    at: datetime = document["last_checked_at"] or document["created_at"]
    return at


def _joined(document: Document, content: Document) -> Document:
    """Complete a courier's new content by what is stored and must not be lost."""
    kept = document["checkpoints"]
    content = content | {name: content[name] or document[name] for name in LASTING}
    if content["checkpoints"]:
        return content | {"checkpoints": _older(kept, content) + content["checkpoints"]}
    if not kept:
        return content
    if content["tag"] == Tag.PENDING:
        return {name: document[name] for name in CONTENT}
    return content | {"checkpoints": kept}


def _recorded(kept: list[Document], content: Document, at: datetime) -> list[Document]:
    """Note with each checkpoint when it was first told; one from before that was noted stays so."""
    before = {_words(each): each for each in kept}
    return [
        before.get(_words(each)) or each | {"recorded_at": at} for each in content["checkpoints"]
    ]


def _words(checkpoint: Document) -> tuple[Any, ...]:
    return tuple(value for name, value in checkpoint.items() if name != "recorded_at")


def _older(kept: list[Document], content: Document) -> list[Document]:
    oldest = content["checkpoints"][0]
    if kept and kept[0] == oldest:
        return []  # nearly always, and quickly
    older = [each for each in kept if _is_before(each, oldest)]
    if oldest in kept:
        return older
    # The first scan may have had its time corrected: its old form is not one more scan.
    return [each for each in older if _scan(each) != _scan(oldest)]


def _differs(document: Document, content: Document) -> bool:
    differing = {name for name in CONTENT if document[name] != content[name]}
    if document["tag"] == Tag.EXPIRED and is_active(Tag(content["tag"]), content["subtag"]):
        # It is us who call it Expired, because nothing else has changed.
        differing -= {"tag", "subtag"}
    return bool(differing)


def _is_recycled(old: Document, content: Document) -> bool:
    if not old["checkpoints"] or not content["checkpoints"]:
        return False
    gap = _gap(old["checkpoints"][-1], content["checkpoints"][0])
    ended = old["tag"] != Tag.EXPIRED and not is_active(Tag(old["tag"]), old["subtag"])
    return gap is not None and gap >= (RECYCLED_AFTER_END if ended else RECYCLED_AFTER_SILENCE)


def _past(old: Document) -> Document:
    # What nobody has told of yet stays where it is looked for: in the parcel's document.
    told = {name: value for name, value in old.items() if name != UNTOLD}
    return told | {"_id": f"{old['_id']}:{old['checkpoints'][0]['checkpoint_time']}"}


def _is_before(one: Document, other: Document) -> bool:
    gap = _gap(one, other)
    if gap is None:
        return bool(one["checkpoint_time"] < other["checkpoint_time"])
    return gap > timedelta(0)


def _gap(one: Document, other: Document) -> timedelta | None:
    """From one checkpoint to the other; None when a time cannot be read."""
    if one["checkpoint_utc"] and other["checkpoint_utc"]:
        gap: timedelta = other["checkpoint_utc"] - one["checkpoint_utc"]
        return gap
    try:
        # Local texts of two places may be a day apart: little against the times asked for here.
        return _local(other) - _local(one)
    except ValueError:
        return None


def _local(checkpoint: Document) -> datetime:
    return datetime.fromisoformat(checkpoint["checkpoint_time"]).replace(tzinfo=None)


def _scan(checkpoint: Document) -> tuple[Any, ...]:
    return tuple(
        checkpoint[name] for name in ("message", "location", "city", "country_name", "raw_tag")
    )
