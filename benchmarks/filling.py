"""Filling Redis with waiting requests through real admission, without a worker.

The requests are admitted by the very class that a worker uses, many at once, in a process that does
nothing else. One call of each courier is granted and kept: behind it everybody waits. Operations
that ended are written as scripts write them.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Callable, Coroutine, Iterator, Sequence

from limits.clock import Clock
from limits.connect import open_redis
from limits.epoch import Epoch
from limits.limiter import Limiter, Policy
from limits.pipeline import Pipeline
from limits.rules import RuleBook, Rules
from limits.server import RedisAddress
from tracking.call import Attempt, Granted, Parked, Verdict
from tracking.operation import State
from tracking.request import Number, Slug, TrackingRequest

ADMITTING = 400
"""Admissions under way at once: they share the way to Redis, as those of a busy worker do."""

BEHIND_ONE = Rules(concurrent=1, per_second=1_000)

WIDE = Rules(concurrent=1_000_000, per_second=1_000_000, guard_ms=0)

ANSWER = Verdict(
    State.SUCCESS,
    {"tag": "InTransit", "subtag": "InTransit_003", "checkpoints": 12, "delivered": False},
    attempt=Attempt(dt.datetime(2026, 3, 1, tzinfo=dt.UTC), "answered", 212, 200),
)


class NotGranted(Exception):
    """An admission ended otherwise than with a call."""


class NotParked(Exception):
    """An admission ended otherwise than in a wait list."""


def fill(redis_url: str, names: Sequence[str], numbers: range, *, with_ids: bool = False) -> None:
    """Park one request for every number, in turn for every slug."""
    wanted = _wanted(names, numbers, with_ids=with_ids)
    asyncio.run(_share(redis_url, BEHIND_ONE, lambda limiter: _admit_all(limiter, wanted)))


def end(redis_url: str, names: Sequence[str], numbers: range) -> None:
    """Have one request, with an id, answered for every number, in turn for every slug."""
    wanted = _wanted(names, numbers, with_ids=True)
    asyncio.run(_share(redis_url, WIDE, lambda limiter: _end_all(limiter, wanted)))


async def _share(
    redis_url: str, rules: Rules, work: Callable[[Limiter], Coroutine[None, None, None]]
) -> None:
    redis = open_redis(RedisAddress(redis_url))
    clock = Clock()
    pipeline = Pipeline(redis, clock)
    limiter = Limiter(pipeline, clock, Epoch(pipeline, 0.0), RuleBook(lambda _: rules), Policy())
    try:
        await limiter.start()
        async with asyncio.TaskGroup() as group:
            for _ in range(ADMITTING):
                group.create_task(work(limiter))
    finally:
        await limiter.close()
        await redis.aclose()


async def _end_all(limiter: Limiter, wanted: Iterator[TrackingRequest]) -> None:
    for request in wanted:
        job = f"job-{request.slug}-{request.number}"
        admission = await limiter.admit(next(limiter.ids), request, job)
        if not isinstance(admission, Granted):
            raise NotGranted(f"{request.slug}:{request.number}: {admission}")
        await limiter.finish([(admission.call, ANSWER)], 0)


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


NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
NOW_MS = round(NOW.timestamp() * 1000)
PARCEL_OPERATIONS = 10
BATCH = 5_000


def number_of(index: int) -> str:
    """The parcel's number of an operation; some operations are of the same parcel."""
    return f"9400111{index // PARCEL_OPERATIONS:015}"


def status_of(index: int) -> tuple[str, str]:
    """An operation's id and its status, as lua/lib/state.lua writes it."""
    at_ms = NOW_MS - index
    status = {
        "status": "SUCCESS",
        "tracking": f"usps:{number_of(index)}",
        "at": at_ms,
        "startedAt": "2026-03-01T12:00:00.000Z",
        "finishedAt": "2026-03-01T12:00:00.212Z",
        "output": {"tag": "InTransit", "subtag": "InTransit_003", "checkpoints": 12},
        "attempts": [[at_ms, "answered", 200, 212]],
    }
    return f"order-{index:012}", json.dumps(status, separators=(",", ":"))
