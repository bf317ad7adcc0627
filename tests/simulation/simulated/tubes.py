"""A beanstalkd in memory: ready, reserved and buried jobs, times to run, connections that end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from simulated.loop import VirtualLoop
from simulated.trace import Trace


class Stands(StrEnum):
    READY = "ready"
    RESERVED = "reserved"
    BURIED = "buried"


@dataclass(slots=True, eq=False)
class Connection:
    """One end of a worker's. `lost` hears of each job that is not its own any more."""

    open: bool = True
    jobs: dict[int, StoredJob] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class StoredJob:
    """One job. `run_out` ends its reservation."""

    id: int
    tube: str
    body: bytes
    priority: int
    ttr: float
    put_at: float
    stands: Stands = Stands.READY
    holder: Connection | None = None
    run_out: asyncio.Handle | None = None


class TubeServer:
    """All tubes. Everything happens at once; the way there and back is `exchange`'s."""

    def __init__(self, loop: VirtualLoop, trace: Trace) -> None:
        self._loop = loop
        self._trace = trace
        self._last = 0
        self.jobs: dict[int, StoredJob] = {}
        self._waiting: list[Callable[[], None]] = []
        self.away = False

    def put(self, tube: str, body: bytes, priority: int, ttr: float) -> int:
        self._last += 1
        job = StoredJob(self._last, tube, body, priority, max(1.0, ttr), self._loop.now)
        self.jobs[job.id] = job
        self._wake()
        return job.id

    def reserve(self, connection: Connection, tube: str, most: int) -> list[StoredJob]:
        if not connection.open or self.away:
            return []
        ready = [j for j in self.jobs.values() if j.tube == tube and j.stands is Stands.READY]
        taken = sorted(ready, key=lambda job: (job.priority, job.id))[:most]
        for job in taken:
            job.stands, job.holder = Stands.RESERVED, connection
            connection.jobs[job.id] = job
            self._start_running(job)
        return taken

    def touch(self, connection: Connection, job: StoredJob) -> None:
        if job.holder is connection:
            self._start_running(job)

    def delete(self, connection: Connection, job: StoredJob) -> bool:
        """Returns False for NOT_FOUND: somebody else has it, or it is gone."""
        if job.id not in self.jobs or job.holder not in (None, connection):
            return False
        self._let_go(job)
        del self.jobs[job.id]
        return True

    def bury(self, connection: Connection, job: StoredJob) -> bool:
        if job.holder is not connection:
            return False
        self._let_go(job)
        job.stands = Stands.BURIED
        return True

    def release(self, connection: Connection, job: StoredJob) -> bool:
        if job.holder is not connection:
            return False
        self._to_ready(job)
        return True

    def close(self, connection: Connection) -> None:
        """What it held is ready again at once."""
        connection.open = False
        for job in list(connection.jobs.values()):
            self._to_ready(job)

    def unfinished(self, tube: str | None = None) -> int:
        """How many jobs are to be done, of one tube or of all."""
        left = [job for job in self.jobs.values() if job.stands is not Stands.BURIED]
        return sum(tube in (None, job.tube) for job in left)

    def on_ready(self, wake: Callable[[], None]) -> None:
        self._waiting.append(wake)

    def _start_running(self, job: StoredJob) -> None:
        if job.run_out is not None:
            job.run_out.cancel()
        job.run_out = self._loop.outside(job.ttr, self._ran_out, job)

    def _ran_out(self, job: StoredJob) -> None:
        self._trace.fault("time to run is over", "tubes", f"job {job.id}")
        self._to_ready(job)

    def _let_go(self, job: StoredJob) -> None:
        if job.holder is not None:
            job.holder.jobs.pop(job.id, None)
        if job.run_out is not None:
            job.run_out.cancel()
        job.holder = job.run_out = None

    def _to_ready(self, job: StoredJob) -> None:
        self._let_go(job)
        job.stands = Stands.READY
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()
