"""What runs in the background of a process until it stops, and is begun again when it ends.

Such an end is a defect, and often one of a single document or moment: so the task is begun again.
One that keeps ending makes the process unfit: it stops in good order, and its parent starts
another.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from service.observe.events import Event
from service.observe.log import emit
from service.observe.redact import traceback_of
from tracking.errors import AWAY
from tracking.network import stopped

Run = Callable[[], Awaitable[None]]

HEALTHY_SECONDS = 60.0
"""A task that ran for so long ended by chance: its ends are counted from the beginning."""

ENDS_MOST = 8
"""Ends in a row, in about a minute, until the process is unfit."""

FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 15.0

ROUND_SECONDS = 5.0
"""So far apart are the instants at which what rests in this process wakes, all of it together: each
wake finds cold caches, and costs more than most of the looks that it is for."""

_FIRST_ROUND_AT = random.uniform(0.0, ROUND_SECONDS)
"""Another instant in each process: those of a machine do not ask the servers all at once."""


class Background:
    """The tasks of one process that never end by themselves."""

    def __init__(self, report: Callable[[str], None] = lambda _: None) -> None:
        """`report` shows people a task that ended, beside the log."""
        self._report = report
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self.unfit = asyncio.Event()
        """Set when a task keeps ending."""

    def start(self, name: str, run: Run) -> asyncio.Task[None]:
        """Run it until `stop`."""
        task = asyncio.create_task(self._keep_running(name, run), name=name)
        self._tasks.append(task)
        return task

    def keep_looking(
        self,
        name: str,
        look: Callable[[], Awaitable[object]],
        seconds: float,
        may: Callable[[], bool] = lambda: True,
    ) -> None:
        """Look about every so many seconds while it `may`, until `stop`.

        What is away then is said elsewhere; the next look does it.
        """

        async def run() -> None:
            while True:
                await rest(seconds)
                if may():
                    with suppress(*AWAY):
                        await look()

        self.start(name, run)

    @asynccontextmanager
    async def beside(self, name: str, run: Run) -> AsyncIterator[None]:
        """Run it within the `with` block."""
        task = self.start(name, run)
        try:
            yield
        finally:
            await stopped(task)

    def retire(self) -> None:
        """From now on a task that returns has done what it was asked to."""
        self._stopping = True

    async def stop(self) -> None:
        """Cancel them all, and wait for their ends."""
        await stopped(*self._tasks)

    async def _keep_running(self, name: str, run: Run) -> None:
        ends = 0
        while True:
            began = time.monotonic()
            error = await _end_of(run)
            if self._stopping:
                return
            ends = 1 if time.monotonic() - began >= HEALTHY_SECONDS else ends + 1
            delay = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** (ends - 1))
            emit(
                Event.TASK_ENDED,
                task=name,
                error=error,
                traceback=traceback_of(error),
                ends=ends,
                delay_ms=round(delay * 1000),
            )
            if ends >= ENDS_MOST and not self.unfit.is_set():
                self.unfit.set()
                emit(Event.UNFIT, task=name, ends=ends)
            # No text of the error: it may hold what only the log takes out.
            at = f"{dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M:%S}Z"
            self._report(f"{name} ended {ends}x in a row, last at {at} ({type(error).__name__})")
            await asyncio.sleep(delay)


async def rest(seconds: float) -> None:
    """Rest for about so long: until `wake_at`."""
    now = asyncio.get_running_loop().time()
    await asyncio.sleep(wake_at(now, seconds) - now)


def wake_at(now: float, seconds: float) -> float:
    """Say when something wakes that rests for about so many seconds from `now` on.

    It is the round nearest to then; what rests for less than a round wakes exactly then.
    """
    if seconds < ROUND_SECONDS:
        return now + seconds
    rounds = round((now + seconds - _FIRST_ROUND_AT) / ROUND_SECONDS)
    return _FIRST_ROUND_AT + rounds * ROUND_SECONDS


async def _end_of(run: Run) -> BaseException:
    """Run it to its end, and tell what ended it."""
    try:
        await run()
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return error  # what it waited for was cancelled, not this task
    except Exception as error:  # noqa: BLE001 - whatever it is, the task is begun again
        return error
    return RuntimeError("it returned")
