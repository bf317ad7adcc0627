"""How many calls this process has in flight: never more than it may, whoever asks for them.

Redis grants, so a task takes places before it asks Redis, for as many calls as may be granted.
A place belongs to the task that took it, and is free again when that task leaves or ends, however
it ends; a task that is started for a granted call gets its place from the one that starts it.

A slug that could call and finds no place stands in line; as long as somebody does, nobody else is
given a place, not even the slug whose call just ended. So all slugs of a full process get their
turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tracking import line
from tracking.call import NO_ROOM

Task = asyncio.Task[Any]

MOST_FOLLOWERS = 2
"""Of a call that ends: one in its place, and one more, or a slug that is behind would stay so."""


class Line:
    """The slugs that could call and found no place, in the order in which they came."""

    def __init__(self) -> None:
        self.tell: Callable[[], None] = lambda: None
        self._slugs: dict[line.Line, None] = {}

    def __len__(self) -> int:
        return len(self._slugs)

    def stand(self, slug: line.Line) -> bool:
        """Let `slug` have the next place that nobody waits longer for. False: it stands there."""
        new = slug not in self._slugs
        self._slugs[slug] = None
        self.tell()
        return new

    def leave(self, slug: line.Line) -> None:
        """Let `slug` wait no more; nothing happens to one that does not."""
        self._slugs.pop(slug, None)

    def pop(self) -> line.Line:
        """Take out whoever has waited longest."""
        slug = next(iter(self._slugs))
        del self._slugs[slug]
        return slug


class CallRoom:
    """One per process. `most`: calls at once. `line.tell` is called when `call_in` may succeed."""

    def __init__(self, most: int) -> None:
        self.line = Line()
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
        held = self._held.get(_this_task(), 0)
        if not self.line and (more := min(most - held, self._free)) > 0:
            self._give(_this_task(), more)
            held += more
        return held or NO_ROOM

    def take_to_follow(self) -> int:
        """Take places for what may follow the call that this task ends; returned as by `take`."""
        return NO_ROOM if self.line and not self._stopping else self.take(MOST_FOLLOWERS)

    def pass_on(self, task: Task) -> None:
        """Give one place of this task to another one, which carries a call."""
        if self._held.get(_this_task()):
            self._held[_this_task()] -= 1
            self._free += 1
        self._give(task, 1)

    def leave(self) -> None:
        """Give back what this task still has."""
        self._left(_this_task())

    def call_in(self) -> line.Line | None:
        """Whoever has waited longest, if there is room for it; `place` its task then."""
        return self.line.pop() if self.line and self._free > 0 else None

    def place(self, task: Task) -> None:
        """Give a place to the task of whoever was called in."""
        self._give(task, 1)

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
        if places := self._held.get(task):
            self._held[task] = 0
            self._free += places
            if self.line:
                self.line.tell()
        if task.done():
            self._held.pop(task, None)


def _this_task() -> Task:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("only a task has places")
    return task
