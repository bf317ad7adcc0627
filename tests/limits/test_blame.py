"""Whose fault a failed call was, its number's or its courier's: the answers of others tell."""

from __future__ import annotations

import asyncio

from limits_bench import KEYS, Worker, a_millisecond_goes_by, failed, retries_are_due
from redis.asyncio import Redis

from tracking.call import Call


async def fail(worker: Worker, call: Call, *, charged: bool = False) -> None:
    await worker.limiter.retry(call, failed("courier_down", charged=charged), 0)


async def test_a_number_is_blamed_once_another_was_answered_since_it_failed(
    worker: Worker, redis: Redis
) -> None:
    await fail(worker, await worker.granted("BAD"))
    await a_millisecond_goes_by(redis)
    await worker.finish(await worker.granted("GOOD"))
    await retries_are_due(redis)

    second = await worker.taken()
    await fail(worker, second, charged=True)
    await retries_are_due(redis)
    third = await worker.taken()

    assert (second.blamed, second.attempts, second.tries) == (True, 0, 1)
    assert (third.blamed, third.attempts, third.tries) == (False, 1, 2)
    assert third.failing_since == second.failing_since is not None


async def test_an_answer_from_before_it_failed_blames_nobody(worker: Worker, redis: Redis) -> None:
    await fail(worker, await worker.granted("FIRST"))
    await worker.finish(await worker.granted("GOOD"))
    await a_millisecond_goes_by(redis)
    await fail(worker, await worker.granted("BAD"))
    await redis.zrem(KEYS.wait_later, "FIRST")
    await retries_are_due(redis)

    assert not (await worker.taken()).blamed


async def test_an_answer_that_follows_within_the_millisecond_counts(
    worker: Worker, redis: Redis
) -> None:
    bad, good = await worker.granted("BAD"), await worker.granted("GOOD")
    await asyncio.gather(fail(worker, bad), worker.finish(good))  # one script, one time
    await retries_are_due(redis)

    assert (await worker.taken()).blamed


async def test_an_answer_that_went_before_within_the_millisecond_blames_nobody(
    worker: Worker, redis: Redis
) -> None:
    await fail(worker, await worker.granted("FIRST"))
    good, bad = await worker.granted("GOOD"), await worker.granted("BAD")
    await asyncio.gather(worker.finish(good), fail(worker, bad))
    await redis.zrem(KEYS.wait_later, "FIRST")
    await retries_are_due(redis)

    assert not (await worker.taken()).blamed
