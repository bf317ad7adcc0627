"""One line per event: `emit(Event.ANSWERED, slug=…, number=…, ms=…)`.

Fields that mean the same have the same name everywhere: slug, number, operation, job, server,
outcome, ms, delay_ms, attempts, error, why. Numbers stay numbers; an exception may be given as
`error`. Nothing needs to be cleaned before: that is done here.
"""

from __future__ import annotations

import logging
from types import MappingProxyType
from typing import Any

from service.observe.events import Event, Level
from service.observe.redact import traceback_of
from service.observe.writer import Counting, Emit, Lines, emitter, lines
from tracking.errors import LimitsBroken


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
