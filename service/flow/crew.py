"""The tasks of one process: how many it can carry, who still runs, and how it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from service.observe.log import emit_unexpected


class Crew:
    """Holds every task of the flow, so that none is lost and all are awaited.

    `most` counts jobs and calls together.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    def room(self) -> int:
        """How many more calls this process may take; 0 once it stops."""
        return 0 if self._stopping else max(0, self._most - len(self._tasks))

    def successors(self) -> int:
        """How many calls may follow one that ends: one in its place, one more if there is room."""
        if self._stopping:
            return 0
        return 2 if self.room() else 1

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin a task. What it raises is a defect, logged with its traceback."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def take_no_more(self) -> None:
        """From now on there is no room; what runs goes on."""
        self._stopping = True

    async def stop(self, grace_seconds: float) -> int:
        """Take nothing more, let what runs end, hand the rest back. Returns how many that were."""
        self._stopping = True
        loop = asyncio.get_running_loop()
        until = loop.time() + grace_seconds
        while self._tasks and (left := until - loop.time()) > 0:
            await asyncio.wait(self._tasks, timeout=left)
        cut_off = list(self._tasks)
        for task in cut_off:
            task.cancel()
        await asyncio.gather(*cut_off, return_exceptions=True)
        return len(cut_off)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            emit_unexpected(error)
