"""What is known of Redis' clock: an interval that only exchanges narrow, never a guess."""

from __future__ import annotations

import asyncio
import time

import pytest
from limits_bench import Worker, redis_us
from redis.asyncio import Redis

from limits.clock import SETTLE_SECONDS, Clock

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
