"""Redis' clock leaps forward: leases of calls that run end too early, and limits hold all the same.

The clock of a server under test cannot be set. A worker that remembers it as so much further behind
sees the same leap; what the leap does to scores and expiries is done by hand.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest
from limits_bench import FAST, KEYS, USPS, Hire, Worker, redis_us
from redis.asyncio import Redis

from limits.clock import LEAP_SECONDS, Clock
from limits.epoch import Loss
from limits.keys import EPOCH, LEAP

AHEAD = 1_000_000.0
MICRO = 1_000_000
LEAPT = 120.0
QUIET_US = 30 * MICRO


def exchange(clock: Clock, before: float, ahead: float) -> None:
    clock.observe(before, round((before + 0.001 + ahead) * MICRO), before + 0.002)


async def redis_leaps(*workers: Worker, redis: Redis) -> None:
    """Let all calls in flight look `LEAPT` older, and the workers remember the clock of before."""
    for worker in workers:
        now = time.monotonic()
        behind_us = await redis_us(redis) - round(LEAPT * MICRO)
        worker.clock.observe(now, behind_us, time.monotonic())
    for call_id, ends in await redis.zrange(KEYS.calls_leases, 0, -1, withscores=True):
        await redis.zadd(KEYS.calls_leases, {call_id: ends - LEAPT * MICRO})


async def why_not(worker: Worker) -> str:
    """Why nobody is taken of those who wait."""
    _, _, why, *_ = await worker.raw("take", "t", 5, 1)
    return str(why)


async def stall(redis: Redis, seconds: float) -> None:
    """Let Redis begin what it is sent so much later."""
    await redis.execute_command("CLIENT", "PAUSE", round(seconds * 1000), "ALL")


async def quiet_seconds(redis: Redis) -> float:
    _, until = str(await redis.get(EPOCH)).split()
    return (int(until) - await redis_us(redis)) / MICRO


@pytest.mark.parametrize(("step", "leapt"), [(0.9, False), (1.1, True), (-120.0, False)])
def test_a_step_forward_by_more_than_a_second_is_a_leap(step: float, *, leapt: bool) -> None:
    clock = Clock()
    exchange(clock, 10.0, AHEAD)
    high = clock.high

    exchange(clock, 11.0, AHEAD + step)

    assert clock.before_leap == (high if leapt else None)


def test_a_leap_in_an_idle_hour_is_one_too() -> None:
    clock = Clock()
    exchange(clock, 10.0, AHEAD)

    exchange(clock, 3_610.0, AHEAD + LEAPT)

    assert clock.before_leap is not None


def test_a_script_says_how_late_it_can_be_once_the_clock_is_known() -> None:
    clock = Clock()
    unknown = clock.latest_us()
    now = time.monotonic()
    exchange(clock, now - 0.002, AHEAD)

    latest = clock.latest_us() / MICRO

    assert unknown == 0
    assert 0.0 <= latest - (now + AHEAD + LEAP_SECONDS) < 0.5


async def test_nobody_starts_for_a_call_time_out_after_a_leap(hire: Hire, redis: Redis) -> None:
    losses: list[Loss] = []
    first = await hire(replace(FAST, concurrent=1), lost=losses.append)
    second = await hire(replace(FAST, concurrent=1))
    await first.granted("N001")
    assert (await second.parked("N002")).why == "concurrency"

    await redis_leaps(first, second, redis=redis)

    assert await why_not(first) == await why_not(second) == "quiet"
    assert losses == [Loss.LEAPT]
    assert 29.0 < await quiet_seconds(redis) <= 30.0


async def test_a_call_that_runs_is_not_taken_for_lost_after_a_leap(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted("N001")

    await redis_leaps(worker, redis=redis)
    (swept,) = await worker.limiter.sweep([USPS])

    assert swept.swept == 0
    assert await redis.hexists(KEYS.wait_inflight, call.id)


async def test_all_workers_together_tell_of_a_leap_once(hire: Hire, redis: Redis) -> None:
    losses: list[Loss] = []
    workers = [await hire(lost=losses.append) for _ in range(3)]
    await redis_leaps(*workers, redis=redis)

    await asyncio.gather(*(each.parked() for each in workers))
    _, by = str(await redis.get(LEAP)).split()

    assert losses == [Loss.LEAPT]
    assert LEAPT - 2 * LEAP_SECONDS < int(by) / MICRO <= LEAPT


async def test_a_broken_key_of_leaps_keeps_nobody_from_being_called(
    worker: Worker, redis: Redis
) -> None:
    await redis.hset(LEAP, "a", "b")
    await redis_leaps(worker, redis=redis)

    assert (await worker.parked()).why == "quiet"
    assert await redis.type(LEAP) == "string"


async def test_two_leaps_within_an_hour_add_up(worker: Worker, redis: Redis) -> None:
    for _ in range(2):
        await redis_leaps(worker, redis=redis)
        await redis.set(LEAP, "0 " + str(await redis.get(LEAP) or "0 0").split()[1])
        await worker.take()

    _, by = str(await redis.get(LEAP)).split()
    assert 2 * (LEAPT - 2 * LEAP_SECONDS) < int(by) / MICRO <= 2 * LEAPT
    assert 3_590_000 < await redis.pttl(LEAP) <= 3_600_000


async def test_an_hourly_quota_counts_what_the_clock_leapt_over(hire: Hire, redis: Redis) -> None:
    worker = await hire(replace(FAST, per_hour=1))
    await worker.granted("N001")
    began = await redis_us(redis) - 3_500 * MICRO
    for call_id in await redis.zrange(KEYS.calls_hour, 0, -1):
        await redis.zadd(KEYS.calls_hour, {call_id: began - LEAPT * MICRO})
    await redis.set(LEAP, f"{began} {round(LEAPT * MICRO)}")

    assert (await worker.parked("N002")).why == "per_hour"

    await redis.delete(LEAP)
    assert (await worker.take(1)).calls


async def test_a_script_that_comes_late_is_sent_again_and_is_no_leap(
    worker: Worker, redis: Redis
) -> None:
    await worker.take()
    await stall(redis, 1.4)

    call = await worker.granted("N001")

    assert call.request.number == "N001"
    assert await redis.get(LEAP) is None
    assert await quiet_seconds(redis) < 0


def test_after_a_script_that_came_late_the_next_may_be_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    exchange(clock, 10.0, AHEAD)
    monkeypatch.setattr(time, "monotonic", lambda: 10.5)
    usual = clock.latest_us()

    clock.came_late(3.0)
    later = clock.latest_us()
    clock.came_late(None)

    assert later - usual == pytest.approx(5 * MICRO, abs=1)
    assert clock.latest_us() == usual


async def test_a_script_of_no_line_leaves_the_next_one_as_much_time(worker: Worker) -> None:
    await worker.take()
    worker.clock.came_late(30.0)

    await worker.epoch.agree()

    now_us = (time.monotonic() + worker.clock.high) * MICRO
    assert worker.clock.latest_us() - now_us > 59 * MICRO
