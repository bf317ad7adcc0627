"""`info --running`: the calls in flight, worded as rows."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from service.cli.output import drawn, moment, say, span, table
from service.client.look import RunningCall

HEADERS = ("started", "for", "courier", "number", "requests", "attempt", "lease", "worker")
NOTHING = "no call runs"
LOST = "over: a sweep brings it back"
_NAMED_MOST = 2
DIGITS = 3
"""Of seconds: clocks of two machines differ by more."""


def say_calls(calls: Sequence[RunningCall]) -> None:
    """Print a table of them."""
    if calls:
        table(HEADERS, _rows(calls))
    else:
        say(NOTHING)


def parts(calls: Sequence[RunningCall]) -> list[Text | Table | str]:
    """Draw the same for a terminal."""
    return [drawn(HEADERS, _rows(calls)) if calls else Text(NOTHING)]


def members(calls: Sequence[RunningCall]) -> dict[str, Any]:
    """Say it to machines: `slug` is the line, `started` ISO 8601; seconds to the millisecond."""
    return {"running": [_members_of(each) for each in calls]}


def _rows(calls: Sequence[RunningCall]) -> list[list[str]]:
    return [
        [
            moment(_started(each)),
            span(each.seconds),
            each.line,
            each.number,
            _requests(each),
            str(each.attempt),
            LOST if each.lease_seconds is None else f"{span(each.lease_seconds)} left",
            each.worker or "not heard of",
        ]
        for each in calls
    ]


def _members_of(call: RunningCall) -> dict[str, Any]:
    told = dataclasses.asdict(call)
    lease = call.lease_seconds
    seconds = {
        "seconds": round(call.seconds, DIGITS),
        "lease_seconds": None if lease is None else round(lease, DIGITS),
    }
    return {"slug": told.pop("line"), **told, **seconds, "started": _started(call)}


def _started(call: RunningCall) -> dt.datetime:
    return dt.datetime.fromtimestamp(call.started, dt.UTC)


def _requests(call: RunningCall) -> str:
    """Name the newest; of those without an id all stand behind one."""
    shown = call.operations[:_NAMED_MOST]
    named, more = ", ".join(shown), call.requests - len(shown)
    return f"{named} and {more} more" if more > 0 else named
