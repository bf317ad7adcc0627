"""Who asks for the next turn (lua/lib/taking.lua): the operators' flag, the drainer's duty."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from limits_bench import (
    ANSWERED,
    FAST,
    KEYS,
    Hire,
    Worker,
    again_in,
    flag_seconds,
    redis_us,
    retries_are_due,
    until,
)
from redis.asyncio import Redis

from limits.rules import Rules
from tracking.call import TakeResult

ONE = replace(FAST, concurrent=1)


@pytest.fixture
async def crowd(hire: Hire) -> Worker:
    """A worker whose only slot is taken, with two that wait and a drain job in the tube."""
    worker = await hire(ONE)
    await worker.granted("BUSY")
    assert (await worker.parked("N001")).put_drain
    assert not (await worker.parked("N002")).put_drain
    return worker


async def test_only_the_first_that_waits_asks_for_a_drain_job(crowd: Worker) -> None:
    assert not (await crowd.parked("N003")).put_drain


async def test_a_drain_job_that_never_came_is_put_again_within_seconds(
    crowd: Worker, redis: Redis
) -> None:
    assert 0 < await redis.pttl(KEYS.wait_drainer) <= 10_000

    await redis.delete(KEYS.wait_drainer)  # as its time to live does

    _, _, _, put, _ = await crowd.raw("sweep", "s")
    assert put == 1


async def test_a_process_that_comes_with_the_drain_job_has_the_duty(crowd: Worker) -> None:
    result = await crowd.take(claims=True)

    assert result.ask_again is not None
    assert time.monotonic() < result.ask_again <= time.monotonic() + 31.0


async def test_a_process_that_comes_without_it_leaves_the_duty_to_the_tube(crowd: Worker) -> None:
    result = await crowd.take()

    assert result == TakeResult()


async def test_a_second_drainer_is_told_that_another_asks_already(
    crowd: Worker, hire: Hire
) -> None:
    other = await hire(ONE)
    await crowd.take(claims=True)

    assert (await other.take()).ask_again is None
    assert (await crowd.take()).ask_again is not None


async def test_who_comes_with_the_job_takes_the_duty_over_from_a_vanished_drainer(
    crowd: Worker, hire: Hire
) -> None:
    """beanstalkd gives the job to another one only when its holder is gone."""
    other = await hire(ONE)
    await crowd.take(claims=True)

    assert (await other.take(claims=True)).ask_again is not None
    assert (await crowd.take()).ask_again is None


async def test_who_knows_an_earlier_instant_takes_the_duty_over(hire: Hire, redis: Redis) -> None:
    first, second = await hire(Rules(concurrent=1)), await hire(Rules())
    await first.granted("BUSY")
    await first.parked("N001")
    await first.take(claims=True)
    await redis.rpush(KEYS.wait_list, "N002", "N003")

    result = await second.take()

    assert len(result.calls) == 1
    assert result.ask_again is not None
    assert result.ask_again < time.monotonic() + 3.0


async def test_a_process_without_room_hands_its_duty_to_the_tube(crowd: Worker) -> None:
    await crowd.take(claims=True)

    assert await crowd.take(0) == TakeResult(put_drain=True)


async def test_a_process_without_room_leaves_the_duty_of_another_alone(
    crowd: Worker, hire: Hire
) -> None:
    other = await hire(ONE)
    await other.take(claims=True)

    assert await crowd.take(0) == TakeResult()


async def test_a_process_that_has_no_room_for_all_keeps_the_duty(
    crowd: Worker, hire: Hire, redis: Redis
) -> None:
    roomy = await hire()

    result = await roomy.take(1, claims=True)

    assert (len(result.calls), result.put_drain) == (1, False)
    assert result.ask_again is not None
    assert await redis.llen(KEYS.wait_list) == 1
    assert await crowd.take(0) == TakeResult()


async def test_the_duty_of_a_process_that_vanished_ends_soon_after_its_instant(
    crowd: Worker, redis: Redis
) -> None:
    _, _, _, ask, _ = await crowd.raw("take", "t", 5, 1)

    left = await redis.pttl(KEYS.wait_drainer) / 1000
    named = (int(ask) - await redis_us(redis)) / 1_000_000
    assert 0 < left - named <= 5.0


async def test_a_duty_that_lies_too_far_ahead_is_nobodys_duty(crowd: Worker, redis: Redis) -> None:
    """As after a step back of Redis' clock, which also lengthens what is left to live."""
    ahead = await redis_us(redis) + 3_600_000_000
    await redis.set(KEYS.wait_drainer, f"vanished {ahead}", px=3_603_000)

    _, _, _, put, _ = await crowd.raw("sweep", "s")

    assert put == 1


