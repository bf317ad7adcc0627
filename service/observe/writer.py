"""Writes one line per event: JSON for machines, aligned words for eyes."""

from __future__ import annotations

import datetime as dt
import functools
import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from service.observe.events import LEVELS, Event, Level
from service.observe.output import LINE_MOST, Output
from service.observe.redact import Clean, cleaner
from service.observe.throttle import Throttle

_encoder = msgspec.json.Encoder()
_COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "31;1"}
_LAID_OUT = ("ts", "level", "event", "traceback")

WEIGHTS: Mapping[str, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40}

_URGENT = frozenset({"warning", "error"})

Render = Callable[[Mapping[str, Any]], bytes]

Counting = Mapping[Event, Callable[[Mapping[str, Any]], None]]
"""What counts an event, by its fields."""


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
    throttle: Throttle = field(default_factory=Throttle)

    def line(self, level: str, event: str, fields: Mapping[str, Any]) -> bytes | None:
        """Render one line; None when equal ones were written often enough just now."""
        left_out: int | None = 0
        if level in _URGENT:
            left_out = self.throttle.passes({"event": event, **fields})
        if left_out is None:
            return None
        line: dict[str, Any] = {"ts": _now(), "level": level, "event": event}
        line |= self.clean(fields)
        line |= self.everywhere
        if left_out:
            line["left_out"] = left_out
        if dropped := self.out.take_dropped():
            line["dropped"] = dropped
        return self.render(line)


def lines(form: str, secrets: Collection[str] = (), *, worker: str = "", out: int = 1) -> Lines:
    """Prepare the lines of this process; `form` is log.format, `out` a file descriptor."""
    render = render_for(form, terminal=os.isatty(out))
    return Lines(cleaner(secrets), render, {"worker": worker} if worker else {}, Output(out))


def emitter(level: Level, made: Lines, counting: Counting = MappingProxyType({})) -> Emit:
    """Make the `emit` of this process, which writes what is at least of `level`.

    All events are counted, also those that are not written.
    """
    told = {
        each: (of if WEIGHTS[of] >= WEIGHTS[level] else None, counting.get(each))
        for each, of in LEVELS.items()
    }

    def emit(event: Event, **fields: Any) -> None:
        level, count = told[event]
        if count is not None:
            count(fields)
        if level is None or not made.out.has_room():
            return
        line = made.line(level, str(event), fields)
        if line is not None:
            made.out.write(line)

    return emit


def json_line(fields: Mapping[str, Any]) -> bytes:
    """Render one JSON object and the line's end."""
    line = _encoder.encode(fields) + b"\n"
    if len(line) <= LINE_MOST:
        return line
    short = {
        name: value[:80] if isinstance(value, str) else value for name, value in fields.items()
    }
    return _encoder.encode(short | {"shortened": True}) + b"\n"


def pretty_line(fields: Mapping[str, Any]) -> bytes:
    """Render time, level and event in colour, then name=value for the rest."""
    level = fields["level"]
    clock = fields["ts"][11:23]
    rest = " ".join(
        f"\x1b[2m{name}=\x1b[0m{value}" for name, value in fields.items() if name not in _LAID_OUT
    )
    # Its line ends were escaped as all control characters; here they help the eye.
    if trace := fields.get("traceback"):
        rest += "\n    " + trace.replace("\\n", "\n    ")
    head = f"\x1b[2m{clock}\x1b[0m \x1b[{_COLOURS[level]}m{level:<7}\x1b[0m {fields['event']:<32}"
    return f"{head} {rest}".rstrip().encode("utf-8", "backslashreplace") + b"\n"


def render_for(form: str, *, terminal: bool) -> Render:
    """Choose how to render: `form` is log.format, `terminal` decides for "auto"."""
    pretty = form == "pretty" or (form == "auto" and terminal)
    return pretty_line if pretty else json_line


def _now() -> str:
    second, ns = divmod(time.time_ns(), 1_000_000_000)
    return f"{_second(second)}.{ns // 1_000_000:03}Z"


@functools.lru_cache(maxsize=1)
def _second(unix: int) -> str:
    """Write one second in UTC: a busy worker writes hundreds of lines in it."""
    return dt.datetime.fromtimestamp(unix, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S")
