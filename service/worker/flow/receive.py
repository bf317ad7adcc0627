"""The receiver starts a task for each reserved job, and lets no defect in the code keep a job."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from service.observe.events import Event
from service.observe.log import emit, emit_unexpected
from service.ports import Job
from service.worker.flow.drain import Drainer
from service.worker.flow.handle import Handler
from service.worker.flow.tasks import Tasks, keep_trying
from tracking.errors import LimitsBroken, MalformedJob, UnknownLine
from tracking.line import Line

AFTER_DEFECT_SECONDS = 1.0
"""How long a job over which our own defect came up is kept: so that it does not fill the log."""

REST_SECONDS = 5.0
"""How soon a job is tried again after a key of its line was found broken."""

TRIED_A_SECOND = 100
"""How many resting jobs are tried again in a second, at most."""

AT_REST_MOST = 10_000
"""Jobs that one process holds for broken lines: some 20 MB, and 250 touches a second. Re-checks
rest in the first half only: the other half is for requests that people put."""


TakeForeign = Callable[[Job], Awaitable[None]]
"""Stores what a job of the tube `webhooks` holds. Raises MalformedJob, ResultsDown: repeat it."""


class Receiver:
    """Takes batches of reserved jobs from all tubes."""

    def __init__(
        self, handler: Handler, drainer: Drainer, tasks: Tasks, decode_drain: Callable[[Job], Line]
    ) -> None:
        """`decode_drain` reads a job of the tube `wait_list`; it raises MalformedJob."""
        self._handler = handler
        self._drainer = drainer
        self._tasks = tasks
        self._decode_drain = decode_drain

    def on_requests(self, jobs: Sequence[Job]) -> None:
        """Start a task for each job of the tube `requests_flow`."""
        for job in jobs:
            self._tasks.start(self._request(job))

    def on_drains(self, jobs: Sequence[Job]) -> None:
        """Start a task for each job of the tube `wait_list`."""
        for job in jobs:
            self._tasks.start(self._drain(job))

    def on_foreign(self, take: TakeForeign, jobs: Sequence[Job]) -> None:
        """Start a task for each job of the tube `webhooks`."""
        for job in jobs:
            self._tasks.start(self._foreign(take, job))

    async def _request(self, job: Job) -> None:
        try:
            await self._handler.handle(job)
        except LimitsBroken as error:
            emit_unexpected(error, job=job.id, server=job.server)
            await self._set_to_rest(job, error)
        except Exception as error:  # noqa: BLE001 - a defect in the code must not keep the job
            emit_unexpected(error, job=job.id, server=job.server)
            await self._after_defect(job, error)

    async def _set_to_rest(self, job: Job, error: LimitsBroken) -> None:
        """Hold the job in a task of its own, without the slots that its task had.

        It is not released with a delay: beanstalkd's binlog would keep a record of each delay.
        """
        if self._tasks.resting >= AT_REST_MOST // 2 and await self._handler.leave_due(job):
            return
        if self._tasks.resting < AT_REST_MOST:
            job.admitted()
            self._tasks.rest(self._rest(job))
        else:
            await self._handler.end(job, error)

    async def _rest(self, job: Job) -> None:
        seconds = max(REST_SECONDS, self._tasks.resting / TRIED_A_SECOND)
        await asyncio.sleep(seconds * random.uniform(0.8, 1.2))
        if not job.lost:
            self._tasks.start(self._request(job))

    async def _drain(self, job: Job) -> None:
        try:
            line = self._decode_drain(job)
        except UnknownLine as error:
            if await self._handler.leave(job, error.line):
                return
            emit(Event.UNKNOWN_LINE, job=job.id, server=job.server, line=error.line)
            await job.delete()
            return
        except MalformedJob as error:
            await self._handler.set_aside(job, error)
            return
        try:
            await self._drainer.claim(line, job)
        except Exception as error:  # noqa: BLE001 - a defect in the code must not keep the job
            emit_unexpected(error, job=job.id, server=job.server)
            # However often: what waits is to be drained some day.
            await self._drainer.retry_later(line, job)

    async def _foreign(self, take: TakeForeign, job: Job) -> None:
        """Store what a job holds; while its store is away the job stays. Then the job may go."""
        try:
            await keep_trying(partial(take, job))
        except MalformedJob as error:
            await self._handler.set_aside(job, error)
        except Exception as error:  # noqa: BLE001 - a defect in the code must not keep the job
            emit_unexpected(error, job=job.id, server=job.server)
            await self._after_defect(job, error)
        else:
            job.delete()

    async def _after_defect(self, job: Job, error: Exception) -> None:
        try:
            if await self._handler.give_up(job, error):
                return
        except Exception as another:  # noqa: BLE001 - nor must one that comes up meanwhile
            emit_unexpected(another, job=job.id, server=job.server)
        await asyncio.sleep(AFTER_DEFECT_SECONDS)
        await job.release()
