"""What needs attention first: what stops calls or lets them fall behind, and does not pass soon."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from service import PROGRAM
from service.operator.look import (
    BY_HAND,
    LIVES_SECONDS,
    AtWork,
    Lines,
    LineSnapshot,
    older_than_this,
)
from service.operator.quotas import QuotaUsedUp, Uses
from tracking.request import Account

NO_CREDENTIALS = "no_credentials"
_PAUSES = {
    NO_CREDENTIALS: "it has no credentials",
    "auth_failed": "it refuses the credentials",
    "rate_limited": "it asks for fewer calls",
    "courier_down": "it does not answer",
    "unreadable_answer": "its answers cannot be read",
    "wrong_number": "it answers about other numbers",
    "request_refused": "it calls the requests malformed",
}
STOPPED = frozenset({"paused", "probing"})
_SAID = frozenset({"", "queue", "retry", "running"})
_BINDS = {
    "no_worker": "no worker lives",
    "broken": f"a key of it in Redis is broken: `{PROGRAM} check` names it",
    "not_configured": "it is not configured any more",
    "filling": "those who wait are to have one call together",
    "account_quota": "the accounts of those who wait have no call left today",
    "quiet": "Redis lost its state, or another one took over: nobody calls",
    "concurrency": "{view.concurrent} calls at once are allowed and run",
    "rate": "{view.per_second} calls a second are allowed",
}

BEHIND_SECONDS = 600.0
"""Re-checks that are due for longer than that fall behind: planners look every few seconds."""

NOBODY_LIVES = f"no worker lives: none has reported to this Redis for {LIVES_SECONDS:g} s"


class Concern(NamedTuple):
    """A sentence about what needs attention, and the line that it is about, "" for none."""

    what: str
    line: str = ""


def cause(view: LineSnapshot) -> str:
    """Say why a line stands that is paused, or that one call alone tries."""
    if view.bound_by == "probing" and view.paused_why != NO_CREDENTIALS:
        return "but for one call, which tries again"
    if view.paused_why == BY_HAND:
        return f"by hand{note(view)}"
    return f"because {_PAUSES.get(view.paused_why, view.paused_why)}"


def why_bound(view: LineSnapshot) -> str:
    """Say what keeps the requests of a line; "" where nothing does, or it is said elsewhere."""
    by = view.bound_by
    if by in STOPPED:
        return f"paused {cause(view)}"
    if by in _BINDS or by in _SAID:
        return _BINDS.get(by, "").format(view=view)
    return f"the quota {by.replace('_', ' ')} is used up"


def note(view: LineSnapshot) -> str:
    """Give what the person wrote who paused a line, in brackets."""
    return f" ({view.paused_note})" if view.paused_note else ""


def concerns_of(
    lines: Lines, work: AtWork, lacking: Callable[[LineSnapshot], str]
) -> Iterator[Concern]:
    """List what needs attention, what stops most first; `lacking`: a line's missing credentials."""
    if not work.workers:
        yield Concern(NOBODY_LIVES)
    yield from (Concern(each) for each in (*lines.worries, *older_than_this(work.older)))
    for worker in work.workers:
        if worker.trouble:
            yield Concern(f"the worker {worker.host} {worker.pid} is in trouble: {worker.trouble}")
    yield from _stopped(lines.told, lacking)
    for each in lines.told:
        if (each.checks_behind_seconds or 0) >= BEHIND_SECONDS:
            yield Concern(f"{each.line} is behind its plan of re-checks{_quota(each)}", each.line)


def used_up(uses: Mapping[Account, Uses]) -> Iterator[Concern]:
    """List the quotas of accounts of which nothing is left."""
    for account, own in uses.items():
        for quota, use in own.items():
            if use.allowed is not None and use.used is not None and use.used >= use.allowed:
                yield Concern(f"{QuotaUsedUp(quota, account, use)}. They are used up")


def _stopped(
    lines: Sequence[LineSnapshot], lacking: Callable[[LineSnapshot], str]
) -> Iterator[Concern]:
    for each in lines:
        if each.bound_by == "broken":
            what = f"has a broken key in Redis: {PROGRAM} check names it"
            yield Concern(f"{each.line} {what}", each.line)
        elif each.bound_by in STOPPED:
            missing = lacking(each) if each.paused_why == NO_CREDENTIALS else ""
            why = f"{cause(each)}{missing and f': {missing}'}"
            yield Concern(f"{each.line} is paused {why}", each.line)


def _quota(view: LineSnapshot) -> str:
    """Say which quota is used up, and keeps its re-checks."""
    lefts = {"per_hour": view.hour_left, "per_day": view.day_left}
    used = [name.replace("_", " ") for name, left in lefts.items() if left == 0]
    return f": its quota {' and '.join(used)} is used up" if used else ""
