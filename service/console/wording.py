"""Words for requests, for what keeps them from their courier, and for worker processes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from service import PROGRAM
from service.console.output import moment, span
from service.operator.attention import NO_CREDENTIALS, NOBODY_LIVES, STOPPED, note, why_bound
from service.operator.look import LineSnapshot, LiveWorker, Place
from tracking.operation import State

WORKER_HEADERS = ("worker", "pid", "version", "since", "calls", "trouble")
NOBODY = f"{NOBODY_LIVES}. Start one with `{PROGRAM}`, or look into its log"
RESUME = f"`{PROGRAM} resume {{}}`"
CREDENTIALS = f"`{PROGRAM} doctor` names them; set them, then restart the workers"
"""What helps where credentials are missing: after `resume` alone the next call stops it again."""

_NO_END = frozenset({"broken", "concurrency", "rate"})
"""What binds until something else happens, or for less than a second."""


def summary(operation: Mapping[str, Any]) -> str:
    """Say in a few words how an operation stands."""
    output = operation.get("output") or {}
    if "tag" in output:
        count = output.get("checkpoints", 0)
        return f"{output['tag']}, {count} checkpoint{'' if count == 1 else 's'}"
    # `error` and `reason` are what ends of the version before have, for a day.
    code = output.get("code") or output.get("error") or output.get("reason")
    return ": ".join(str(each) for each in (code, output.get("message")) if each)


def stands(place: Place) -> str:
    """Word where a request stands."""
    if place.state is State.RUNNING:
        return "the courier is being asked"
    attempts = f", attempt {place.attempts + 1}" if place.attempts else ""
    eta = f", in about {span(place.eta_seconds)}" if place.eta_seconds is not None else ""
    match place.list:
        case "behind":
            return "waits for the call that runs for this number"
        case "later" if place.bound_by == "account_quota":
            return f"waits until its account has calls again{eta}{attempts}"
        case "later":
            return f"is tried again{eta}{attempts}"
    ahead = "" if place.ahead is None else f", {place.ahead} ahead"
    return f"waits in the {place.list} list{ahead}{eta}{attempts}"


def cell(view: LineSnapshot) -> str:
    """Name what binds a courier, for a column."""
    if not view.bound_by:
        return "-"
    why = f": {view.paused_why}" if view.bound_by in {"paused", "probing"} else ""
    return f"{view.bound_by}{why}{note(view)}{_until(view)}"


def fullness(view: LineSnapshot) -> str:
    """Say how many numbers go with a call of a courier that takes several."""
    mean = view.numbers_a_call
    return "-" if view.together == 1 or mean is None else f"{mean:.1f}/{view.together}"


def reason(view: LineSnapshot) -> str:
    """Say why the requests of a courier wait; "" when nothing keeps them."""
    if view.bound_by == "no_worker":
        return NOBODY
    words = why_bound(view)
    if view.bound_by in STOPPED:
        return f"{words}{_until(view)}; {_help(view)}"
    return words if not words or view.bound_by in _NO_END else f"{words}{_until(view)}"


def _help(view: LineSnapshot) -> str:
    if view.paused_why == NO_CREDENTIALS:
        return CREDENTIALS
    return f"{RESUME.format(view.line)} lets it go on"


def _until(view: LineSnapshot) -> str:
    if view.until_seconds is None:
        return ""
    until = dt.datetime.now().astimezone() + dt.timedelta(seconds=view.until_seconds)
    return f", until {until:%H:%M:%S} ({span(view.until_seconds)})"


def worker_rows(workers: Sequence[LiveWorker]) -> list[list[str]]:
    """Word each worker process as a row."""
    return [
        [each.host, str(each.pid), each.version, moment(each.since), str(each.calls), _state(each)]
        for each in workers
    ]


def _state(of: LiveWorker) -> str:
    """Say what is wrong: one that ends by itself takes its name out, one that is killed cannot."""
    return "killed" if of.gone else of.trouble


def worker_words(workers: Sequence[LiveWorker]) -> str:
    """Word all worker processes on one line."""
    if not workers:
        return NOBODY
    return "live workers: " + ", ".join(
        f"{host} {pid} ({version}, since {since}, {calls} call{'' if calls == '1' else 's'}"
        f"{trouble and f', {trouble}'})"
        for host, pid, version, since, calls, trouble in worker_rows(workers)
    )
