"""The purge deletes what was kept long enough: documents in small batches, and buried jobs.

A buried job pins the binlog of its beanstalkd, which cannot free the file that holds it. So it goes
when its record does. The process that archives purges too; two at once are harmless.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from itertools import chain, islice

from pymongo.collection import Collection

from service.worker.deliveries.purging import kinds_of_deliveries
from service.worker.results.connection import Store
from service.worker.results.database import Document, Names
from service.worker.results.dead import is_about, records_of
from service.worker.results.refused import try_again
from service.worker.results.retention import REST, Kind, kinds, purge_some
from service.worker.results.shipments import fill_search
from service.worker.tubes.blocking import delete_old_buried
from tracking.errors import TubesDown

PERIOD_SECONDS = 600.0
DAY_SECONDS = 86_400
JOBS_MOST = 100
"""Buried jobs that are deleted in one go; the next look goes on."""


class Purge:
    """Looks every ten minutes for what is old."""

    def __init__(self, store: Store, names: Names, servers: Sequence[str]) -> None:
        self._store = store
        self._names = names
        self._servers = servers

    async def look(self) -> None:
        """Purge all documents that are old, and some jobs. Raises ResultsDown.

        First what MongoDB refused is tried again: it may take it by now. Shipments of a version
        before are let be found by words.
        """
        store = self._store
        for home in (store.operations, store.dead):
            await store.in_background(try_again, home, store.forgotten)
        while await store.in_background(fill_search, store.shipments):
            pass
        now, names = dt.datetime.now(dt.UTC), self._names
        every = chain(kinds(store, names, now), kinds_of_deliveries(store, names, now))
        for kind in await store.in_background(list[Kind], every):
            more = True
            while more:
                began = time.monotonic()
                _, more = await self._store.in_background(purge_some, kind)
                await asyncio.sleep(REST * (time.monotonic() - began) if more else 0.0)
        for server in self._servers:
            with suppress(TubesDown):
                await self._store.in_background(self._delete_jobs, server)

    def _delete_jobs(self, server: str) -> None:
        old = old_jobs(server, self._store.dead, self._names.dead_keep_days)
        for _ in islice(old, JOBS_MOST):
            pass
        old.close()


def old_jobs(server: str, dead: Collection[Document], keep_days: int) -> Generator[int]:
    """Delete the buried jobs of a server that are older than that; gives the id of each.

    One whose record is younger stays until that goes. Raises TubesDown, PyMongoError.
    """
    before = dt.datetime.now(dt.UTC) - dt.timedelta(days=keep_days)

    def may_go(job: int, body: bytes) -> bool:
        records = records_of(dead, server, [job])
        return not any(is_about(each, body) and each["at"] >= before for each in records)

    yield from delete_old_buried(server, keep_days * DAY_SECONDS, may_go)
