"""Log lines: `emit(Event.ANSWERED, slug=…, number=…, ms=…)` writes one line per event.

JSON for machines, aligned words for eyes. Fields that mean the same have the same name everywhere:
slug, number, operation, job, server, outcome, ms, delay_ms, attempts, error, why. Numbers stay
numbers; an exception may be given as `error`. Fields are cleaned here, not by who gives them.

A thread writes the lines, so that logging never waits. Their reader may stall: a terminal after
Ctrl-S, a pager, a log driver that hangs. Lines wait in memory then; when that is full, new ones are
dropped and counted. A process that is killed loses the lines that its thread had no time to write:
those of its last milliseconds.
"""

from __future__ import annotations

import atexit
import datetime as dt
import functools
import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import msgspec

from service.observe.events import Event, Level
from service.observe.redact import Clean, cleaner, traceback_of
from tracking.errors import LimitsBroken

LINE_MOST = 4_096
"""What a pipe takes whole, in bytes: longer lines of several processes would mix."""

WAITING_MOST = 4 * 1024 * 1024
"""Bytes of lines that may wait: some 15,000 lines, which a busy worker logs in half a minute."""

GATHER_SECONDS = 0.005
"""Lines are gathered for so long: each time that the thread runs, it takes the interpreter from the
event loop."""

END_SECONDS = 1.0
"""How long a process that ends waits for its last lines to be read."""


