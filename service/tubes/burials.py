"""Buried jobs that are old: they keep a beanstalkd from freeing the files of its binlog."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import greenstalk

from service.tubes.connection import Connection, Patience
from service.tubes.envelope import DRAINS_TUBE, REQUESTS_TUBE
from service.tubes.failure import beanstalkd_down

PATIENCE = Patience(connect=2.0, reply=5.0)

MayGo = Callable[[int, bytes], bool]
"""Whether a buried job may be deleted, by its id and body."""


def delete_old(server: str, seconds: float, may_go: MayGo) -> Iterator[int]:
    """Delete the buried jobs of a server that were put so long ago, oldest first; gives their ids.

    beanstalkd shows the first of a tube only: so it ends there with one that is younger, or may not
    go. Those behind it were buried later. Raises TubesDown.
    """
    connection = Connection.open(server, REQUESTS_TUBE, PATIENCE)
    try:
        for tube in (REQUESTS_TUBE, DRAINS_TUBE):
            connection.client.use(tube)
            yield from _delete_old(connection.client, seconds, may_go)
    except (greenstalk.Error, OSError, AssertionError, ValueError) as error:
        raise beanstalkd_down(server, error) from error
    finally:
        connection.close()


def _delete_old(client: greenstalk.Client[bytes], seconds: float, may_go: MayGo) -> Iterator[int]:
    while True:
        try:
            job = client.peek_buried()
            if client.stats_job(job.id)["age"] < seconds or not may_go(job.id, job.body):
                return
            client.delete(job.id)
        except greenstalk.NotFoundError:
            return
        yield job.id
