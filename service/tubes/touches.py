"""Keeps held jobs ours: touches each before beanstalkd takes it for abandoned.

A job that is settled at once costs nothing. One that is still held after YOUNG seconds has its TTR
read and is touched, then again every third of its TTR: one touch may be late or fail.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import count

import structlog

from service.tubes.connection import Connection, Verb
from service.tubes.reservation import Reservation, by_connection, is_held
from tracking.errors import TubesDown

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

YOUNG = 0.3
"""Seconds. Most jobs are settled earlier; beanstalkd's shortest TTR is one second."""

PARTS = 3
"""A job is touched this often in its TTR."""

TTR_SHORT = 3
"""Seconds. A job with a longer TTR is touched long before its last second."""

TOUCHED_LATELY = 0.25
"""Seconds. To touch again within them gains nothing."""


class Touches:
    """The held jobs of one thread and the instants (`time.monotonic()`) at which they are due."""

    def __init__(self) -> None:
        self._young: deque[tuple[float, Reservation]] = deque()
        self._read: list[tuple[float, int, Reservation]] = []
        self._number = count()

    @property
    def next_at(self) -> float | None:
        """When the next job is due, None when none is held."""
        firsts = [queue[0][0] for queue in (self._young, self._read) if queue]
        return min(firsts, default=None)

    def add(self, reservations: Iterable[Reservation], now: float) -> None:
        """Jobs were reserved just now."""
        due = now + YOUNG
        for reservation in reservations:
            reservation.touch_at = due
            self._young.append((due, reservation))

    def touch_due(self, now: float) -> None:
        """Touch the jobs that are due. A connection that fails meanwhile is closed then."""
        for connection, jobs in by_connection(self._due(now), _itself):
            with suppress(TubesDown):
                self._touch(connection, jobs, now)

    def touch_urgent(self, connection: Connection, now: float) -> None:
        """Touch the jobs that may be meant by DEADLINE_SOON. Raises TubesDown."""
        connection.deadline_soon = False
        jobs = [
            each
            for each in connection.held.values()
            if not each.lost
            and (each.ttr is None or each.ttr <= TTR_SHORT)
            and now - each.touched_at > TOUCHED_LATELY
        ]
        self._touch(connection, jobs, now)

    def _due(self, now: float) -> list[Reservation]:
        due = []
        while self._young and self._young[0][0] <= now:
            due.append(self._young.popleft())
        while self._read and self._read[0][0] <= now:
            at, _, reservation = heapq.heappop(self._read)
            due.append((at, reservation))
        return [job for at, job in due if is_held(job) and job.touch_at == at]

    def _touch(self, connection: Connection, jobs: Sequence[Reservation], now: float) -> None:
        connection.read_facts(job for job in jobs if job.ttr is None)
        connection.tell(Verb.TOUCH, (job for job in jobs if not job.lost))
        for job in jobs:
            if not job.lost:
                job.touched_at = now
                job.touch_at = now + (job.ttr or 1) / PARTS
                heapq.heappush(self._read, (job.touch_at, next(self._number), job))
        lost = [job.raw.id for job in jobs if job.lost]
        if lost:
            log.warning("jobs_lost", server=connection.server, jobs=lost, error="TTR ran out")


def _itself(reservation: Reservation) -> Reservation:
    return reservation
