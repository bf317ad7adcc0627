"""Requests that lua/admit.lua does not take in, or not for ever: what expires, and re-checks.

What nobody wants any more ends without a call; what could not be in time is not taken. Re-checks
take no room from customers, and of one parcel only the newest waits.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from limits_bench import (
    ANSWERED,
    DEAD,
    FAST,
    KEYS,
    USPS,
    Hire,
    Worker,
    again_in,
    counted,
    failed,
    redis_us,
    retries_are_due,
    state,
    status,
    the_lease_ends,
    they_expire,
)
from redis.asyncio import Redis

from limits.admin.snapshot import LineSnapshots
from limits.rules import Rules
from tracking.call import Ended, Full, Granted, Parked, TooLate
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
    await worker.limiter.hand_back([call], 0)
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


HOUR = 3_600.0


async def re_checked(worker: Worker, number: str, operation: str, **more: Any) -> object:
    return await worker.admit(number, id=operation, origin=Origin.AUTOMATIC, **more)


async def room(redis: Redis, worker: Worker, most: int, within: float) -> int:
    return await LineSnapshots(redis, lambda _: worker.rules).room(USPS, most, within)


async def test_a_re_check_takes_the_place_of_the_older_one_of_its_parcel(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    for each in ("r-1", "r-2", "r-3"):
        await re_checked(busy, "N001", each)

    assert [await state(redis, each) for each in ("r-1", "r-2")] == ["CANCELLED", "CANCELLED"]
    told = await status(redis, "r-1")
    assert told is not None
    assert told["output"]["code"] == "superseded"
    assert await counted(redis, "open", "open_automatic") == (1, 1)
    assert (await free.taken()).operations == ("r-3",)


async def test_a_re_check_supersedes_nobody_elses_request(busy: Worker, redis: Redis) -> None:
    await busy.parked("N001", id="customers")
    await re_checked(busy, "N001", "shop/r-1")
    await re_checked(busy, "N001", "r-1")
    await re_checked(busy, "N002", "r-2")

    for each in ("customers", "shop/r-1", "r-1", "r-2"):
        assert await state(redis, each) == "WAITING"


async def test_a_re_check_finds_the_older_one_among_many_customers(
    busy: Worker, redis: Redis
) -> None:
    await re_checked(busy, "N001", "r-1")
    for n in range(40):
        await busy.parked("N001", id=f"op-{n}")

    await re_checked(busy, "N001", "r-2")

    assert await state(redis, "r-1") == "CANCELLED"
    assert await counted(redis, "open_automatic") == (1,)


async def test_of_two_re_checks_that_a_failed_call_joins_the_newest_goes_on(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted(id="r-1", origin=Origin.AUTOMATIC)
    await re_checked(worker, "N001", "r-2")

    await worker.limiter.retry(call, again_in(60), 0)
    await retries_are_due(redis)

    assert await state(redis, "r-1") == "CANCELLED"
    assert (await worker.taken()).operations == ("r-2",)


async def test_re_checks_take_the_room_that_customers_leave_and_never_theirs(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(replace(FAST, concurrent=1, max_waiting=3))
    await worker.granted("N000", id="r-0", origin=Origin.AUTOMATIC)

    for n in range(1, 5):
        await re_checked(worker, f"N00{n}", f"r-{n}")
    assert await counted(redis, "open_automatic") == (3,)
    assert await re_checked(worker, "N005", "r-5") == Ended(State.CANCELLED, "wait_list_full")
    assert await state(redis, "r-5") == "CANCELLED"
    assert isinstance(await re_checked(worker, "N001", "r-6"), Parked)
    for n in range(3):
        assert isinstance(await worker.admit(f"M00{n}", id=f"op-{n}"), Parked)
    assert isinstance(await worker.admit("M003", id="op-3"), Full)


async def test_what_a_courier_pushes_is_asked_for_although_the_stored_answer_is_fresh(
    worker: Worker,
) -> None:
    await worker.finish(await worker.granted("N001"), ANSWERED)

    assert await re_checked(worker, "N001", "r-1") == Ended(State.SUCCESS)
    assert isinstance(await re_checked(worker, "N001", "r-2", max_age=0.0), Granted)


async def test_what_a_courier_pushes_rides_with_the_customers_who_wait_for_its_parcel(
    busy: Worker, free: Worker
) -> None:
    await busy.parked("N001", id="customers")
    await re_checked(busy, "N001", "r-1")

    await re_checked(busy, "N001", "r-2", max_age=0.0)

    assert set((await free.taken()).operations) == {"customers", "r-2"}
    assert (await free.take()).calls == ()


async def test_a_re_check_that_takes_the_place_of_a_push_is_answered_by_no_older_call(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted("N001", id="customers")
    await re_checked(worker, "N001", "r-1", max_age=0.0)
    await re_checked(worker, "N001", "r-2")

    await worker.finish(call, ANSWERED)

    assert await state(redis, "r-2") == "WAITING"
    assert (await worker.taken()).operations == ("r-2",)


async def test_pushes_for_a_line_that_stands_wait_as_one_and_take_no_customers_room(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(replace(FAST, max_waiting=2))
    await redis.set(KEYS.calls_held, "by hand", px=60_000)

    for minute in range(5):
        for number in ("N001", "N002"):
            await re_checked(worker, number, f"r-{number}-{minute}", max_age=0.0)
    assert await counted(redis, "open", "open_automatic") == (2, 2)
    told = await re_checked(worker, "N003", "r-3", max_age=0.0)
    assert told == Ended(State.CANCELLED, "wait_list_full")
    for n in range(2):
        assert isinstance(await worker.admit(f"M00{n}", id=f"op-{n}"), Parked)

    await redis.delete(KEYS.calls_held)
    called = {each.operations for each in (await worker.take()).calls}
    assert called == {("op-0",), ("op-1",), ("r-N001-4",), ("r-N002-4",)}


async def test_a_re_check_that_comes_too_late_ends_and_is_no_refused_request(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(Rules(per_second=2, per_day=1))
    await worker.finish(await worker.granted("N000"))
    soon = time.time() + 60

    told = await re_checked(worker, "N001", "r-1", expires_at=soon)

    assert told == Ended(State.CANCELLED, "too_late")
    assert await counted(redis, "too_late", "open", "open_automatic") == (0, 0, 0)
    assert isinstance(await worker.admit("N002", expires_at=soon), TooLate)


@pytest.mark.parametrize("key", [KEYS.calls_paused, KEYS.calls_held])
async def test_a_line_that_stands_takes_no_re_checks(
    worker: Worker, redis: Redis, key: str
) -> None:
    assert await room(redis, worker, 100, HOUR) == 100

    await redis.set(key, "courier_down", px=60_000)

    assert await room(redis, worker, 100, HOUR) == 0


async def test_a_line_whose_calls_fail_takes_one_re_check_at_a_time_beside_those_who_wait(
    worker: Worker, redis: Redis
) -> None:
    await worker.limiter.retry(await worker.granted("N001"), failed("rate_limited"), 0)
    assert await redis.exists(KEYS.calls_paused)

    assert await room(redis, worker, 100, HOUR) == 1
    await redis.delete(KEYS.calls_paused)
    assert await room(redis, worker, 100, HOUR) == 1
    assert await room(redis, worker, 0, HOUR) == 0
    await redis.set(KEYS.calls_held, "by hand", px=60_000)
    assert await room(redis, worker, 100, HOUR) == 0
    await redis.delete(KEYS.calls_held)
    await re_checked(worker, "N004", "r-4")
    assert await room(redis, worker, 100, HOUR) == 0


async def test_a_line_takes_as_many_re_checks_as_its_limits_let_start_in_time(
    hire: Hire, redis: Redis
) -> None:
    by_quota = await hire(Rules(per_second=2, per_day=5))
    by_rate = await hire(Rules(per_second=2))
    await redis.delete(KEYS.calls_day)

    assert await room(redis, by_quota, 1_000, 10.0) == 5
    assert await room(redis, by_rate, 1_000, 10.0) in range(18, 23)
    await by_quota.finish(await by_quota.granted("N000"))
    assert await room(redis, by_quota, 1_000, 10.0) == 4
    await redis.set(KEYS.calls_day, 5, ex=3_600)
    assert await room(redis, by_quota, 1_000, 10.0) == 0
