"""The sweeper puts right, every few seconds, what vanished workers left behind.

Every worker sweeps, each at times of its own; two sweeps at once are harmless. With nothing waiting
and nothing in flight a sweep is one request to Redis.
"""

from __future__ import annotations

from service.observe.background import rest
from service.observe.events import Event
from service.observe.log import emit, emit_unexpected
from service.ports import Limits, Lines
from service.worker.flow.call import CallRunner
from tracking.call import Swept, TakeResult
from tracking.errors import AWAY, LimitsBroken

PERIOD_SECONDS = 5.0


class Sweeper:
    """Looks every 5 s at the lines that this worker knows, and at all that have work."""

    def __init__(self, limits: Limits, runner: CallRunner, lines: Lines) -> None:
        self._limits = limits
        self._runner = runner
        self._lines = lines

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await rest(PERIOD_SECONDS)
            try:
                await self.sweep()
            except AWAY:
                continue  # said elsewhere; the next sweep comes soon enough
            except LimitsBroken as error:
                emit_unexpected(error)

    async def sweep(self) -> None:
        """Sweep once. Raises LimitsDown, or ResultsDown while a dead one cannot be recorded.

        Raises LimitsBroken where no line can be looked at; a defect over one line is logged.
        """
        lines = self._lines
        for swept in await self._limits.sweep(lines.known(), lines.removed()):
            try:
                await self._put_right(swept)
            except AWAY:
                raise
            except Exception as error:  # noqa: BLE001 - the other lines are to be put right too
                emit_unexpected(error, slug=swept.line)

    async def _put_right(self, swept: Swept) -> None:
        if swept.cleared:
            self._lines.cleared(swept.line)
        if swept.swept or swept.put_drain or swept.dying:
            emit(
                Event.SWEPT,
                slug=swept.line,
                calls=swept.swept,
                drain=swept.put_drain,
                dying=len(swept.dying),
            )
        for call in swept.dying:
            try:
                await self._runner.give_up(call)
            except LimitsBroken as error:  # the other calls of the line may end all the same
                emit_unexpected(error, slug=swept.line, number=call.request.number)
        await self._runner.apply(swept.line, TakeResult(put_drain=swept.put_drain))
        if swept.error is not None and not isinstance(swept.error, AWAY):
            emit_unexpected(swept.error, slug=swept.line)
