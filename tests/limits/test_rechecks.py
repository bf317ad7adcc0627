"""Re-checks take no room from customers, and of one parcel only the newest waits."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from limits_bench import (
    FAST,
    KEYS,
    USPS,
    Hire,
    Worker,
    again_in,
    counted,
    failed,
    retries_are_due,
    state,
    status,
)
from redis.asyncio import Redis

from limits.admin.snapshot import LineSnapshots
from limits.rules import Rules
from tracking.call import Ended, Full, Parked, TooLate
from tracking.operation import State
from tracking.request import Origin

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
