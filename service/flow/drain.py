"""Draining: this process asks for waiting requests exactly when the next one may start.

One heap of (instant, slug), one timer; all slugs that are due are asked for together, and their
scripts share one way to Redis. The job of the tube `wait_list` stays reserved for as long as this
process drains its slug: when the process vanishes, beanstalkd gives the job to another one at once.
A drained slug is shared: after a minute its job is released, and any process may take it on. Any
number of drainers is harmless, because every `take` is safe by itself; none at all is repaired by
the sweeper.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from service.flow.persist import persist
from service.flow.turns import Turns
from service.observe.failpoints import FailPoint
from service.ports import Job, Limits
from tracking.call import Turn
from tracking.errors import StoreError
from tracking.request import Slug

SHARE_AFTER_SECONDS = 60.0
SHARE_SPREAD = 0.25
"""Slugs that began together do not change hands together: that would hold all of them up."""

FEWEST_IN_ONE_TAKE = 4
MOST_IN_ONE_TAKE = 64
"""A take may bring twice as many calls as the last one brought, and a few more than a courier's
usual two, so that the next one is not due at once."""

FULL_SECONDS = 0.05
"""How soon a full process looks again."""

FULL_MOST_SECONDS = 1.0
"""One that stays full for longer hands the slug over to others."""


class Drainer:
    """The slugs that this process drains, by the instant at which each is to be asked for."""

    def __init__(
        self,
        limits: Limits,
        available: Callable[[], Awaitable[None]],
        room: Callable[[], int],
        reach: Callable[[FailPoint], None],
    ) -> None:
        """`available` waits while no answer could be kept; `room`: calls this process may take."""
        self._limits = limits
        self._available = available
        self._room = room
        self._reach = reach
        self._heap: list[tuple[float, Slug]] = []
        self._due: dict[Slug, float] = {}
        self._since: dict[Slug, float] = {}
        self._jobs: dict[Slug, Job] = {}
        self._brought: dict[Slug, int] = {}
        self._full_since: dict[Slug, float] = {}
        self._promised = 0
        self._sooner = asyncio.Event()
        self._retired = False

    def look_again(self, slug: Slug, at: float) -> None:
        """Ask for `slug` at this instant of `time.monotonic()`; the sooner instant holds."""
        if at >= self._due.get(slug, float("inf")):
            return
        self._due[slug] = at
        if slug not in self._since:
            spread = SHARE_SPREAD * SHARE_AFTER_SECONDS * random.uniform(-1.0, 1.0)
            self._since[slug] = time.monotonic() + spread
        heapq.heappush(self._heap, (at, slug))
        if self._heap[0] == (at, slug):
            self._sooner.set()

    async def claim(self, slug: Slug, job: Job, turns: Turns) -> None:
        """Begin to drain `slug`, because `job` of the tube `wait_list` says so; settles the job."""
        self._reach(FailPoint.AFTER_DRAIN_RESERVE)
        await self._available()
        # One at least: a full process that refused would send the job round without end.
        turn = await persist(lambda: self._limits.take(slug, max(1, self._room()), claims=True))
        self._reach(FailPoint.AFTER_TAKE)
        await self._go_on(slug, turn, turns, job)

    async def run(self, turns: Turns) -> None:
        """Ask for every slug when it is due, until `retire`."""
        async with asyncio.TaskGroup() as asking:
            while not self._retired:
                for slug in self._pop_due():
                    # Nobody waits for the slowest: the next slugs are due meanwhile.
                    asking.create_task(self._ask(slug, turns))
                self._sooner.clear()
                wait = self._heap[0][0] - time.monotonic() if self._heap else None
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._sooner.wait()

    def retire(self) -> None:
        """Let `run` end after what it asks just now: calls it is granted must not be lost."""
        self._retired = True
        self._sooner.set()

    async def hand_over(self, turns: Turns) -> None:
        """Give all slugs back to the tube, because this process stops."""
        slugs = list(self._due)
        self._due.clear()
        self._heap.clear()
        for slug in slugs:
            try:
                await self._go_on(slug, await self._limits.take(slug, 0), turns)
            except StoreError:
                return  # the jobs go back with their connections
            self._reach(FailPoint.AFTER_HAND_OVER)

    def _pop_due(self) -> list[Slug]:
        now, due = time.monotonic(), []
        while self._heap and self._heap[0][0] <= now:
            at, slug = heapq.heappop(self._heap)
            # An entry that a sooner one replaced is passed over.
            if self._due.get(slug) == at:
                del self._due[slug]
                due.append(slug)
        return due

    async def _ask(self, slug: Slug, turns: Turns) -> None:
        await self._available()
        shared = time.monotonic() - self._since.get(slug, 0.0) >= SHARE_AFTER_SECONDS
        # What other takes were promised meanwhile is not free any more.
        expected = self._brought.get(slug, 1)
        most = min(max(FEWEST_IN_ONE_TAKE, 2 * expected), MOST_IN_ONE_TAKE)
        room = 0 if shared else min(most, self._room() - self._promised)
        if not shared and room < most and (room <= 0 or self._promised > 0):
            now = time.monotonic()
            full_since = self._full_since.setdefault(slug, now)
            if self._room() > 0 or now - full_since < FULL_MOST_SECONDS:
                self.look_again(slug, now + FULL_SECONDS)
                return
            room = 0
        self._full_since.pop(slug, None)
        # Not all it may bring: a thousand takes at once would leave the next one no room.
        self._promised += expected
        try:
            turn = await persist(lambda: self._limits.take(slug, room))
        finally:
            self._promised -= expected
        self._brought[slug] = max(1, len(turn.calls))
        if turn.ask_again is None:
            self._since.pop(slug, None)
            self._brought.pop(slug, None)
        await self._go_on(slug, turn, turns)

    async def _go_on(self, slug: Slug, turn: Turn, turns: Turns, job: Job | None = None) -> None:
        """Do what the turn says; keep the slug's job while we drain it, else let go of it."""
        jobs = [each for each in (self._jobs.pop(slug, None), job) if each is not None]
        if turn.ask_again is not None and jobs:
            self._jobs[slug] = jobs.pop(0)
        # A job at hand that is released does what one that is put would do.
        handed = jobs.pop(0) if turn.put_drain and jobs else None
        await turns.go_on(slug, turn._replace(put_drain=turn.put_drain and handed is None))
        if handed is not None:
            await handed.release()
        for other in jobs:
            await other.delete()
