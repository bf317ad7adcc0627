"""From an event and its fields to the line that is written."""

from __future__ import annotations

import datetime as dt
import functools
import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from service.observe.events import LEVELS, Event, Level
from service.observe.line import Render, render_for
from service.observe.output import Output
from service.observe.redact import Clean, cleaner
from service.observe.throttle import Throttle

WEIGHTS: Mapping[str, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40}

_URGENT = frozenset({"warning", "error"})


class Emit(Protocol):
    """Logs one event with its fields."""

    def __call__(self, event: Event, **fields: Any) -> None:
        """Log it; never fails for want of a place to write to."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Makes the lines of one process. `everywhere` stands in each of them, `out` takes them."""

    clean: Clean
    render: Render
    everywhere: Mapping[str, str]
    out: Output
    repeats: Throttle = field(default_factory=Throttle)

    def line(self, level: str, event: str, fields: Mapping[str, Any]) -> bytes | None:
        """Render one line; None when equal ones were written often enough just now."""
        left_out: int | None = 0
        if level in _URGENT:
            left_out = self.repeats.passes({"event": event, **fields})
        if left_out is None:
            return None
        line: dict[str, Any] = {"ts": _now(), "level": level, "event": event}
        line |= self.clean(fields)
        line |= self.everywhere
        if left_out:
            line["left_out"] = left_out
        return self.render(line)


def lines(form: str, secrets: Collection[str] = (), *, worker: str = "", out: int = 1) -> Lines:
    """Prepare the lines of this process; `form` is log.format, `out` a file descriptor."""
    render = render_for(form, terminal=os.isatty(out))
    return Lines(cleaner(secrets), render, {"worker": worker} if worker else {}, Output(out))


def emitter(level: Level, made: Lines) -> Emit:
    """Make the `emit` of this process, which writes what is at least of `level`.

    A warning or an error is written at once, anything else with what this turn of the loop brings.
    """
    told = {each: of for each, of in LEVELS.items() if WEIGHTS[of] >= WEIGHTS[level]}

    def emit(event: Event, **fields: Any) -> None:
        level = told.get(event)
        line = None if level is None else made.line(level, str(event), fields)
        if line is None:
            return
        if level in _URGENT:
            made.out.write(line)
        else:
            made.out.write_soon(line)

    return emit


def _now() -> str:
    second, ns = divmod(time.time_ns(), 1_000_000_000)
    return f"{_second(second)}.{ns // 1_000_000:03}Z"


@functools.lru_cache(maxsize=1)
def _second(unix: int) -> str:
    """Write one second in UTC: a busy worker writes hundreds of lines in it."""
    return dt.datetime.fromtimestamp(unix, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S")
