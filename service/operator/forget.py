"""Forgetting parcels: deletes everything that is stored about them, and what earlier calls bring.

Redis first: from that instant on, answers of earlier calls are recognised. Then the mark by which
writers to MongoDB know it, then what is stored, then once more for calls that ran meanwhile. Each
step may be repeated, and so may the whole: whatever dies in between, `forget` again.

Deliveries of webhooks are cancelled first, so that no attempt begins. What is being sent is not cut
off, and ends before its body and its attempts go. Deliveries go last: the others are found by them.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from limits.admin.forget import MARK_SECONDS, Forgetter
from service.config.domain import rules_for
from service.config.schema import LEASE_MOST_SECONDS, Config
from service.operator.connections import Collections, collections_of, redis_of
from service.operator.dead import Document, delete_dead
from service.operator.delivery_acts import stop_all
from service.operator.producer import Producer
from service.worker.deliveries.delivery import Delivery, delivery_in, document_of
from service.worker.deliveries.purging import delete_parts
from service.worker.results.dead import Filter, find
from service.worker.results.forgetting import SEEN_SECONDS, Parcel, clear, mark
from tracking.errors import LimitsBroken, StoreError
from tracking.request import Number, Slug

NOT_REACHED = (
    "jobs that wait in the tubes: they are answered and stored; forget again when they are through",
    "Redis' append-only file until it is rewritten, which `redis-cli BGREWRITEAOF` does now",
    "MongoDB's journal and oplog, until they are overwritten",
    "backups, logs, and what other programs have read",
)

_UNREAD = (
    "{key} cannot be read and was passed over: look whether it tells of the parcel, "
    "then delete it (redis-cli DEL)"
)

POLL_SECONDS = 0.1
MARKED_AT_ONCE = 1_000
"""Written well within the time that one operation may take."""


@dataclass(slots=True)
class Found:
    """The finds of a forget: how many of each kind, and what could not be deleted."""

    parcel: Parcel
    calls: tuple[str, ...]
    counts: dict[str, int]
    failed: list[str] = field(default_factory=list)

    @property
    def is_known(self) -> bool:
        """Whether there was anything."""
        return any(self.counts.values()) or bool(self.failed)


def forget(config: Config, named: Sequence[tuple[Slug, Number]]) -> list[Found]:
    """Forget parcels, and tell of each what there was. Raises StoreError: forget all once more."""
    found = asyncio.run(_in_redis(config, named))
    parcels = [each.parcel for each in found]
    with collections_of(config) as stores, Producer(config.beanstalkd.servers) as producer:
        for begin in range(0, len(parcels), MARKED_AT_ONCE):
            mark(stores.forgotten, parcels[begin : begin + MARKED_AT_ONCE], MARK_SECONDS)
        for each in found:
            each.counts |= clear(stores, each.parcel)
            _forget_dead(each, stores, producer)
            stop_all(stores, _noted(each.parcel), "forgotten")
        outputs, unreadable = asyncio.run(_outputs(config, parcels))
        for each in found:
            each.counts["outputs"] = outputs.get(each.parcel.name, 0)
            each.failed += [_UNREAD.format(key=key) for key in unreadable]
        running = [each for each in found if each.calls]
        asyncio.run(_until_over(config, running))
        for each in running:
            clear(stores, each.parcel)
        for begin in range(0, len(found), MARKED_AT_ONCE):
            _forget_deliveries(config, found[begin : begin + MARKED_AT_ONCE], stores)
    return found


async def _in_redis(config: Config, named: Sequence[tuple[Slug, Number]]) -> list[Found]:
    found = []
    async with _forgetter_of(config) as forgetter:
        for slug, number in named:
            try:
                forgot = await forgetter.forget(slug, number)
            except LimitsBroken as error:
                found.append(_out_of_reach(slug, number, error))
                continue
            counts = {"cancelled": forgot.ended, "calls": len(forgot.calls)}
            counts["answers"] = forgot.answers
            found.append(Found(Parcel(slug, number, forgot.at_us), forgot.calls, counts))
    return found


def _out_of_reach(slug: Slug, number: Number, error: LimitsBroken) -> Found:
    """A key of its line is broken: what is stored elsewhere goes all the same."""
    counts = {"cancelled": 0, "calls": 0, "answers": 0}
    return Found(Parcel(slug, number, time.time_ns() // 1000), (), counts, [f"in Redis: {error}"])


def _forget_dead(found: Found, stores: Collections, producer: Producer) -> None:
    """Delete its dead requests; the record of one whose buried job cannot be deleted stays."""
    parcel = found.parcel
    found.counts["dead"] = 0
    for document in find(stores.dead, Filter(slug=parcel.slug, number=parcel.number)):
        try:
            found.counts["dead"] += delete_dead(document, stores.dead, producer)
        except StoreError as error:
            found.failed.append(f"{document['_id']} stays in dead: {error}")


def _noted(parcel: Parcel) -> Document:
    """Ask for what services hear of a parcel, noted until it was forgotten."""
    return {"parcel": parcel.name, "made_at": {"$lte": parcel.at}}


def _forget_deliveries(config: Config, found: Sequence[Found], stores: Collections) -> None:
    """Delete what was sent about parcels, once nothing of it is being sent any more."""
    sent = []
    for each in found:
        wanted = _noted(each.parcel)
        stop_all(stores, wanted, "forgotten")  # and what calls that ran meanwhile made known
        sent.append(list(map(delivery_in, stores.deliveries.find(wanted))))
    until_sent(config, [delivery for own in sent for delivery in own])
    for each, own in zip(found, sent, strict=True):
        each.counts |= delete_parts(stores, list(map(document_of, own)))
        ids = [delivery.id for delivery in own]
        gone = stores.deliveries.delete_many({"_id": {"$in": ids}}).deleted_count if ids else 0
        each.counts["deliveries"] = gone


def until_sent(config: Config, deliveries: Sequence[Delivery]) -> None:
    """Wait for attempts that run; each ends with its lease at the latest. Raises LimitsDown."""
    if deliveries:
        asyncio.run(_until_sent(config, deliveries))


async def _until_sent(config: Config, deliveries: Sequence[Delivery]) -> None:
    deadline = time.monotonic() + LEASE_MOST_SECONDS
    async with _forgetter_of(config) as forgetter:
        for each in deliveries:
            with suppress(LimitsBroken):
                while await forgetter.calls_for(each.line, Number(each.id)):
                    if time.monotonic() > deadline:
                        return
                    await asyncio.sleep(POLL_SECONDS)


async def _outputs(
    config: Config, parcels: Sequence[Parcel]
) -> tuple[Mapping[str, int], list[str]]:
    async with _forgetter_of(config) as forgetter:
        return await forgetter.clear_outputs({each.name: each.at_us for each in parcels})


async def _until_over(config: Config, running: Sequence[Found]) -> None:
    """Wait for calls that run; longer is not needed, because writers know the marks by then."""
    if not running:
        return
    deadline = time.monotonic() + SEEN_SECONDS
    async with _forgetter_of(config) as forgetter:
        for slug, call in [(each.parcel.slug, call) for each in running for call in each.calls]:
            with suppress(LimitsBroken):  # its answer is recognised by the mark all the same
                while await forgetter.runs(Slug(slug), call):
                    if time.monotonic() > deadline:
                        return
                    await asyncio.sleep(POLL_SECONDS)


@asynccontextmanager
async def _forgetter_of(config: Config) -> AsyncIterator[Forgetter]:
    async with redis_of(config) as redis:
        yield Forgetter(redis, functools.partial(rules_for, config))
