"""Refusals: HTTP statuses that mean the same at every courier that speaks HTTP as intended.

::

    status              becomes          so that
    ------------------  ---------------  ------------------------------------------------
    3xx                 RequestRefused   nobody is sent to another host unasked
    401                 AuthFailed       the line stops, and one call alone tries again
    403, quota in text  RateLimited      the slug pauses for all workers
    403 else            AuthFailed
    408, 425, 5xx       CourierDown      it is repeated later; after three in a row the line stops
    429                 RateLimited      the slug pauses for as long as the courier asks

A module calls `refuse` where its courier keeps to this table, after its own cases.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from tracking.errors import AuthFailed, CourierDown, RateLimited, RequestRefused, UnreadableAnswer

RETRY_AFTER_LEAST = 1.0
RETRY_AFTER_MOST = 86_400.0
"""No courier may stop its slug for longer than a day (seconds) by one answer."""

_QUOTA = re.compile(
    rb"quota|rate.?limit|too many|throttl|limit (?:is |was )?exceeded", re.IGNORECASE
)
_DAILY = re.compile(rb"daily|per day|00:00|midnight", re.IGNORECASE)
_EARLY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY)


TELLING = (HTTPStatus.OK, HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND)
"""Statuses with which most couriers tell something of a number in their body."""


def refuse(
    status: int, headers: Mapping[str, str], body: bytes, judges: Container[int] | None = None
) -> None:
    """Raise what the table says; return when the status is for the module to judge.

    `judges` names the statuses that the module judges, for one that expects no other: any other
    raises UnreadableAnswer.
    """
    if status == HTTPStatus.OK:
        return
    match status:
        case HTTPStatus.UNAUTHORIZED:
            raise AuthFailed("the courier does not accept our credentials (401)")
        case HTTPStatus.FORBIDDEN if not _QUOTA.search(body):
            raise AuthFailed("the courier forbids this to our credentials (403)")
        case HTTPStatus.FORBIDDEN | HTTPStatus.TOO_MANY_REQUESTS:
            raise RateLimited(
                f"the courier asks for fewer calls ({status})",
                retry_after=retry_after(headers, body),
            )
        case _ if status in _EARLY or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise CourierDown(f"the courier answered {status}")
        case _ if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            raise RequestRefused(f"the courier sends us elsewhere ({status}); is base_url right?")
        case _ if judges is not None and status not in judges:
            raise unexpected(status)


def unexpected(status: int, what: str = "") -> UnreadableAnswer:
    """Make the error for an answer that is neither events nor a known "not found"."""
    return UnreadableAnswer(f"status {status} without a known meaning{what and ': '}{what}")


def retry_after(headers: Mapping[str, str], body: bytes = b"") -> float | None:
    """Read how long the courier wants to be left alone, in seconds; None when it does not say.

    `Retry-After` may be seconds or an instant, which is measured on the courier's own clock (its
    `Date`). Without it, a quota of a day ends at the next midnight, Greenwich time.
    """
    named = headers.get("retry-after", "").strip()
    now = _instant(headers.get("date", ""))
    wait: float | None = None
    if re.fullmatch(r"\d{1,9}(\.\d*)?", named):
        wait = float(named)
    elif named and now is not None and (until := _instant(named)) is not None:
        wait = (until - now).total_seconds()
    elif now is not None and _DAILY.search(body) and _QUOTA.search(body):
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        wait = (midnight - now).total_seconds()
    return None if wait is None else min(max(wait, RETRY_AFTER_LEAST), RETRY_AFTER_MOST)


def _instant(text: str) -> datetime | None:
    # A sixteenth of what `detect` costs; and seldom does a courier tell an instant.
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - as said above

    try:
        instant = parsedate_to_datetime(text)
        # "-0000" is read as naive: Greenwich without a claim to locality.
        return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
