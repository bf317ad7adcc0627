"""Buried jobs that no record names, because theirs was purged or lost."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from service.client.buried import Buried, buried_jobs
from service.client.catalogue import Catalogue
from service.client.connections import Collections
from service.client.producer import Producer
from service.results.dead import is_about, record, records_of
from service.tubes.envelope import DRAINS_TUBE, REQUESTS_TUBE, decode_drain, decode_request
from tracking.call import DeadLetter
from tracking.errors import MalformedJob

__all__ = ["orphans", "record"]

AT_ONCE = 100
"""Jobs compared with their records in one go: their bodies are held so long."""


def orphans(
    server: str, stores: Collections, producer: Producer, couriers: Catalogue
) -> Iterator[list[DeadLetter]]:
    """Walk through the buried jobs of a server that have no record, as records, some at a time.

    Raises TubesDown, ResultsDown.
    """
    for tube in (REQUESTS_TUBE, DRAINS_TUBE):
        jobs = buried_jobs(producer, server, tube)
        while batch := list(islice(jobs, AT_ONCE)):
            records = records_of(stores.dead, server, (each.job for each in batch))
            yield [
                _letter(each, couriers)
                for each in batch
                if not any(one["job"] == each.job and is_about(one, each.body) for one in records)
            ]


def _letter(job: Buried, couriers: Catalogue) -> DeadLetter:
    """Write a job down as a worker would have, with today's reason."""
    reason, detail = "buried", "buried without a record, and can be read: kick it"
    slug: str | None = None
    number: str | None = None
    try:
        if job.tube == DRAINS_TUBE:
            slug = decode_drain(job.body, couriers.resolve)
        else:
            slug, number, *_ = decode_request(job.body, couriers.resolve)
    except MalformedJob as error:
        reason, detail, slug, number = error.reason, error.detail, error.slug, error.number
    return DeadLetter(
        id=f"{job.instance}:{job.job}",
        reason=reason,
        detail=detail,
        body=job.body,
        slug=slug,
        number=number,
        server=job.server,
        job=job.job,
    )
