"""Workers on the session's Redis, which is emptied before each test.

============ ===================================================================================
fixture      is
============ ===================================================================================
`hire`       makes a `Worker` with the rules that are given, on a connection of its own
`worker`     a worker whose rules do not limit the rate
`busy`       a worker whose only slot is taken by the number BUSY, so that all others wait
`free`       a worker with slots for all that wait for `busy`
`forgetter`  forgets as people do
`canceller`  cancels as people do
`brakes`     pauses and resumes as people do
`wide`       a worker whose calls take three numbers
`rationed`   the same under a quota of sixty calls an hour: one a minute
`usps`       a worker with the limits of the contract: 20 in flight, 2 started in any second
============ ===================================================================================
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from grouped import THREE, of_three
from limits_bench import FAST, USPS, Book, Hire, Shelf, Worker
from redis.asyncio import Redis

from limits.admin.cancel import Canceller
from limits.admin.forget import Forgetter
from limits.admin.pause import Pauses
from limits.clock import Clock
from limits.connect import open_redis
from limits.epoch import Epoch, Loss
from limits.limiter import Limiter, Policy
from limits.pipeline import Notice, Pipeline
from limits.rules import Rules
from limits.server import RedisAddress

PLAIN = Policy()
LEASE_SECONDS = Rules().lease_seconds


@pytest.fixture
async def hire(redis_url: str) -> AsyncIterator[Hire]:
    async with AsyncExitStack() as closing:

        async def make(
            rules: Rules | Book = FAST,
            policy: Policy = PLAIN,
            quiet_seconds: float = 30.0,
            notice: Notice = lambda _: None,
            address: RedisAddress | None = None,
            **epoch_options: Any,
        ) -> Worker:
            client = open_redis(address or RedisAddress(redis_url))
            closing.push_async_callback(client.aclose)
            clock = Clock()
            pipeline = Pipeline(client, clock, notice)
            epoch = Epoch(pipeline, quiet_seconds, **epoch_options)
            lost = epoch_options.get("lost", lambda _: None)
            pipeline.quiet_after_leap(LEASE_SECONDS, lambda: lost(Loss.LEAPT))
            book = rules if isinstance(rules, Book) else Book(Shelf(rules))
            limiter = Limiter(pipeline, clock, epoch, book, policy)
            closing.push_async_callback(limiter.close)
            await limiter.start()
            return Worker(limiter, pipeline, clock, epoch, book.rules_of(USPS), policy)

        yield make


@pytest.fixture
async def worker(hire: Hire) -> Worker:
    return await hire()


@pytest.fixture
async def forgetter(worker: Worker, redis: Redis) -> Forgetter:
    return Forgetter(redis, lambda _: worker.rules)


@pytest.fixture
async def canceller(worker: Worker, redis: Redis) -> Canceller:
    return Canceller(redis, lambda _: worker.rules)


@pytest.fixture
async def brakes(redis: Redis) -> Pauses:
    return Pauses(redis, lambda _: FAST)


@pytest.fixture
async def usps(hire: Hire) -> Worker:
    return await hire(Rules())


@pytest.fixture
async def busy(hire: Hire) -> Worker:
    crowded = await hire(replace(FAST, concurrent=1))
    await crowded.granted("BUSY", job="job-of-busy")
    return crowded


@pytest.fixture
async def free(hire: Hire, busy: Worker) -> Worker:
    assert busy
    return await hire()


@pytest.fixture
async def wide(hire: Hire) -> Worker:
    return await hire(THREE)


@pytest.fixture
async def rationed(hire: Hire) -> Worker:
    return await hire(of_three(per_hour=60))
