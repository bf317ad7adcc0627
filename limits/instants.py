"""The waits of all permits under one timer: many calls are granted a tenth of a second ahead.

`asyncio.sleep` makes a timer for each of them, and the event loop sorts its timers in Python.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools


class Instants:
    """Wakes each one that waits when its instant has come, the earliest first."""

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
