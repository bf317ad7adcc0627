"""Redis' clock as a worker knows it: bounds, steps and leaps."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest
from limits_bench import FAST, KEYS, USPS, Hire, Worker, redis_us
from redis.asyncio import Redis

from limits.clock import LEAP_SECONDS, SETTLE_SECONDS, Clock, Instants
from limits.epoch import Loss
from limits.keys import EPOCH, LEAP
from tracking.call import Granted

HOUR_US = 3_600_000_000

AHEAD = 1_000_000.0
"""Seconds by which Redis' clock is ahead of the monotonic one in these tests."""


def exchange(clock: Clock, before: float, after: float, ahead: float = AHEAD) -> None:
    """One exchange; Redis took its time in the middle."""
    clock.observe(before, round(((before + after) / 2 + ahead) * 1_000_000), after)


def test_an_exchange_bounds_the_difference_of_the_clocks() -> None:
    clock = Clock()

    exchange(clock, 10.0, 10.2)

    assert clock.low == pytest.approx(AHEAD - 0.1, abs=1e-6)
    assert clock.high == pytest.approx(AHEAD + 0.1, abs=1e-6)


def test_a_quicker_exchange_narrows_the_bounds_and_a_slower_one_does_not_widen_them() -> None:
    clock = Clock()

    for before, after in ((10.0, 10.2), (11.0, 11.002), (12.0, 13.0)):
        exchange(clock, before, after)

    assert clock.high - clock.low == pytest.approx(0.002, abs=1e-6)
    assert clock.low <= AHEAD <= clock.high


def test_an_instant_of_redis_is_translated_to_the_latest_it_can_be_here() -> None:
    clock = Clock()
    exchange(clock, 10.0, 10.2)

    here = clock.monotonic((AHEAD + 20.0) * 1_000_000)

    assert here == pytest.approx(20.1)


def test_what_is_known_lasts_for_two_spans_of_five_seconds() -> None:
    clock = Clock()
    exchange(clock, 10.0, 10.001)
    exchange(clock, 16.0, 17.0)
    narrow = clock.high - clock.low
    exchange(clock, 22.0, 23.0)
    wide = clock.high - clock.low

    assert narrow == pytest.approx(0.001, abs=1e-6)
    assert wide == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("step", [-3600.0, -0.1, 0.1, 3600.0])
async def test_a_step_of_a_clock_is_noticed_and_nothing_is_sent_until_it_has_settled(
    step: float,
) -> None:
    clock = Clock()
    now = time.monotonic()
    exchange(clock, now - 0.002, now - 0.001)

    exchange(clock, now - 0.0005, now, AHEAD + step)
    waiting = asyncio.create_task(clock.settled())
    await asyncio.sleep(0.05)
    too_early = waiting.done()
    await waiting

    assert clock.steps == 1
    assert clock.low <= AHEAD + step <= clock.high
    assert not too_early
    assert time.monotonic() - now >= SETTLE_SECONDS


async def test_a_clock_that_is_steered_by_milliseconds_has_not_stepped() -> None:
    clock = Clock()
    exchange(clock, 10.0, 10.0001)

    exchange(clock, 11.0, 11.0001, AHEAD + 0.003)
    await asyncio.wait_for(clock.settled(), 0.5)

    assert clock.steps == 0
    assert clock.low <= AHEAD + 0.003 <= clock.high


def test_clocks_that_drifted_apart_in_an_idle_hour_have_not_stepped() -> None:
    clock = Clock()
    exchange(clock, 10.0, 10.0001)

    exchange(clock, 3610.0, 3610.0001, AHEAD + 0.05)

    assert clock.steps == 0


async def test_every_script_tells_the_time(worker: Worker, redis: Redis) -> None:
    before = time.monotonic()
    now_us = await redis_us(redis)
    after = time.monotonic()

    assert worker.clock.low <= now_us / 1_000_000 - before + 0.001
    assert worker.clock.high >= now_us / 1_000_000 - after - 0.001
    assert 0 < worker.clock.high - worker.clock.low < 5.0


MICRO = 1_000_000
LEAPT = 120.0
QUIET_US = 30 * MICRO


def exchange_leaps(clock: Clock, before: float, ahead: float) -> None:
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
    exchange_leaps(clock, 10.0, AHEAD)
    high = clock.high

    exchange_leaps(clock, 11.0, AHEAD + step)

    assert clock.before_leap == (high if leapt else None)


def test_a_leap_in_an_idle_hour_is_one_too() -> None:
    clock = Clock()
    exchange_leaps(clock, 10.0, AHEAD)

    exchange_leaps(clock, 3_610.0, AHEAD + LEAPT)

    assert clock.before_leap is not None


