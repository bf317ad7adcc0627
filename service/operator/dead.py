"""Requests that got no answer: their records in `dead`, and the buried jobs of these."""

from __future__ import annotations

from typing import Any, NamedTuple

import greenstalk
from pymongo.collection import Collection

from service.operator.producer import Producer
from service.worker.results.database import Document
from service.worker.results.dead import Filter, count, count_by_reason, delete, find, is_about
from tracking.errors import StoreError

__all__ = ["Document", "Filter", "count", "count_by_reason", "find"]


class Buried(NamedTuple):
    """A buried job of a server."""

    server: str
    tube: str
    job: int
    body: bytes


class StillBuried(StoreError):
    """A record's job may be buried where nobody can delete it, so the record must stay."""


def shown(document: Document) -> dict[str, Any]:
    """Make a record what JSON can say: its body as far as it is text."""
    body = document.get("body")
    text = body.decode("utf-8", "backslashreplace") if isinstance(body, bytes) else body
    return {**document, "_id": str(document["_id"]), "body": text}


def delete_dead(document: Document, dead: Collection[Document], producer: Producer) -> int:
    """Delete a record after its buried job; returns how many records went.

    Raises StoreError: the record of a job that cannot be deleted stays.
    """
    if buried := buried_job(document, producer):
        delete_buried(buried, producer)
    return delete(dead, Filter(ids=(document["_id"],)))


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
    return Buried(server, facts["tube"], job, body)


def kick_buried(buried: Buried, producer: Producer) -> None:
    """Kick a buried job. Raises TubesDown; one that somebody kicked meanwhile goes its way."""
    with producer.asking(buried.server) as connection:
        try:
            connection.client.kick_job(buried.job)
        except greenstalk.NotFoundError:
            return


def delete_buried(buried: Buried, producer: Producer) -> None:
    """Delete a buried job. Raises TubesDown; one that somebody kicked meanwhile goes its way."""
    with producer.asking(buried.server) as connection:
        try:
            connection.client.delete(buried.job)
        except greenstalk.NotFoundError:
            return
