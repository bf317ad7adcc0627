"""Filling Redis with waiting requests through real admission, without a worker.

The requests are admitted by the very class that a worker uses, many at once, in a process that does
nothing else. One call of each courier is granted and kept: behind it everybody waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from limits.clock import Clock
from limits.connect import RedisAddress, open_redis
from limits.epoch import Epoch
from limits.limiter import Limiter, Policy
from limits.pipeline import Pipeline
from limits.rules import Rules
from tracking.call import Granted, Parked
from tracking.request import Number, Slug, TrackingRequest

ADMITTING = 400
"""Admissions under way at once: they share the way to Redis, as those of a busy worker do."""

BEHIND_ONE = Rules(concurrent=1, per_second=1_000)


class NotParked(Exception):
    """An admission ended otherwise than in a wait list."""


def fill(redis_url: str, names: Sequence[str], numbers: range, *, with_ids: bool = False) -> None:
    """Park one request for every number, in turn for every slug."""
    asyncio.run(_fill(redis_url, _wanted(names, numbers, with_ids=with_ids)))


async def _fill(redis_url: str, wanted: Iterator[TrackingRequest]) -> None:
    redis = open_redis(RedisAddress(redis_url))
    clock = Clock()
    pipeline = Pipeline(redis, clock)
    limiter = Limiter(pipeline, clock, Epoch(pipeline, 0.0), lambda _: BEHIND_ONE, Policy())
    try:
        await limiter.start()
        async with asyncio.TaskGroup() as group:
            for _ in range(ADMITTING):
                group.create_task(_admit_all(limiter, wanted))
    finally:
        await limiter.close()
        await redis.aclose()


async def _admit_all(limiter: Limiter, wanted: Iterator[TrackingRequest]) -> None:
    for request in wanted:
        admission = await limiter.admit(
            next(limiter.ids), request, f"job-{request.slug}-{request.number}"
        )
        if not isinstance(admission, Parked | Granted):
            raise NotParked(f"{request.slug}:{request.number}: {admission}")


def _wanted(names: Sequence[str], numbers: range, *, with_ids: bool) -> Iterator[TrackingRequest]:
    for index in numbers:
        number, slug = Number(f"W{index:012}"), Slug(names[index % len(names)])
        identity = f"order-{index:08}" if with_ids else None
        yield TrackingRequest(slug, number, given=number, id=identity)
