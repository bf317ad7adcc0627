"""Lost records: each buried job without a record in `dead` is recorded again.

A worker records a job before it buries it, so the record was lost: somebody deleted it, or MongoDB
was set back. A job that is older than records are kept is none of these: the purge deletes it. The
process that archives looks; two at once are harmless.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TypeAlias

import greenstalk

from service.observe.events import Event
from service.observe.log import emit
from service.worker.deliveries.foreign_request import WEBHOOKS_TUBE, decode_foreign
from service.worker.results.connection import Store
from service.worker.results.database import Names, Refusal, log_refused
from service.worker.results.dead import is_about, record, records_of
from service.worker.tubes.blocking import BlockingClient, beanstalkd_down
from service.worker.tubes.envelope import DRAINS_TUBE, TUBES, decode_drain, decode_request
from service.worker.tubes.payload import Resolve
from tracking.call import DeadLetter
from tracking.errors import MalformedJob, TubesDown

PERIOD_SECONDS = 600.0
DAY_SECONDS = 86_400

JOBS_MOST = 100
"""Buried jobs of a tube that are looked at in one go; the next look goes on behind them."""

Buried: TypeAlias = tuple[str, int, bytes]
"""A server's run (the next may count ids from 1 again), a buried job of it, and the job's body."""


class LostRecords:
    """Looks every ten minutes at some buried jobs of each server."""

    def __init__(
        self, store: Store, names: Names, servers: Sequence[str], resolve: Resolve
    ) -> None:
        """`resolve` finds the courier that a slug means."""
        self._store = store
        self._keep_days = names.dead_keep_days
        self._servers = servers
        self._resolve = resolve

    async def look(self) -> None:
        """Record what no record tells of. Raises ResultsDown."""
        for server in self._servers:
            for tube in TUBES:
                with suppress(TubesDown):  # the other servers are looked at all the same
                    await self._mend(server, tube)

    async def _mend(self, server: str, tube: str) -> None:
        letters, refused = await self._store.in_background(self._record, server, tube)
        log_refused(self._store.dead, refused)
        for each in letters:
            named = {"slug": each.slug, "number": each.number}
            found = {"job": each.job, "server": server, "why": each.reason, "detail": each.detail}
            emit(Event.RECORD_LOST, **named, **found)

    def _record(self, server: str, tube: str) -> tuple[list[DeadLetter], list[Refusal]]:
        dead = self._store.dead
        jobs = list(_some_buried(server, tube, self._keep_days * DAY_SECONDS))
        records = records_of(dead, server, (job for _, job, _ in jobs))
        letters = [
            self._letter(server, tube, each)
            for each in jobs
            if not any(one["job"] == each[1] and is_about(one, each[2]) for one in records)
        ]
        return letters, record(dead, letters)

    def _letter(self, server: str, tube: str, buried: Buried) -> DeadLetter:
        """Write a job down as a worker would have, with today's reason."""
        instance, job, body = buried
        reason, detail = "buried", "buried without a record, and can be read: kick it"
        slug: str | None = None
        number: str | None = None
        try:
            if tube == DRAINS_TUBE:
                slug = decode_drain(body, self._resolve)
            elif tube == WEBHOOKS_TUBE:
                decode_foreign(body)
            else:
                slug, number, *_ = decode_request(body, self._resolve)
        except MalformedJob as error:
            reason, detail, slug, number = error.reason, error.detail, error.slug, error.number
        name = f"{instance}:{job}"
        return DeadLetter(name, reason, detail, body, slug, number, server=server, job=job)


def _some_buried(server: str, tube: str, seconds: float) -> Iterator[Buried]:
    """Walk through the oldest burials of jobs that were put less than so long ago.

    beanstalkd shows only the oldest burial. So each is reserved and buried again, behind the
    others; should we vanish in between, a worker finds that job and buries it as it did before.
    Raises TubesDown.
    """
    connection = BlockingClient.open(server, tube)
    client = connection.client
    try:
        count = min(client.stats_tube(tube)["current-jobs-buried"], JOBS_MOST)
        for _ in range(count):
            with suppress(greenstalk.NotFoundError):  # somebody kicked or deleted it just now
                job = client.peek_buried()
                facts = client.stats_job(job.id)
                client.bury(client.reserve_job(job.id), facts["pri"])
                if facts["age"] < seconds:
                    yield connection.instance, job.id, job.body
    except (greenstalk.Error, OSError, AssertionError, ValueError) as error:
        raise beanstalkd_down(server, error) from error
    finally:
        connection.close()
