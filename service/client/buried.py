"""Buried jobs: the one that a record is about, and all that lie on a server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import greenstalk

from service.client.producer import Producer
from service.results.database import Document
from service.results.dead import is_about
from tracking.errors import StoreError


@dataclass(frozen=True, slots=True)
class Buried:
    """A buried job. `instance` is of the server's run: the next may count ids from 1 again."""

    server: str
    instance: str
    tube: str
    job: int
    body: bytes


class StillBuried(StoreError):
    """A record's job may be buried where nobody can delete it, so the record must stay."""


def buried_job(document: Document, producer: Producer) -> Buried | None:
    """Find the buried job of a record; None when it has none (any more).

    Raises StillBuried, TubesDown.
    """
    server, job = document.get("server"), document.get("job")
    if server is None or job is None:
        return None
    if not producer.serves(server):
        raise StillBuried(
            f"its job {job} may be buried on {server}, which [beanstalkd] servers does not name",
            "Add the server there, or leave the record until it expires.",
        )
    with producer.asking(server) as connection:
        client = connection.client
        try:
            body, facts = client.peek(job).body, client.stats_job(job)
        except greenstalk.NotFoundError:
            return None
    # Without its binlog, a server counts from 1 again.
    if facts["state"] != "buried" or not is_about(document, body):
        return None
    return Buried(server, connection.instance, facts["tube"], job, body)


def delete_buried(buried: Buried, producer: Producer) -> None:
    """Delete a buried job. Raises TubesDown; one that somebody kicked meanwhile goes its way."""
    with producer.asking(buried.server) as connection:
        try:
            connection.client.delete(buried.job)
        except greenstalk.NotFoundError:
            return


def buried_jobs(producer: Producer, server: str, tube: str) -> Iterator[Buried]:
    """Walk through all buried jobs of a tube, oldest first. Raises TubesDown.

    beanstalkd shows only the oldest one. So each is reserved and buried again, behind the others;
    should we vanish in between, a worker finds that one and buries it as it did before.
    """
    with producer.asking(server) as connection:
        client = connection.client
        try:
            count = client.stats_tube(tube)["current-jobs-buried"]
        except greenstalk.NotFoundError:
            return
        client.use(tube)
        for _ in range(count):
            try:
                job = client.peek_buried()
                priority = client.stats_job(job)["pri"]
                client.bury(client.reserve_job(job.id), priority)
            except greenstalk.NotFoundError:
                continue  # somebody kicked or deleted it just now
            yield Buried(server, connection.instance, tube, job.id, job.body)
