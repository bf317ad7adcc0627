"""What nobody wants any more ends without a call; what could not be in time is not taken."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from limits_bench import (
    ANSWERED,
    DEAD,
    FAST,
    KEYS,
    Hire,
    Worker,
    counted,
    failed,
    redis_us,
    retries_are_due,
    state,
    the_lease_ends,
    they_expire,
)
from redis.asyncio import Redis

from limits.rules import Rules
from tracking.call import Parked, TooLate
from tracking.line import courier_line
from tracking.operation import State
from tracking.request import Origin, Slug

LONG = 600.0
Way = Callable[[Worker, Redis], Awaitable[None]]


async def listed(worker: Worker, redis: Redis) -> None:
    await redis.set(KEYS.calls_paused, "x", px=60_000)
    await worker.parked(id="op-1", expires_at=time.time() + LONG)
    await redis.delete(KEYS.calls_paused)


async def automatic(worker: Worker, redis: Redis) -> None:
    await redis.set(KEYS.calls_paused, "x", px=60_000)
    await worker.parked(id="op-1", expires_at=time.time() + LONG, origin=Origin.AUTOMATIC)
    await redis.delete(KEYS.calls_paused)


async def retried(worker: Worker, redis: Redis) -> None:
    call = await worker.granted(id="op-1", expires_at=time.time() + LONG)
    await worker.repeat(call)
    await they_expire(redis)
    await retries_are_due(redis)


async def retried_with_its_line(worker: Worker, redis: Redis) -> None:
    call = await worker.granted(id="op-1", expires_at=time.time() + LONG)
    await worker.limiter.retry(call, failed("rate_limited", named=1.0), 0)
    await redis.delete(KEYS.calls_paused)
    await retries_are_due(redis)


async def behind(worker: Worker, redis: Redis) -> None:
    call = await worker.granted(id="op-0")
    await worker.parked(id="op-1", expires_at=time.time() + LONG)
    await they_expire(redis)
    await worker.finish(call, DEAD)


async def handed_back(worker: Worker, redis: Redis) -> None:
    call = await worker.granted(id="op-1", expires_at=time.time() + LONG)
    await worker.limiter.hand_back(call, 0)
    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N001"]


async def swept(worker: Worker, redis: Redis) -> None:
    call = await worker.granted(id="op-1", expires_at=time.time() + LONG)
    await the_lease_ends(redis, call)
    await worker.limiter.sweep([courier_line(Slug("usps"))])


@pytest.mark.parametrize(
    "way", [listed, automatic, retried, retried_with_its_line, behind, handed_back, swept]
)
async def test_wherever_it_waits_it_is_cancelled_before_it_takes_a_permit(
    worker: Worker, redis: Redis, way: Way
) -> None:
    await way(worker, redis)
    calls = await counted(redis, "calls")
    await they_expire(redis)

    turn = await worker.take()

    assert (turn.calls, await state(redis, "op-1")) == ((), "CANCELLED")
    assert await counted(redis, "calls") == calls
    assert await redis.exists(KEYS.wait_requests, KEYS.wait_list, KEYS.wait_later) == 0


async def test_a_job_that_comes_again_after_its_expiry_ends_without_a_second_call(
    worker: Worker, redis: Redis
) -> None:
    """Its first worker vanished; the old lease holds until it ends, and then nobody waits."""
    call = await worker.granted(job="j", id="op-1", expires_at=time.time() + LONG)
    past = await redis_us(redis) / 1_000_000 - 1

    ended = await worker.ended(job="j", id="op-1", expires_at=past)
    await they_expire(redis)
    await the_lease_ends(redis, call)
    await worker.limiter.sweep([courier_line(Slug("usps"))])

    assert (ended, (await worker.take()).calls) == (State.CANCELLED, ())
    assert await counted(redis, "CANCELLED", "calls") == (1, 1)


async def crowd(usps: Worker) -> None:
    """Two run and eight wait: the next one starts in about five seconds."""
    for n in range(10):
        await usps.admit(f"B{n:03}")


async def test_what_the_rate_alone_makes_impossible_is_not_taken(
    usps: Worker, redis: Redis
) -> None:
    await crowd(usps)
    now = await redis_us(redis) / 1_000_000

    refused = await usps.admit("N001", id="op-1", expires_at=now + 2)

    assert isinstance(refused, TooLate)
    assert refused.starts_at == pytest.approx(now + 5.1, abs=1.0)
    assert await state(redis, "op-1") is None
    assert await redis.hexists(KEYS.wait_requests, "N001") is False
    assert await counted(redis, "too_late", "open") == (1, 0)
    assert [await redis.hget(name, "too_late") for name in await redis.keys("*:stats1:*")] == ["1"]


async def test_what_may_be_in_time_waits(usps: Worker) -> None:
    await crowd(usps)

    assert isinstance(await usps.admit("N001", expires_at=time.time() + 8), Parked)


@pytest.mark.parametrize("quota", [{"per_hour": 1}, {"per_day": 1}])
async def test_what_a_quota_alone_makes_impossible_is_not_taken(
    hire: Hire, redis: Redis, quota: dict[str, int]
) -> None:
    worker = await hire(replace(FAST, **quota))
    await worker.granted("N001")
    now = await redis_us(redis) / 1_000_000
    ends = await redis.pexpiretime(KEYS.calls_day) / 1_000 if "per_day" in quota else now + 3_602

    refused = await worker.admit("N002", expires_at=min(now + 60, ends - 2))

    assert isinstance(refused, TooLate)
    assert refused.starts_at == pytest.approx(ends, abs=2.0)


async def test_a_pause_makes_nothing_impossible(worker: Worker, redis: Redis) -> None:
    await worker.limiter.retry(await worker.granted(), failed("rate_limited", named=3_600.0), 0)
    await redis.set(KEYS.calls_held, '{"why":"","at":1}')

    assert isinstance(await worker.admit("N002", expires_at=time.time() + 5), Parked)


async def test_calls_that_take_long_make_nothing_impossible(busy: Worker, redis: Redis) -> None:
    await redis.hset(KEYS.counts, "call_us", 3_600_000_000)

    assert isinstance(await busy.admit("N001", expires_at=time.time() + 5), Parked)


@pytest.mark.parametrize("number", ["B000", "B009"], ids=["runs", "waits"])
async def test_one_that_joins_others_is_taken_however_long_that_takes(
    usps: Worker, number: str
) -> None:
    await crowd(usps)

    assert isinstance(await usps.admit(number, id="op-1", expires_at=time.time() + 1), Parked)


async def test_one_that_a_fresh_answer_serves_is_not_refused(usps: Worker) -> None:
    await usps.finish(await usps.granted("N001"), ANSWERED)
    await crowd(usps)

    assert await usps.ended("N001", id="op-1", expires_at=time.time() + 1) is State.SUCCESS


async def test_an_operation_that_waits_already_is_not_refused_when_its_job_comes_again(
    hire: Hire,
) -> None:
    usps = await hire(Rules())
    await crowd(usps)
    await usps.parked("N001", job="j", id="op-1", expires_at=time.time() + 8)
    for n in range(20):
        await usps.parked(f"C{n:03}")

    again = await usps.admit("N001", job="j", id="op-1", expires_at=time.time() + 1)

    assert isinstance(again, Parked)
