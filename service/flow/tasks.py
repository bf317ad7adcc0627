"""The tasks of one process: who still runs, and how it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from service.observe.log import emit_unexpected


class Tasks:
    """Holds every task of the flow, so that none is lost and all are awaited."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[object]] = set()
        self._resting: set[asyncio.Task[object]] = set()

    def start(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
        """Begin a task. What it raises is a defect, logged with its traceback."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    @property
    def resting(self) -> int:
        """How many tasks rest."""
        return len(self._resting)

    def rest(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin a task that only waits for a better time, so that a stop does not wait for it."""
        task = self.start(work)
        self._resting.add(task)
        task.add_done_callback(self._resting.discard)

    async def stop(self, grace_seconds: float) -> int:
        """Let what runs end, hand the rest back. Returns how many that were."""
        until = self._loop.time() + grace_seconds
        for task in self._resting:
            task.cancel()
        while self._tasks and (left := until - self._loop.time()) > 0:
            await asyncio.wait(self._tasks, timeout=left)
        cut_off = list(self._tasks)
        for task in cut_off:
            task.cancel()
        await asyncio.gather(*cut_off, return_exceptions=True)
        return len(cut_off)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            emit_unexpected(error)
