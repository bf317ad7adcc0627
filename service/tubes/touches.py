"""Keeps held jobs ours: touches each before beanstalkd takes it for abandoned.

A job that is settled at once costs nothing. One that is still held after YOUNG seconds is touched;
after as long again its TTR is read, and it is touched every third of it: one touch may be late or
fail. That is why nothing needs to be done about beanstalkd's DEADLINE_SOON.

A TTR may be years: what is settled or lost is let go of long before its next touch was due.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import count

from service.observe.events import Event
from service.observe.log import emit
from service.tubes.client import Client, Reservation
from service.tubes.commands import Reply, Verb
from tracking.errors import TubesDown

YOUNG = 0.4
"""Seconds. Most jobs are settled earlier; beanstalkd's shortest TTR is one second. A worker that
has more to do than it can holds most jobs for longer, but few for twice as long."""

PARTS = 3
"""A job is touched this often in its TTR."""


class Touches:
    """The held jobs of one server and the instants (`time.monotonic()`) at which they are due."""

    def __init__(self) -> None:
        self._young: deque[tuple[float, Reservation]] = deque()
        self._read: list[tuple[float, int, Reservation]] = []
        self._number = count()
        self._ended = 0

    @property
    def next_at(self) -> float | None:
        """When the next job is due, None when none is held."""
        firsts = [queue[0][0] for queue in (self._young, self._read) if queue]
        return min(firsts, default=None)

    def add(self, reservations: Iterable[Reservation], now: float) -> None:
        """Jobs were reserved just now, which begins their TTR as a touch does."""
        due = now + YOUNG
        for reservation in reservations:
            reservation.touch_at = due
            self._young.append((due, reservation))

    def forget(self, jobs: Iterable[Reservation]) -> None:
        """Hear that these are settled; at most half of all that are kept here are such jobs."""
        # Only a job whose TTR was read may be due in hours; the others are gone within a second.
        self._ended += sum(job.ttr is not None for job in jobs)
        if self._ended * 2 > len(self._read):
            self.forget_ended()

    def forget_ended(self) -> None:
        """Keep only jobs that are held; costs a look at each."""
        self._ended = 0
        self._read = [entry for entry in self._read if entry[2].is_held]
        heapq.heapify(self._read)

    async def touch_due(self, now: float) -> None:
        """Touch the jobs that are due. A connection that fails meanwhile is closed then."""
        groups: dict[Client, list[Reservation]] = {}
        for job in self._due(now):
            groups.setdefault(job.client, []).append(job)
        # Asked in the step that found them held, and before what others ask for in this turn: a job
        # that is deleted meanwhile is none that was lost.
        asked = [
            (client, jobs, [client.tell(Verb.TOUCH, job) for job in jobs])
            for client, jobs in groups.items()
        ]
        await asyncio.gather(*(self._touch(*each, now) for each in asked))

    def _due(self, now: float) -> list[Reservation]:
        due = []
        while self._young and self._young[0][0] <= now:
            due.append(self._young.popleft())
        while self._read and self._read[0][0] <= now:
            at, _, reservation = heapq.heappop(self._read)
            due.append((at, reservation))
        return [job for at, job in due if job.is_held and job.touch_at == at]

    def _plan(self, job: Reservation, now: float) -> None:
        if job.touched or job.ttr is not None:
            job.touch_at = now + (job.ttr or 1) / PARTS
            heapq.heappush(self._read, (job.touch_at, next(self._number), job))
        else:
            job.touched = True
            self.add([job], now)

    async def _touch(
        self,
        client: Client,
        jobs: Sequence[Reservation],
        touched: Sequence[asyncio.Future[Reply]],
        now: float,
    ) -> None:
        unread = [job for job in jobs if job.is_held and job.touched and job.ttr is None]
        with suppress(TubesDown):
            await client.read_facts(unread)
        for each in touched:
            await each
        for job in jobs:
            if job.is_held:
                self._plan(job, now)
        lost = sum(job.lost for job in jobs)
        if lost and not client.down:
            emit(Event.JOBS_LOST, server=client.server, jobs=lost, why="TTR ran out")