class Output:
    """Takes lines of any thread, and writes them whole and in their order.

    A full disk and a closed pipe cost lines, which are counted as dropped, and nothing else.
    """

    def __init__(self, descriptor: int, most: int = WAITING_MOST) -> None:
        """`most` bytes may wait."""
        self._descriptor = descriptor
        self._most = most
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._dropped = 0
        self._thread: threading.Thread | None = None
        # Reentrant: a collection of garbage in the middle of a line may log one of its own.
        self._changed = threading.Condition(threading.RLock())

    def has_room(self) -> bool:
        """Tell whether a line may be given; one that may not counts as dropped."""
        if self._bytes < self._most:
            return True
        with self._changed:
            self._dropped += 1
        return False

    def take_dropped(self) -> int:
        """Tell how many lines were dropped since this was last asked."""
        if not self._dropped:
            return 0
        with self._changed:
            dropped, self._dropped = self._dropped, 0
            return dropped

    def write(self, line: bytes) -> None:
        """Have a line written; waits for nobody."""
        with self._changed:
            if not self._lines:
                self._changed.notify_all()  # with lines at hand the thread waits for nothing
            self._lines.append(line)
            self._bytes += len(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="log", daemon=True)
                self._thread.start()
                atexit.register(self.flush, END_SECONDS)

    def flush(self, seconds: float) -> bool:
        """Wait until all lines are written or dropped; False when that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._bytes, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._lines))
            time.sleep(GATHER_SECONDS)
            while piece := self._next_piece():
                written = _write(self._descriptor, piece)
                with self._changed:
                    self._bytes -= len(piece)
                    self._dropped += 0 if written else piece.count(b"\n")
                    self._changed.notify_all()

    def _next_piece(self) -> bytes:
        """Take as many lines as a pipe takes whole: other processes write to it too."""
        piece = b""
        with self._changed:
            while self._lines and (not piece or len(piece) + len(self._lines[0]) <= LINE_MOST):
                piece += self._lines.popleft()
        return piece


def _write(descriptor: int, piece: bytes) -> bool:
    """Write all of it, however long that takes; False when it cannot be written."""
    writable = select.poll()
    writable.register(descriptor, select.POLLOUT)
    try:
        while piece:
            try:
                piece = piece[os.write(descriptor, piece) :]
            except BlockingIOError:
                # Another process that shares the descriptor may have made it non-blocking.
                writable.poll()
    except OSError:
        return False
    return True


WINDOW_SECONDS = 60.0
BURST = 10
KEYS_MOST = 1_000


@dataclass(slots=True)
class _Window:
    ends: float
    written: set[int] = field(default_factory=set)
    """The lines that passed, each by all of its fields; at most BURST."""
    left_out: int = 0


@dataclass(slots=True)
class Throttle:
    """Lets `BURST` lines of a kind pass per `WINDOW_SECONDS`, and each of them once.

    Lines are of a kind when event, slug, server and error are the same: the number makes no
    difference. The next line of the kind to pass tells how many were left out.
    """

    clock: Callable[[], float] = time.monotonic
    _windows: dict[tuple[object, ...], _Window] = field(default_factory=dict)

    def __len__(self) -> int:
        """Count the kinds of lines that are remembered; at most KEYS_MOST."""
        return len(self._windows)

    def passes(self, fields: Mapping[str, Any]) -> int | None:
        """Tell how many lines of its kind were left out before; None: leave this one out too."""
        key = (
            fields.get("event"), fields.get("slug"), fields.get("server"), str(fields.get("error")),
        )  # fmt: skip
        text = hash(tuple((name, str(value)) for name, value in fields.items()))
        now = self.clock()
        window = self._windows.get(key)
        left_out = window.left_out if window else 0
        if window is None or now >= window.ends:
            self._make_room(now)
            window = self._windows[key] = _Window(now + WINDOW_SECONDS)
        elif text in window.written or len(window.written) >= BURST:
            window.left_out += 1
            return None
        window.written.add(text)
        window.left_out = 0
        return left_out

    def _make_room(self, now: float) -> None:
        if len(self._windows) < KEYS_MOST:
            return
        self._windows = {key: each for key, each in self._windows.items() if each.ends > now}
        if len(self._windows) >= KEYS_MOST:
            # So many different errors at once are no repetition; better too many lines than none.
            self._windows.clear()


_encoder = msgspec.json.Encoder()
_COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "31;1"}
_LAID_OUT = ("ts", "level", "event", "traceback")

WEIGHTS: Mapping[str, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40}

_URGENT = frozenset({"warning", "error"})

Render = Callable[[Mapping[str, Any]], bytes]

Counting = Mapping[Event, Callable[[Mapping[str, Any]], None]]
"""What counts an event, by its fields."""


Emit = Callable[..., None]
"""Logs one event with its fields; never fails for want of a place to write to."""


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
        each: (each.level if WEIGHTS[each.level] >= WEIGHTS[level] else None, counting.get(each))
        for each in Event
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


def set_up(level: Level, lines: Lines, counting: Counting = MappingProxyType({})) -> None:
    """Decide, once per process, what is logged and how, and who counts. `level` is log.level."""
    _process.emit = emitter(level, lines, counting)
    logging.basicConfig(handlers=[_Libraries()], level=logging.WARNING, force=True)


def emit(event: Event, **fields: Any) -> None:
    """Log one event at its level. Waits for nobody, and survives that it cannot be written."""
    _process.emit(event, **fields)


def emit_unexpected(error: BaseException, **fields: Any) -> None:
    """Log a defect of this program with its traceback; of what Redis holds, the fix."""
    if isinstance(error, LimitsBroken):
        emit(Event.KEY_BROKEN, error=error.message, fix=error.fix, **fields)
        return
    emit(Event.UNEXPECTED, error=error, traceback=traceback_of(error), **fields)


class _Process:
    """What everybody in a process reaches without being handed it; only `set_up` changes it."""

    def __init__(self, emit: Emit) -> None:
        self.emit = emit


_process = _Process(emitter("info", lines("auto", out=2)))
"""Until `set_up`, and in commands that never call it, lines go to standard error."""


class _Libraries(logging.Handler):
    """Brings what libraries warn of into the same form: asyncio's lost exceptions, for example."""

    def emit(self, record: logging.LogRecord) -> None:
        fields = {"logger": record.name, "error": record.getMessage()}
        if record.exc_info and record.exc_info[1]:
            fields["traceback"] = traceback_of(record.exc_info[1])
        emit(Event.LIBRARY, **fields)
