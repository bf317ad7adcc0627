"""The tasks of one process: their slots for calls, their deadlines, their retries, their end.

========================== =================================================================
`Tasks`                    holds all of them, so that none is lost, and ends them at a stop
`CallSlots`                bounds the calls that they have in flight
`Deadlines`                ends a step at its deadline
`keep_trying`              repeats a step until its store is back
========================== =================================================================
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from service.observe.log import emit_unexpected
from service.ports import Results
from tracking.call import NO_ROOM
from tracking.errors import AWAY
from tracking.line import Line

T = TypeVar("T")
Task = asyncio.Task[Any]

MOST_FOLLOWERS = 2
"""Of a call that ends: one in its slot, and one more, or a line that is behind would stay so."""

DEADLINE_STEP_SECONDS = 0.1
"""A deadline is met within this time; leases have more to spare."""

FIRST_WAIT_SECONDS = 0.05
LONGEST_WAIT_SECONDS = 2.0
"""After a server's return traffic goes on within this time."""


class Tasks:
    """All tasks of the flow. Each is held until it ends, and awaited at a stop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[Task] = set()
        self._resting: set[Task] = set()

    def start(self, work: Coroutine[Any, Any, object]) -> Task:
        """Start a task. What it raises is a defect, logged with its traceback."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    @property
    def resting(self) -> int:
        """How many tasks rest."""
        return len(self._resting)

    def rest(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task that only waits for a better time, so that a stop does not wait for it."""
        task = self.start(work)
        self._resting.add(task)
        task.add_done_callback(self._resting.discard)

    async def stop(self, grace_seconds: float) -> int:
        """Let tasks end within the grace, then cancel the rest. Returns how many that were."""
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

    def _ended(self, task: Task) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            emit_unexpected(error)


class WaitingLines:
    """The lines that could call and wait for a slot, in the order in which they came."""

    def __init__(self) -> None:
        self.wake: Callable[[], None] = lambda: None
        self._lines: dict[Line, None] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, line: Line) -> bool:
        """Put `line` at the end of the queue. False: it waits already."""
        new = line not in self._lines
        self._lines[line] = None
        self.wake()
        return new

    def leave(self, line: Line) -> None:
        """Let `line` wait no more; does nothing to a line that does not wait."""
        self._lines.pop(line, None)

    def pop(self) -> Line:
        """Take out the line that has waited longest."""
        line = next(iter(self._lines))
        del self._lines[line]
        return line


class CallSlots:
    """The slots for calls of one process: never more than `most` calls are in flight.

    Redis grants, so a task reserves slots before it asks Redis, for as many calls as may be
    granted. A slot belongs to the task that reserved it, and is free again when that task gives it
    back or ends, however it ends; a task that is started for a granted call gets its slot from the
    task that starts it.

    A line that could call and finds no slot waits here. As long as a line waits, no other gets a
    slot, not even the line whose call just ended: so all lines of a full process get their turns.
    `waiting.wake` is called when `next_waiting_line` may succeed.

    While an answer could not be stored no line gets a slot, as if the process were full.
    """

    def __init__(self, most: int, results: Results) -> None:
        """`most`: calls at once."""
        self.waiting = WaitingLines()
        self._results = results
        self._loop = asyncio.get_running_loop()
        self._most = self._free = most
        self._held: dict[Task, int] = {}
        self._stopping = False

    @property
    def taken(self) -> int:
        """Calls in flight, and those that Redis may grant just now."""
        return self._most - self._free

    def reserve(self, most: int) -> int:
        """Reserve slots until this task has `most` of them. Returns the room as scripts want it.

        That is how many the task has; NO_ROOM: none for now; 0: none any more, this process stops.
        """
        if self._stopping:
            return 0
        if not self._results.is_available:
            return NO_ROOM  # the slot that this task has is not for another call
        task = self._this_task()
        held = self._held.get(task, 0)
        if not self.waiting and (more := min(most - held, self._free)) > 0:
            self._give(task, more)
            held += more
        return held or NO_ROOM

    def reserve_for_next(self) -> int:
        """Reserve slots for what may follow the call that this task ends; returns as `reserve`."""
        return NO_ROOM if self.waiting and not self._stopping else self.reserve(MOST_FOLLOWERS)

    def transfer(self, task: Task) -> None:
        """Give a slot of this task to another task, which carries a call."""
        this = self._this_task()
        if self._held.get(this):
            self._held[this] -= 1
            self._free += 1
        self._give(task, 1)

    def give_back(self) -> None:
        """Give back the slots that this task still has."""
        task = self._this_task()
        if task in self._held:
            task.remove_done_callback(self._left)
            self._left(task)

    def next_waiting_line(self) -> Line | None:
        """Take out the line that has waited longest, if a slot is free; `assign` it to its task."""
        can_call = self._free > 0 and self._results.is_available
        return self.waiting.pop() if self.waiting and can_call else None

    def assign(self, task: Task, most: int = 1) -> None:
        """Give up to `most` of the free slots to the task of a line that waited."""
        self._give(task, min(most, self._free))

    def stop(self) -> None:
        """Give nobody a slot from now on; calls that run go on."""
        self._stopping = True

    def _give(self, task: Task, slots: int) -> None:
        if task not in self._held:
            self._held[task] = 0
            task.add_done_callback(self._left)
        self._held[task] += slots
        self._free -= slots

    def _left(self, task: Task) -> None:
        if slots := self._held.pop(task, 0):
            self._free += slots
            if self.waiting:
                self.waiting.wake()

    def _this_task(self) -> Task:
        task = asyncio.current_task(self._loop)
        if task is None:
            raise RuntimeError("only a task has slots")
        return task


class Deadlines:
    """The deadlines of all calls under one timer: nearly every call ends long before its own.

    `asyncio.timeout` makes, sorts and cancels a timer for each call, which costs as much as reading
    an answer. Each task holds at most one deadline at a time.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ends: dict[Task, float] = {}
        self._over: set[Task] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def hold(
        self, deadline: float, work: Awaitable[T], over: type[Exception] = TimeoutError
    ) -> T:
        """Await `work`; raises `over` at `deadline`, on the clock of `time.monotonic()`."""
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
                raise over from None
            raise
        finally:
            del self._ends[task]
            self._over.discard(task)

    def _wait(self) -> None:
        self._timer = self._loop.call_later(DEADLINE_STEP_SECONDS, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        for task, deadline in self._ends.items():
            if deadline <= now and task not in self._over:
                self._over.add(task)
                task.cancel()
        self._timer = None
        if self._ends:
            self._wait()


async def keep_trying(step: Callable[[], Awaitable[T]], until: float = float("inf")) -> T:
    """Repeat `step` while its store is away. Every step of the flow may be repeated.

    `until` is on the clock of `time.monotonic()`; after it the last error is raised. Any other
    error, as that of a script, is a defect: it is raised at once.
    """
    wait = FIRST_WAIT_SECONDS
    while True:
        try:
            return await step()
        except AWAY:
            if time.monotonic() + wait > until:
                raise
        await asyncio.sleep(wait * (0.5 + random.random() / 2))
        wait = min(wait * 2, LONGEST_WAIT_SECONDS)
