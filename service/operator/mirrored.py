"""Recovery of requests that waited in an emptied Redis, out of what `[redis] mirror` wrote.

=================================================== ================================================
an open operation                                   is
=================================================== ================================================
of which Redis knows that it waits, runs or ended   left as it is
that ended, as `operations` tells                   deleted: it was written down after its end
any other                                           put again: under its id, so that it stays one
                                                    operation however often that is done
=================================================== ================================================

A request without an id gets one that is made of its job's key. It is written down under that
before its new job goes, so what was written of the old one is deleted once it is put.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from pymongo.collection import Collection
from redis.asyncio import Redis

from limits.admin.operations import operations, waits_unnamed
from limits.failure import redis_asked
from service.config.schema import Config
from service.operator.catalogue import Catalogue
from service.operator.connections import collections_of, redis_of
from service.operator.producer import JobRef, NotPut, Producer, PutOptions, batches
from service.operator.put import Bad, Sendable
from service.worker.results.database import Document
from service.worker.results.operations import count_open, find_operations, open_operations
from service.worker.tubes.envelope import decode_request, encode_request
from tracking.errors import MalformedJob, TubesDown
from tracking.request import Number, Slug

TOGETHER = 100
"""Asked for and put in one go."""


class Standing(Enum):
    """The reason for which an open operation is not put."""

    WAITS = auto()
    ENDED = auto()


class Recovered(NamedTuple):
    """A request that was put, and its place; None where it only would be."""

    request: Sendable
    place: JobRef | None


@contextmanager
def recovery_of(config: Config, *, dry_run: bool) -> Iterator[Recovery]:
    """Open what puts again. Raises StoreError, in the `with` block too: do it again."""
    servers = config.beanstalkd.servers
    with collections_of(config) as stores, Producer(servers) as producer:
        open_ones = stores.operations
        total = count_open(open_ones)
        yield Recovery(config, dry_run, Catalogue(config), open_ones, producer, total)


@dataclass(frozen=True, slots=True)
class Recovery:
    """One look at all open operations, `total` of them; `recovery_of` opens it."""

    config: Config
    dry_run: bool
    couriers: Catalogue
    stored: Collection[Document]
    producer: Producer
    total: int

    def run(self) -> Iterator[Recovered | Standing | Bad]:
        """Put what is open and unknown to Redis; tells of each that is open."""
        for found in open_operations(self.stored):
            for documents in batches(found, TOGETHER):
                yield from self._some(documents)

    def _some(self, documents: Sequence[Document]) -> Iterator[Recovered | Standing | Bad]:
        known = asyncio.run(_known(self.config, documents))
        left = [each for each in documents if each["_id"] not in known]
        yield from [Standing.WAITS] * len(known)
        ended = self._ended(left)
        if ended and not self.dry_run:
            self.stored.delete_many({"_id": {"$in": ended}})
        yield from [Standing.ENDED] * len(ended)
        lost = [each for each in left if each["_id"] not in ended]
        read = [self._read(each) for each in lost]
        yield from (each for each in read if isinstance(each, Bad))
        sendables = [each for each in read if isinstance(each, Sendable)]
        yield from self._put(sendables)
        unnamed = [
            document["_id"]
            for document, each in zip(lost, read, strict=True)
            if document["anonymous"] and isinstance(each, Sendable)
        ]
        if unnamed and not self.dry_run:
            self.stored.delete_many({"_id": {"$in": unnamed}})

    def _ended(self, documents: Sequence[Document]) -> list[str]:
        if not documents:
            return []
        admitted = {each["_id"]: each["admitted_at"] for each in documents}
        found = find_operations(self.stored, list(admitted))
        return [each["id"] for each in found if each["finished_at"] >= admitted[each["id"]]]

    def _read(self, document: Document) -> Sendable | Bad:
        identity = document["_id"]
        try:
            request = decode_request(bytes(document["body"]), self.couriers.resolve)
        except (MalformedJob, LookupError, TypeError) as error:
            return Bad(identity, str(error))
        if request.id is None:
            request = request._replace(id=f"recovered-{_sha1(identity)}")
        body = encode_request(request)
        return Sendable(request.id or "", request.slug, request.number, body)

    def _put(self, sendables: Sequence[Sendable]) -> Iterator[Recovered]:
        if self.dry_run or not sendables:
            yield from (Recovered(each, None) for each in sendables)
            return
        try:
            placed = self.producer.put([each.body for each in sendables], PutOptions())
        except NotPut as error:
            told = f"not all were put, so begin again: {error.message}"
            raise TubesDown(told, error.fix) from error
        yield from map(Recovered, sendables, placed)


async def _known(config: Config, documents: Sequence[Document]) -> set[str]:
    """Name those of which Redis knows something. Raises LimitsDown."""
    async with redis_of(config) as redis:
        with redis_asked():
            return await _known_to(redis, documents)


async def _known_to(redis: Redis, documents: Sequence[Document]) -> set[str]:
    names = [each["_id"] for each in documents]
    known = set(await operations(redis, names)) if names else set[str]()
    for each in documents:
        if each["anonymous"] and each["_id"] not in known:
            at_ms = round(each["admitted_at"].timestamp() * 1000)
            if await waits_unnamed(redis, Slug(each["slug"]), Number(each["number"]), at_ms):
                known.add(each["_id"])
    return known


def _sha1(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
