"""How many calls this process has in flight: never more than `most`, over all its tasks.

Redis grants, so a task takes places before it asks Redis, for as many calls as may be granted.
A place belongs to the task that took it, and is free again when that task leaves or ends, however
it ends; a task that is started for a granted call gets its place from the one that starts it.

A line that could call and finds no place waits here; as long as one waits, no other is given a
place, not even the line whose call just ended. So all lines of a full process get their turns.

While an answer could not be stored no line is given a place, as if the process were full: the lines
wait here meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tracking.call import NO_ROOM
from tracking.line import Line

Task = asyncio.Task[Any]

MOST_FOLLOWERS = 2
"""Of a call that ends: one in its place, and one more, or a line that is behind would stay so."""


class WaitingLines:
    """The lines that could call and wait for a place, in the order in which they came."""

    def __init__(self) -> None:
        self.wake: Callable[[], None] = lambda: None
        self._lines: dict[Line, None] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, line: Line) -> bool:
        """Give `line` the first place that no other waits longer for. False: it waits already."""
        new = line not in self._lines
        self._lines[line] = None
        self.wake()
        return new

    def leave(self, line: Line) -> None:
        """Let `line` wait no more; does nothing to one that does not."""
        self._lines.pop(line, None)

    def pop(self) -> Line:
        """Take out the line that has waited longest."""
        line = next(iter(self._lines))
        del self._lines[line]
        return line


class CallRoom:
    """One per process. Calls `waiting.wake` when `call_in` may succeed."""

    def __init__(self, most: int, may_call: Callable[[], bool] = lambda: True) -> None:
        """`most`: calls at once. `may_call`: whether an answer could be stored just now."""
        self.waiting = WaitingLines()
        self.may_call = may_call
        self._loop = asyncio.get_running_loop()
        self._most = self._free = most
        self._held: dict[Task, int] = {}
        self._stopping = False

    @property
    def taken(self) -> int:
        """Calls in flight, and those that Redis may grant just now."""
        return self._most - self._free

    def take(self, most: int) -> int:
        """Take places until this task has `most` of them. Returns the room as scripts want it.

        That is how many the task has; NO_ROOM: none for now; 0: none any more, this process stops.
        """
        if self._stopping:
            return 0
        if not self.may_call():
            return NO_ROOM  # the place that this task has is not for another call
        task = self._this_task()
        held = self._held.get(task, 0)
        if not self.waiting and (more := min(most - held, self._free)) > 0:
            self._give(task, more)
            held += more
        return held or NO_ROOM

    def take_to_follow(self) -> int:
        """Take places for what may follow the call that this task ends; returned as by `take`."""
        return NO_ROOM if self.waiting and not self._stopping else self.take(MOST_FOLLOWERS)

    def pass_on(self, task: Task) -> None:
        """Give one place of this task to another one, which carries a call."""
        this = self._this_task()
        if self._held.get(this):
            self._held[this] -= 1
            self._free += 1
        self._give(task, 1)

    def leave(self) -> None:
        """Give back what this task still has."""
        task = self._this_task()
        if task in self._held:
            task.remove_done_callback(self._left)
            self._left(task)

    def call_in(self) -> Line | None:
        """The line that has waited longest, if there is room for it; `place` its task then."""
        can_call = self._free > 0 and self.may_call()
        return self.waiting.pop() if self.waiting and can_call else None

    def place(self, task: Task, most: int = 1) -> None:
        """Give up to `most` of the free places to the task of the line that was called in."""
        self._give(task, min(most, self._free))

    def stop(self) -> None:
        """From now on nobody is given room; calls that run go on."""
        self._stopping = True

    def _give(self, task: Task, places: int) -> None:
        if task not in self._held:
            self._held[task] = 0
            task.add_done_callback(self._left)
        self._held[task] += places
        self._free -= places

    def _left(self, task: Task) -> None:
        if places := self._held.pop(task, 0):
            self._free += places
            if self.waiting:
                self.waiting.wake()

    def _this_task(self) -> Task:
        task = asyncio.current_task(self._loop)
        if task is None:
            raise RuntimeError("only a task has places")
        return task
