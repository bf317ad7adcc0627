"""Dead letters: what is written down of a request that nobody will answer. Pure."""

from __future__ import annotations

import datetime as dt

from service.observe.redact import last_line_of
from service.ports import Job
from tracking.account import MAIN
from tracking.call import Call, DeadLetter, Full, Refused, Reused, TooLate
from tracking.errors import MalformedJob
from tracking.request import TrackingRequest

CALENDAR_ENDS = 253_402_300_799.0
"""The last second of the year 9999."""


def letter_of(call: Call, reason: str, detail: str, body: bytes) -> DeadLetter:
    """Write down a call. The id is that of its oldest request, so repeating it changes nothing.

    Two accounts may have asked in the same millisecond, each for a call of its own.
    """
    request, account = call.request, call.account
    whose = "" if account == MAIN else f":{account}"
    return DeadLetter(
        id=f"{request.slug}:{request.number}:{round(call.waiting_since * 1000)}{whose}",
        reason=reason,
        detail=detail,
        body=body,
        slug=request.slug,
        number=request.number,
        operations=call.operations,
        granted_us=call.granted_us,
    )


def letter_of_malformed(job: Job, error: MalformedJob) -> DeadLetter:
    """Write down a job that is not what docs/interface.md §1 describes, before it is buried."""
    return DeadLetter(
        id=job.key,
        reason=error.reason,
        detail=error.detail,
        body=job.body,
        slug=error.slug,
        number=error.number,
        operations=(error.operation,) if error.operation else (),
        server=job.server,
        job=job.id,
    )


def letter_of_defect(job: Job, error: Exception) -> DeadLetter:
    """Write down a job over which a defect of this program came up too often, before its burial."""
    return DeadLetter(
        id=job.key,
        reason="defect",
        detail=last_line_of(error),
        body=job.body,
        server=job.server,
        job=job.id,
    )


def letter_of_refused(job: Job, request: TrackingRequest, why: Refused) -> DeadLetter:
    """Write down a request that was not taken: too many wait, say, or its id is another's."""
    match why:
        case Full(waiting):
            reason = "wait_list_full"
            wait = f"{waiting} wait for {request.slug} already"
            detail = f"{wait} (limits.max_waiting); kick it later"
        case Reused(parcel):
            reason = "id_reused"
            other = parcel.replace(":", " ", 1) or "a parcel that was forgotten"
            first = f"its id {request.id} is that of a request for {other}"
            detail = (
                f"{first}, and this one is for {request.slug} {request.number}: "
                "give each parcel an id of its own"
            )
        case TooLate(starts_at):
            reason = "too_late"
            wanted = "" if request.expires_at is None else f" {_moment(request.expires_at)}"
            detail = (
                f"by the rate and quotas of {request.slug} its call could not start before "
                f"{_moment(starts_at)}, and nobody wants it after{wanted} (expires_in); "
                "give it more time, or kick it: it does not expire then"
            )
    return DeadLetter(
        id=job.key,
        reason=reason,
        detail=detail,
        body=job.body,
        slug=request.slug,
        number=request.number,
        operations=(request.id,) if request.id else (),
    )


def _moment(seconds: float) -> str:
    """Word Unix time; a small quota and a long list may lead beyond the calendar."""
    at = dt.datetime.fromtimestamp(min(seconds, CALENDAR_ENDS), dt.UTC)
    return at.isoformat(timespec="seconds")