def test_a_script_says_how_late_it_can_be_once_the_clock_is_known() -> None:
    clock = Clock()
    unknown = clock.latest_us()
    now = time.monotonic()
    exchange_leaps(clock, now - 0.002, AHEAD)

    latest = clock.latest_us() / MICRO

    assert unknown == 0
    assert 0.0 <= latest - (now + AHEAD + LEAP_SECONDS) < 0.5


async def test_nobody_starts_for_a_lease_after_a_leap(hire: Hire, redis: Redis) -> None:
    losses: list[Loss] = []
    first = await hire(replace(FAST, concurrent=1), lost=losses.append)
    second = await hire(replace(FAST, concurrent=1))
    await first.granted("N001")
    assert (await second.parked("N002")).why == "concurrency"

    await redis_leaps(first, second, redis=redis)

    assert await why_not(first) == await why_not(second) == "quiet"
    assert losses == [Loss.LEAPT]
    assert 59.0 < await quiet_seconds(redis) <= 60.0


async def test_a_line_of_a_short_lease_ends_the_quiet_of_no_other_line(
    hire: Hire, redis: Redis
) -> None:
    short = await hire(replace(FAST, call_timeout_seconds=2.0, lease_seconds=5.0))

    await redis_leaps(short, redis=redis)

    assert (await short.parked()).why == await why_not(short) == "quiet"
    assert 59.0 < await quiet_seconds(redis) <= 60.0


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
    exchange_leaps(clock, 10.0, AHEAD)
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


async def test_each_wait_lasts_as_long_as_was_asked_for() -> None:
    instants, order = Instants(), list[float]()
    began = time.monotonic()

    async def wait(seconds: float) -> None:
        await instants.sleep(seconds)
        assert time.monotonic() - began >= seconds
        order.append(seconds)

    async with asyncio.timeout(5.0):
        await asyncio.gather(*map(wait, (0.06, 0.02, 0.04, 0.02, 0.03)))

    assert order == [0.02, 0.02, 0.03, 0.04, 0.06]


async def test_a_later_wait_may_end_sooner() -> None:
    instants = Instants()
    long = instants.sleep(30.0)

    await asyncio.wait_for(instants.sleep(0.01), 5.0)

    assert not long.done()


async def test_a_wait_that_is_given_up_keeps_nobody_else() -> None:
    instants = Instants()
    first, second = instants.sleep(0.01), instants.sleep(0.02)

    first.cancel()

    await asyncio.wait_for(second, 5.0)


async def test_who_comes_after_all_others_have_left_is_woken() -> None:
    instants = Instants()
    await instants.sleep(0.01)

    await asyncio.wait_for(instants.sleep(0.01), 5.0)


async def test_leases_and_lanes_of_a_clock_that_stepped_back_are_clamped(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(FAST)
    call = await worker.granted("N001")
    ahead = await redis_us(redis) + HOUR_US
    await redis.zadd(KEYS.calls_leases, {call.id: ahead})
    await redis.zadd(KEYS.call_starts, {call.id: ahead})

    now, *_ = await worker.raw("sweep", "s")

    assert await redis.zscore(KEYS.calls_leases, call.id) == now + 60_000_000
    assert await redis.zscore(KEYS.call_starts, call.id) == now + 150_000 + 1_000_000 + 1_020_000


async def test_a_lane_of_a_clock_that_stepped_back_binds_for_seconds_only(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(replace(FAST, per_second=1))
    call = await worker.granted("N001")
    await redis.zadd(KEYS.call_starts, {call.id: await redis_us(redis) + HOUR_US})
    await redis.rpush(KEYS.wait_list, "N002")

    now, _, why, ask, _ = await worker.raw("take", "t", 5, 1)

    assert (why, int(ask) <= now + 3_000_000) == ("rate", True)


async def test_a_quiet_time_of_a_clock_that_stepped_back_is_clamped(
    worker: Worker, redis: Redis
) -> None:
    ahead = await redis_us(redis) + HOUR_US
    await redis.set(KEYS.epoch, f"{worker.epoch.name} {ahead}")
    await redis.rpush(KEYS.wait_list, "N001")

    now, _, why, *_ = await worker.raw("take", "t", 5, 1)
    name, quiet = (await redis.get(KEYS.epoch)).split()

    assert why == "quiet"
    assert (name, int(quiet)) == (worker.epoch.name, now + 60_000_000)


async def test_an_answer_of_a_clock_that_stepped_back_is_not_fresh(
    worker: Worker, redis: Redis
) -> None:
    await worker.finish(await worker.granted("N001"))
    key = f"{KEYS.answer}N001"
    text = await redis.get(key)
    observed = text.split('"observed":')[1].split(",")[0]
    await redis.set(key, text.replace(observed, str(int(observed) + 3_600_000)))

    assert isinstance(await worker.admit("N001"), Granted)
