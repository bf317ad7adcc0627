"""The right to one HTTP request, held until its instant and stamped when it has left.

Pacing stands on the measured send, not on the grant: a late send costs a little rate and never
breaks the limit. The gate below is the last thing before the first byte.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from limits.clock import MICRO, Clock
from limits.rules import LATE_SECONDS
from tracking.errors import NotStarted

Report = Callable[[str, int], None]
"""Takes a start id and the upper bound of its send on Redis' clock, in µs."""

Note = Callable[[float], None]
"""Takes how many seconds after its send the answer to a call's first request began to arrive."""

Again = Callable[[str], Awaitable[int]]
"""Asks for one further start under the given start id; returns its instant in µs."""


class CallPermit:
    """One call's permit (see tracking.permit.Permit). Single use, unless `again` renews it."""

    __slots__ = (
        "_again",
        "_at",
        "_clock",
        "_id",
        "_note",
        "_report",
        "_requests",
        "_sent",
        "_steps",
        "_used",
        "deadline",
    )

    def __init__(
        self, call_id: str, at_us: int, deadline: float, clock: Clock, report: Report
    ) -> None:
        self.deadline = deadline
        self._id = call_id
        self._at = at_us / MICRO
        self._clock = clock
        self._report = report
        self._note: Note = lambda _: None
        self._sent: float | None = None
        self._again: Again | None = None
        self._requests = 0
        self._used = False
        self._steps = clock.steps

    def renewed_by(self, again: Again) -> CallPermit:
        """Set how further requests are asked for; once, right after construction."""
        self._again = again
        return self

    def timed_by(self, note: Note) -> CallPermit:
        """Set who hears how long the answer took; once, right after construction."""
        self._note = note
        return self

    @property
    def started(self) -> bool:
        """True once a byte may have left: the start is spent then."""
        return self._requests > 0

    @property
    def _start_id(self) -> str:
        return self._id if self._requests <= 1 else f"{self._id}#{self._requests}"

    async def again(self) -> None:
        """Get leave for one further request; waits for a free lane."""
        if self._again is None:
            raise NotStarted("this permit is for one request")
        at_us = await self._again(f"{self._id}#{self._requests + 1}")
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
        self._report(self._start_id, round((now + self._clock.high) * MICRO))
        self._sent = now if self._requests == 1 else None

    def answered(self, ago: float) -> None:
        """Note how long the first answer took; of further requests each may take its own time."""
        if self._sent is not None:
            self._note(max(0.0, time.monotonic() - ago - self._sent))
            self._sent = None
