"""The right to one HTTP request, held until its instant and stamped when it has left.

Pacing stands on the measured send, not on the grant: a late send costs a little rate and never
breaks the limit. The gate below is the last thing before the first byte. The measured sends travel
with the next script of their line. When none is due within the time in which a report matters, a
script of its own carries them: a lane without a report is held up to a second longer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from limits.clock import MICRO, Clock
from limits.rules import LATE_SECONDS, RuleBook
from tracking.errors import NotStarted
from tracking.line import Line
from tracking.network import stopped

OWN_SCRIPT_AFTER_SECONDS = 0.3
"""A lane is asked for again about 0.85 s after its send; less than half leaves room to be slow."""

Send = Callable[[Line], Awaitable[None]]
"""Runs `started` for one line, which picks the reports up by `take`."""

_encode = msgspec.json.Encoder().encode


class CallPermit:
    """One call's permit (see tracking.call.Permit). Single use, until `again` renews it."""

    __slots__ = (
        "_at",
        "_clock",
        "_id",
        "_requests",
        "_sent",
        "_starts",
        "_steps",
        "_used",
        "deadline",
    )

    def __init__(
        self, call_id: str, at_us: int, deadline: float, clock: Clock, starts: Starts
    ) -> None:
        self.deadline = deadline
        self._id = call_id
        self._at = at_us / MICRO
        self._clock = clock
        self._starts = starts
        self._sent: float | None = None
        self._requests = 0
        self._used = False
        self._steps = clock.steps

    @property
    def started(self) -> bool:
        """True once a byte may have left: the start is spent then."""
        return self._requests > 0

    @property
    def _start_id(self) -> str:
        return self._id if self._requests <= 1 else f"{self._id}#{self._requests}"

    async def again(self) -> None:
        """Get leave for one further request; waits for a free lane."""
        at_us = await self._starts.again(self._id, f"{self._id}#{self._requests + 1}")
        self._at = at_us / MICRO
        self._used = False
        self._steps = self._clock.steps

    async def before_send(self) -> None:
        """Hold until the granted instant. Raises NotStarted when it is long past, or used."""
        if self._used:
            raise NotStarted(f"the grant {self._start_id} was used before")
        await self._clock.settled()
        while True:
            if self._clock.steps != self._steps:
                # Its instant is not what it was, and its lane may have gone to others since.
                raise NotStarted(f"a clock stepped after the grant {self._id}")
            now = time.monotonic()
            early = self._at - (now + self._clock.low)
            if early <= 0:
                break
            await self._clock.sleep(early)
        if now + self._clock.high > self._at + LATE_SECONDS or now > self.deadline:
            raise NotStarted(f"the grant {self._id} came {-early:.3f} s too late")
        self._used = True
        self._requests += 1

    def after_send(self) -> None:
        """Stamp the send: the upper bound, because an earlier one could free the lane too soon."""
        now = time.monotonic()
        self._starts.sent(self._start_id, round((now + self._clock.high) * MICRO))
        self._sent = now if self._requests == 1 else None

    def answered(self, ago: float) -> None:
        """Note how long the first answer took; of further requests each may take its own time."""
        if self._sent is not None:
            self._starts.answered(max(0.0, time.monotonic() - ago - self._sent))
            self._sent = None


class Reports:
    """Measured sends on their way back to Redis, per line.

    They travel with the next script of their line. When none is due within the time in which a
    report matters, a script of their own carries them: a lane without a report is held up to a
    second longer.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: dict[Line, list[str | int]] = {}
        self._since: dict[Line, float] = {}
        self._carrying: asyncio.Task[None] | None = None

    def add(self, line: Line, start_id: str, send_us: int) -> None:
        """Note one send, in µs of Redis' clock."""
        self._waiting.setdefault(line, []).extend((start_id, send_us))
        self._since.setdefault(line, time.monotonic())
        if self._carrying is None:
            self._carrying = asyncio.create_task(self._carry())

    def take(self, line: Line) -> list[str | int]:
        """Hand over what waits for a script of `line`: [start id, µs, …]."""
        self._since.pop(line, None)
        return self._waiting.pop(line, [])

    def put_back(self, line: Line, reports: list[str | int]) -> None:
        """The script did not arrive: the reports wait for the next one."""
        if reports:
            self._waiting.setdefault(line, [])[:0] = reports
            self._since.setdefault(line, time.monotonic())

    async def _carry(self) -> None:
        try:
            while self._since:
                oldest = min(self._since.values())
                await asyncio.sleep(max(0.0, oldest + OWN_SCRIPT_AFTER_SECONDS - time.monotonic()))
                due = time.monotonic() - OWN_SCRIPT_AFTER_SECONDS
                lines = [line for line, since in self._since.items() if since <= due]
                await asyncio.gather(*(self._send(line) for line in lines))
        finally:
            self._carrying = None

    async def close(self) -> None:
        """Stop carrying; what is left only costs its lanes some time."""
        if self._carrying is not None:
            await stopped(self._carrying)


@dataclass(frozen=True, slots=True)
class Starts:
    """The starts of one line: what permits say of them, and how they ask for more."""

    line: Line
    ask: Callable[[Line, str, str], Awaitable[int]]
    reports: Reports
    book: RuleBook

    def sent(self, start_id: str, send_us: int) -> None:
        """Note a send: the upper bound of its instant on Redis' clock, in µs."""
        self.reports.add(self.line, start_id, send_us)

    def answered(self, seconds: float) -> None:
        """Note how long after its send the answer to a call's first request began to arrive."""
        self.book.note(self.line, seconds)

    async def again(self, call_id: str, start_id: str) -> int:
        """Ask for one further start of a call; returns its instant in µs. Raises NotStarted."""
        return await self.ask(self.line, call_id, start_id)


def encode_reports(reports: list[str | int]) -> bytes:
    """Write reports as lua/lib/context.lua reads them."""
    return _encode(reports) if reports else b"[]"
