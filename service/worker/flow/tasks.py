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
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from operator import itemgetter
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


Yields = Callable[[Line], bool]
"""Whether calls of a line have half of the slots at most, together with those of others like it."""


class WaitingLines:
    """The lines that could call and wait for a slot, in the order in which they came."""

    def __init__(self, yields: Yields) -> None:
        self.wake: Callable[[], None] = lambda: None
        self._yields = yields
        self._turns = itertools.count()
        self._lines: tuple[dict[Line, int], dict[Line, int]] = ({}, {})
        """Those that do not yield, and those that do, each with its turn."""

    def __len__(self) -> int:
        return sum(map(len, self._lines))

    def add(self, line: Line) -> bool:
        """Put `line` at the end of the queue. False: it waits already."""
        lines = self._lines[self._yields(line)]
        new = line not in lines
        if new:
            lines[line] = next(self._turns)
        self.wake()
        return new

    def leave(self, line: Line) -> None:
        """Let `line` wait no more; does nothing to a line that does not wait."""
        self._lines[self._yields(line)].pop(line, None)

    def are_any(self, *, yielding: bool) -> bool:
        """Whether lines wait, those that yield only where `yielding` says so."""
        return bool(self._lines[False] or (yielding and self._lines[True]))

    def pop(self, *, yielding: bool) -> Line | None:
        """Take out the line that has waited longest, one that yields only where that is said."""
        heads = (next(iter(lines.items()), None) for lines in self._lines[: 1 + yielding])
        first = min(filter(None, heads), key=itemgetter(1), default=None)
        if first is None:
            return None
        self.leave(first[0])
        return first[0]


class CallSlots:
    """The slots for calls of one process: never more than `most` calls are in flight.

    Redis grants, so a task reserves slots before it asks Redis, for as many calls as may be
    granted. A slot belongs to the task that reserved it, and is free again when that task gives it
    back or ends, however it ends; a task that is started for a granted call gets its slot from the
    task that starts it.

    A line that could call and finds no slot waits here. As long as a line waits that may have one,
    no other gets a slot, not even the line whose call just ended: so all lines of a full process
    get their turns. `waiting.wake` is called when `next_waiting_line` may succeed.

    Lines that yield have half of the slots at most: however long their calls take, the others find
    the other half. While an answer could not be stored no line gets a slot, as if the process were
    full.
    """

    def __init__(self, most: int, results: Results, yields: Yields = lambda _: False) -> None:
        """`most`: calls at once."""
        self.waiting = WaitingLines(yields)
        self._results = results
        self._yields = yields
        self._loop = asyncio.get_running_loop()
        self._most = self._free = most
        self._half = max(1, most // 2)
        """Slots that lines which yield may still have."""
        self._held: dict[Task, int] = {}
        self._yielding = set[Task]()
        self._stopping = False

    @property
    def taken(self) -> int:
        """Calls in flight, and those that Redis may grant just now."""
        return self._most - self._free

    def reserve(self, most: int, line: Line) -> int:
        """Reserve slots for `line` until this task has `most`. Returns the room as scripts want it.

        That is how many the task has; NO_ROOM: none for now; 0: none any more, this process stops.
        """
        if self._stopping:
            return 0
        if not self._results.is_available:
            return NO_ROOM  # the slot that this task has is not for another call
        task, yields = self._this_task(), self._yields(line)
        held = self._held.get(task, 0)
        free = min(self._free, self._half) if yields else self._free
        if not self._others_wait(yields=yields) and (more := min(most - held, free)) > 0:
            self._give(task, more, yields=yields)
            held += more
        return held or NO_ROOM

    def reserve_for_next(self, line: Line) -> int:
        """Reserve slots for what may follow a call of `line` that this task ends, as `reserve`."""
        if self._others_wait(yields=self._yields(line)) and not self._stopping:
            return NO_ROOM
        return self.reserve(MOST_FOLLOWERS, line)

    def transfer(self, task: Task) -> None:
        """Give a slot of this task to another task, which carries a call of the same line."""
        this = self._this_task()
        yields = this in self._yielding
        if self._held.get(this):
            self._held[this] -= 1
            self._free += 1
            self._half += yields
        self._give(task, 1, yields=yields)

    def give_back(self) -> None:
        """Give back the slots that this task still has."""
        task = self._this_task()
        if task in self._held:
            task.remove_done_callback(self._left)
            self._left(task)

    def next_waiting_line(self) -> Line | None:
        """Take out the line that has waited longest, if a slot is free; `assign` it to its task."""
        can_call = self._free > 0 and self._results.is_available
        return self.waiting.pop(yielding=self._half > 0) if can_call else None

    def assign(self, task: Task, line: Line, most: int = 1) -> None:
        """Give up to `most` of the free slots to the task of a line that waited."""
        yields = self._yields(line)
        free = min(self._free, self._half) if yields else self._free
        self._give(task, min(most, free), yields=yields)

    def stop(self) -> None:
        """Give nobody a slot from now on; calls that run go on."""
        self._stopping = True

    def _others_wait(self, *, yields: bool) -> bool:
        """Whether lines wait that come before this one; those that yield, if they may have any."""
        return self.waiting.are_any(yielding=yields or self._half > 0)

    def _give(self, task: Task, slots: int, *, yields: bool) -> None:
        if task not in self._held:
            self._held[task] = 0
            task.add_done_callback(self._left)
            if yields:
                self._yielding.add(task)
        self._held[task] += slots
        self._free -= slots
        if yields:
            self._half -= slots

    def _left(self, task: Task) -> None:
        slots = self._held.pop(task, 0)
        if task in self._yielding:
            self._yielding.discard(task)
            self._half += slots
        if slots:
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

    `until` is on the clock of `time.monotonic()`; the last try begins then, and raises. Any other
    error, as that of a script, is a defect: it is raised at once.
    """
    wait = FIRST_WAIT_SECONDS
    while True:
        try:
            return await step()
        except AWAY:
            if (left := until - time.monotonic()) <= 0:
                raise
        await asyncio.sleep(min(wait * (0.5 + random.random() / 2), left))
        wait = min(wait * 2, LONGEST_WAIT_SECONDS)
