"""The deadlines of all calls under one timer: nearly every call ends long before its own.

`asyncio.timeout` makes, sorts and cancels a timer for each call, which costs as much as reading an
answer. A deadline here is met within STEP_SECONDS; leases have more to spare than that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")

STEP_SECONDS = 0.1


class Deadlines:
    """One per process. Each task holds at most one deadline at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ends: dict[asyncio.Task[Any], float] = {}
        self._over: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def hold(self, deadline: float, work: Awaitable[T]) -> T:
        """Await `work`; raises TimeoutError at `deadline`, on the clock of `time.monotonic()`."""
        task = asyncio.current_task(self._loop)
        if task is None:
            raise RuntimeError("a deadline ends a task")
        self._ends[task] = deadline
        if self._timer is None:
            self._wait()
        try:
            return await work
        except asyncio.CancelledError:
            # Another one who cancelled the task as well wants it to end.
            if task in self._over and task.uncancel() == 0:
                raise TimeoutError from None
            raise
        finally:
            del self._ends[task]
            self._over.discard(task)

    def _wait(self) -> None:
        self._timer = self._loop.call_later(STEP_SECONDS, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        for task, deadline in self._ends.items():
            if deadline <= now and task not in self._over:
                self._over.add(task)
                task.cancel()
        self._timer = None
        if self._ends:
            self._wait()
