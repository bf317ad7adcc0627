"""One line per event: `emit(Event.ANSWERED, slug=…, number=…, ms=…)`.

Fields that mean the same have the same name everywhere: slug, number, operation, job, server,
outcome, ms, delay_ms, attempts, error, why. Numbers stay numbers; an exception may be given as
`error`. Nothing needs to be cleaned before: that is done here.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import MutableMapping
from typing import Any

import structlog

from service.observe.clean import traceback_of
from service.observe.events import LEVELS, Event, Level
from service.observe.lines import WEIGHTS, Lines
from service.observe.output import Output


def set_up(level: Level, lines: Lines) -> None:
    """Decide, once per process, what is logged and how. `level` is log.level."""

    def line_of(_: Any, level: str, fields: MutableMapping[str, Any]) -> bytes:
        line = lines.line(level, fields.pop("event"), fields)
        if line is None:
            raise structlog.DropEvent
        return line

    structlog.configure(
        # One step is quicker than a chain of them.
        processors=[line_of],
        wrapper_class=structlog.make_filtering_bound_logger(WEIGHTS[level]),
        logger_factory=lambda *_: _Sink(lines.out),
        cache_logger_on_first_use=False,
    )
    _logger.cache_clear()
    logging.basicConfig(handlers=[_Libraries()], level=logging.WARNING, force=True)


def emit(event: Event, **fields: Any) -> None:
    """Log one event at its level. Waits for nothing but a write, and survives its failure."""
    getattr(_logger(), LEVELS[event])(event.value, **fields)


def emit_unexpected(error: BaseException, **fields: Any) -> None:
    """Log a defect of this program with its traceback."""
    emit(Event.UNEXPECTED, error=error, traceback=traceback_of(error), **fields)


@functools.cache
def _logger() -> Any:
    """Bind once per `set_up`: binding anew would cost as much as writing the line."""
    return structlog.get_logger().bind()


class _Sink:
    """What structlog calls with a finished line."""

    def __init__(self, out: Output) -> None:
        self.debug = self.info = out.write_soon
        self.warning = self.error = out.write


class _Libraries(logging.Handler):
    """Brings what libraries warn of into the same form: asyncio's lost exceptions, for example."""

    def emit(self, record: logging.LogRecord) -> None:
        fields = {"logger": record.name, "error": record.getMessage()}
        if record.exc_info and record.exc_info[1]:
            fields["traceback"] = traceback_of(record.exc_info[1])
        emit(Event.LIBRARY, **fields)
