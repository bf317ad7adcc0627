"""Many callers, one call: what is asked for while one batch runs makes up the next."""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from service.observe.log import emit_unexpected
from tracking.errors import ResultsDown, TrackingError

In = TypeVar("In")
Out = TypeVar("Out")

BATCH_MOST = 500
"""Items of one batch: some 2 MB of documents, written in about 50 ms."""


class Batches(Generic[In, Out]):
    """Collects what `submit` is given and lets `work` do it, one batch at a time, in order.

    `work` returns one result per item; a TrackingError among them is raised for that item only. If
    it raises one, that is raised for every item of the batch.
    """

    def __init__(
        self,
        work: Callable[[list[In]], Awaitable[Sequence[Out | TrackingError]]],
        most: int = BATCH_MOST,
        size: Callable[[In], int] = lambda _: 1,
    ) -> None:
        """A batch ends with the item by which the sizes of its items reach `most`."""
        self._work = work
        self._most = most
        self._size = size
        self._loop = asyncio.get_running_loop()
        self._items: deque[tuple[In, asyncio.Future[Out]]] = deque()
        self._task: asyncio.Task[None] | None = None

    def submit(self, item: In) -> asyncio.Future[Out]:
        """Have one item done. A caller that is cancelled leaves its item in the batch."""
        done: asyncio.Future[Out] = self._loop.create_future()
        self._items.append((item, done))
        if self._task is None:
            # It begins after this turn of the loop, so that all of the turn get into one batch.
            self._task = asyncio.create_task(self._run())
        return done

    async def _run(self) -> None:
        try:
            while self._items:
                await self._run_one(self._next())
        finally:
            self._task = None

    def _next(self) -> list[tuple[In, asyncio.Future[Out]]]:
        batch, room = [], self._most
        while self._items and room > 0:
            batch.append(self._items.popleft())
            room -= self._size(batch[-1][0])
        return batch

    async def _run_one(self, batch: list[tuple[In, asyncio.Future[Out]]]) -> None:
        results: Sequence[Out | TrackingError] = []
        try:
            results = await self._work([item for item, _ in batch])
        except TrackingError as error:
            results = [error] * len(batch)
        except Exception as error:  # noqa: BLE001 - a defect; the next batch is done all the same
            emit_unexpected(error)
        finally:
            # A defect, or the end of the worker: those who wait must not wait for ever.
            self._tell(batch, results or [ResultsDown("the write was cut off")] * len(batch))

    @staticmethod
    def _tell(
        batch: Sequence[tuple[In, asyncio.Future[Out]]], results: Sequence[Out | TrackingError]
    ) -> None:
        for (_, done), result in zip(batch, results, strict=True):
            if done.done():
                continue
            if isinstance(result, TrackingError):
                done.set_exception(copy.copy(result))  # each raise adds to its own traceback
            else:
                done.set_result(result)
