"""A process without room for a call: it is granted none, keeps its duties, and others take over."""

from __future__ import annotations

import time

import pytest
from limits_bench import KEYS, Hire, Worker, asked
from redis.asyncio import Redis

from limits.keys import write_request
from tracking.call import NO_ROOM, TakeResult


async def test_admit_parks_for_a_process_that_is_full(worker: Worker, redis: Redis) -> None:
    request = write_request(asked("N001"), "job-1", full=True)

    _, *reply = await worker.raw("admit", "c", request, b"")

    assert reply == ["parked", "room", 1]
    assert await redis.zcard(KEYS.calls_leases) == 0


async def test_admit_puts_the_call_of_a_vanished_worker_back_for_a_process_that_is_full(
    worker: Worker, redis: Redis
) -> None:
    await worker.granted(job="job-1")
    request = write_request(asked("N001"), "job-1", full=True)

    _, *reply = await worker.raw("admit", "d", request, b"")

    assert reply == ["parked", "room", 1]
    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N001"]


@pytest.mark.parametrize("claims", [0, 1])
async def test_a_full_process_takes_nothing_and_keeps_the_duty(
    worker: Worker, redis: Redis, claims: int
) -> None:
    await redis.rpush(KEYS.wait_list, "N001")

    now, grants, named, ask, put = await worker.raw("take", "b", NO_ROOM, claims)

    assert (grants, named, int(ask), put) == ([], "full", now + 30_000_000, 0)
    assert await redis.get(KEYS.wait_drainer) == f"{worker.limiter.token} {ask}"


async def test_a_full_process_hears_what_else_binds(usps: Worker, redis: Redis) -> None:
    await usps.granted("N001")
    await usps.granted("N002")
    await redis.rpush(KEYS.wait_list, "N003")

    now, _, named, ask, _ = await usps.raw("take", "b", NO_ROOM, 0)

    assert named == "rate"
    assert now < int(ask) <= now + 2_020_000


async def test_a_full_process_hears_that_nobody_waits(worker: Worker, redis: Redis) -> None:
    await redis.set(KEYS.wait_list_activated, "1")

    _, *reply = await worker.raw("take", "b", NO_ROOM, 0)

    assert reply == [[], "empty", 0, 0]


async def test_a_full_process_keeps_the_duty_until_it_asks_again(hire: Hire, redis: Redis) -> None:
    full, sweeping = await hire(), await hire()
    await redis.rpush(KEYS.wait_list, "N001")

    result = await full.take(NO_ROOM, claims=True)

    assert (result.calls, result.full, result.put_drain) == ((), True, False)
    assert result.ask_again == pytest.approx(time.monotonic() + 30, abs=1)
    assert await redis.pttl(KEYS.wait_drainer) > 30_000
    _, _, _, put, _ = await sweeping.raw("sweep", "s")
    assert put == 0


async def test_who_has_room_takes_the_duty_over_from_a_full_process(
    hire: Hire, redis: Redis
) -> None:
    full, roomy = await hire(), await hire()
    call = await roomy.granted("N100")
    await redis.rpush(KEYS.wait_list, "N001", "N002")
    await full.take(NO_ROOM, claims=True)

    result = await roomy.finish(call, room=1)

    assert len(result.calls) == 1
    assert result.ask_again is not None
    assert await full.take(NO_ROOM) == TakeResult()


async def test_a_take_whose_room_is_all_that_may_start_asks_again_when_the_next_may(
    usps: Worker, redis: Redis
) -> None:
    await redis.rpush(KEYS.wait_list, "N001", "N002", "N003")

    now, grants, named, ask, put = await usps.raw("take", "b", 2, 0)

    assert (len(grants), named, put) == (2, "rate", 0)
    assert int(ask) > now + 500_000
