"""Redis' clock seen from here: an interval, never a guess.

Around every exchange: `before` and `after` on our monotonic clock, and Redis' own TIME in between.
So Redis minus monotonic lies in [time - after, time - before]. The intersection over the last two
spans of five seconds is kept; on loopback it is about 0.2 ms wide. An empty intersection means
that a clock stepped: what is known is thrown away and gathered again.

A leap is a step forward by more than a second: by it leases end of calls that still run. So every
script says how late it can be at most, and does nothing where Redis' clock shows more.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from dataclasses import dataclass

SPAN_SECONDS = 5.0
MICRO = 1_000_000

STEP_SECONDS = 0.005
"""A disagreement larger than this is a step of a clock and not its steering."""

SETTLE_SECONDS = 1.1
"""How long nothing is sent after a step: a forward step frees lanes that are still in use."""


LEAP_SECONDS = 1.0
"""A longer step forward is a leap. Leases outlast their calls by more than that."""


@dataclass(slots=True)
class _Span:
    began: float
    low: float
    high: float


class Clock:
    """Maps `time.monotonic()` (seconds) to Redis' TIME (seconds) with both bounds."""

    def __init__(self) -> None:
        self._current: _Span | None = None
        self._previous: _Span | None = None
        self._low, self._high = 0.0, 0.0
        self.steps = 0
        self.before_leap: float | None = None
        """What `high` was before a leap that Redis is still to hear of; None: there is none."""
        self._delay = LEAP_SECONDS
        self._settled_at = 0.0
        self.sleep = Instants().sleep
        """Waits for so many seconds; permits do, each for its own instant."""

    def observe(self, before: float, time_us: int, after: float) -> None:
        """Note one exchange: monotonic seconds before and after, Redis' microseconds between."""
        low, high = time_us / MICRO - after, time_us / MICRO - before
        current = self._current
        if current and low - self._high > LEAP_SECONDS and self.before_leap is None:
            self.before_leap = self._high
        if current is None or after - current.began > 2 * SPAN_SECONDS:
            # What was known long ago says nothing: clocks drift apart without any step.
            self._previous, self._current = None, _Span(before, low, high)
        elif after - current.began > SPAN_SECONDS:
            self._previous, self._current = current, _Span(before, low, high)
        else:
            current.low, current.high = max(current.low, low), min(current.high, high)
        self._intersect()
        if self._low > self._high:
            if self._low - self._high > STEP_SECONDS:
                self.steps += 1
                self._settled_at = after + SETTLE_SECONDS
            self._previous, self._current = None, _Span(before, low, high)
            self._intersect()

    def latest_us(self) -> int:
        """What Redis' clock can show when a script of now begins; 0: nothing is known of it."""
        if self._current is None:
            return 0
        return round((time.monotonic() + self._high + self._delay) * MICRO)

    def came_late(self, seconds: float | None) -> None:
        """Let the next script be as late as one that took so long; None: the last was not."""
        self._delay = LEAP_SECONDS if seconds is None else max(LEAP_SECONDS, 2 * seconds)

    def _intersect(self) -> None:
        known = [span for span in (self._current, self._previous) if span]
        self._low = max(span.low for span in known)
        self._high = min(span.high for span in known)

    async def settled(self) -> None:
        """Wait until the last step of a clock is long enough ago."""
        # It may step again meanwhile.
        while (wait := self._settled_at - time.monotonic()) > 0:  # noqa: ASYNC110 - no event: a time
            await asyncio.sleep(wait)

    @property
    def low(self) -> float:
        """Redis minus monotonic is at least this, in seconds."""
        return self._low

    @property
    def high(self) -> float:
        """Redis minus monotonic is at most this, in seconds."""
        return self._high

    def monotonic(self, time_us: float) -> float:
        """The latest instant of our monotonic clock at which Redis' clock shows `time_us`."""
        return time_us / MICRO - self._low


class Instants:
    """Wakes each one that waits when its instant has come, the earliest first.

    Many calls are granted a tenth of a second ahead. `asyncio.sleep` makes a timer for each of
    them, and the event loop sorts its timers in Python: these share one.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    def sleep(self, seconds: float) -> asyncio.Future[None]:
        """Wait for so long, as `asyncio.sleep` does."""
        loop = asyncio.get_running_loop()
        at, waking = loop.time() + seconds, loop.create_future()
        entry = at, next(self._order), waking
        heapq.heappush(self._heap, entry)
        if self._heap[0] is entry:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(at, self._wake, loop)
        return waking

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        while self._heap and self._heap[0][0] <= now:
            _, _, waking = heapq.heappop(self._heap)
            if not waking.done():  # its task may have been cancelled
                waking.set_result(None)
        self._timer = loop.call_at(self._heap[0][0], self._wake, loop) if self._heap else None