async def named(redis: Redis) -> int:
    """The instant for which somebody is named, in µs."""
    return int(str(await redis.get(KEYS.wait_drainer)).split()[1])


@pytest.fixture
async def asks_at(crowd: Worker, redis: Redis) -> int:
    """The instant at which the worker asks next, however slow the test is: the end of a pause."""
    await redis.set(KEYS.calls_paused, "as the test wants", px=20_000)
    await crowd.raw("take", "t1", 5, 1)
    return await named(redis)


async def name_for(redis: Redis, at: int) -> None:
    token = str(await redis.get(KEYS.wait_drainer)).split()[0]
    await redis.set(KEYS.wait_drainer, f"{token} {at}", keepttl=True)


async def test_a_drainer_whose_next_instant_is_near_stays_named_as_it_is(
    crowd: Worker, redis: Redis, asks_at: int
) -> None:
    await name_for(redis, asks_at - 15_000)

    _, _, _, ask, _ = await crowd.raw("take", "t2", 5, 0)

    assert await named(redis) == asks_at - 15_000
    assert abs(int(ask) - asks_at) <= 2_000


async def test_a_drainer_is_named_for_another_instant_that_is_not_near(
    crowd: Worker, redis: Redis, asks_at: int
) -> None:
    await name_for(redis, asks_at - 30_000)

    _, _, _, ask, _ = await crowd.raw("take", "t2", 5, 0)

    assert await named(redis) == int(ask)
    assert abs(int(ask) - asks_at) <= 2_000


async def test_the_flag_of_a_line_that_has_not_changed_runs_down_by_itself(
    crowd: Worker, redis: Redis
) -> None:
    await crowd.take(claims=True)
    await redis.pexpire(KEYS.wait_list_activated, 60_000)

    await crowd.take()
    unchanged = await flag_seconds(redis)
    await crowd.parked("N003")

    assert unchanged == pytest.approx(60, abs=5)
    assert await flag_seconds(redis) < 10


async def test_flag_and_duty_end_with_the_last_that_waits(crowd: Worker, redis: Redis) -> None:
    wide = replace(crowd, rules=FAST)

    _, grants, *rest = await wide.raw("take", "t", 10, 1)

    assert len(grants) == 2
    assert rest == ["empty", 0, 0]
    assert await redis.exists(KEYS.wait_drainer, KEYS.wait_list_activated) == 0


async def test_who_parks_after_the_last_one_left_asks_for_a_drain_job(crowd: Worker) -> None:
    wide = replace(crowd, rules=FAST)
    await wide.raw("take", "t", 10, 1)

    _, word, _, put = await crowd.raw_admit("late", "N009")

    assert (word, put) == ("parked", 1)


async def test_nothing_is_decided_by_the_flag(crowd: Worker, redis: Redis) -> None:
    await redis.delete(KEYS.wait_list_activated)
    assert not (await crowd.parked("N003")).put_drain

    await redis.delete(KEYS.wait_list, KEYS.wait_requests, KEYS.wait_drainer)
    await redis.set(KEYS.wait_list_activated, "1")
    assert (await crowd.parked("N004")).put_drain


async def test_a_retry_wakes_the_process_that_made_it_when_it_is_due(
    worker: Worker, redis: Redis
) -> None:
    result = await worker.limiter.retry(await worker.granted(), again_in(0.2), 5)
    assert result.ask_again is not None

    async def asked_in_time() -> bool:
        return time.monotonic() >= (result.ask_again or 0.0)

    await until(asked_in_time)
    assert [call.request.number for call in (await worker.take()).calls] == ["N001"]
    assert await redis.exists(KEYS.wait_later) == 0


async def test_a_due_retry_whose_process_vanished_finds_a_drainer_by_the_sweep(
    worker: Worker, redis: Redis
) -> None:
    await worker.limiter.retry(await worker.granted(), again_in(60.0), 5)
    await redis.delete(KEYS.wait_drainer)

    await retries_are_due(redis)
    _, _, _, put, _ = await worker.raw("sweep", "s")

    assert put == 1
    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N001"]


async def test_a_finish_leaves_the_duty_where_it_is(crowd: Worker, hire: Hire) -> None:
    other = await hire(ONE)
    await other.take(claims=True)
    call = await crowd.granted("N100", slug="dpd-uk")

    result = await crowd.limiter.finish([(call, ANSWERED)], 5)

    assert result == TakeResult()


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
