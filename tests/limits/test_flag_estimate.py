"""Until when the flag lives: the estimate of when the last one that waits is due."""

from __future__ import annotations

from dataclasses import replace

import pytest
from limits_bench import FAST, KEYS, Hire, Worker, again_in, flag_seconds
from redis.asyncio import Redis

from limits.rules import Rules

ONE = replace(FAST, concurrent=1)


async def test_the_flag_lives_until_the_last_that_waits_is_due_by_the_rate(
    usps: Worker, redis: Redis
) -> None:
    for n in range(12):
        await usps.admit(f"N{n:03}")

    assert await flag_seconds(redis) == pytest.approx(10 * 1.02 / 2, abs=2.0)


async def test_the_flag_lives_until_the_last_that_waits_is_due_by_the_slots(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(ONE)
    await redis.hset(KEYS.counts, "call_us", 4_000_000)
    for n in range(6):
        await worker.admit(f"N{n:03}")

    assert await flag_seconds(redis) == pytest.approx(5 * 4.0, abs=2.0)


async def test_calls_that_keep_others_waiting_for_a_slot_are_timed_for_the_estimate(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(ONE)
    call = await worker.granted("BUSY")
    await worker.parked("N001")
    await redis.hset(KEYS.counts, "call_us", 4_000_000)

    await worker.finish(call)

    assert 3_500_000 <= int(await redis.hget(KEYS.counts, "call_us") or 0) < 4_000_000


async def test_calls_that_are_over_before_the_next_may_start_are_not_timed_again(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(Rules(concurrent=1, per_second=2))
    call = await worker.granted("BUSY")
    await worker.parked("N001")
    await redis.hset(KEYS.counts, "call_us", 400_000)

    await worker.finish(call)

    assert await redis.hget(KEYS.counts, "call_us") == "400000"


async def test_the_flag_lives_until_the_last_retry_is_due(worker: Worker, redis: Redis) -> None:
    await worker.limiter.retry(await worker.granted(), again_in(90.0), 5)

    assert await flag_seconds(redis) == pytest.approx(90.0, abs=10.0)


async def test_the_flag_outlives_a_pause(worker: Worker, redis: Redis) -> None:
    await redis.set(KEYS.calls_paused, "429", px=45_000)

    await worker.parked()

    assert await flag_seconds(redis) == pytest.approx(45.0, abs=10.0)
