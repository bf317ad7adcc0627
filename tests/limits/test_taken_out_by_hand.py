"""A number that a person takes out of a list is found by the sweeps, while others wait there."""

from __future__ import annotations

import asyncio

import pytest
from limits_bench import KEYS, USPS, Worker, again_in, counted
from redis.asyncio import Redis

from tracking.request import Origin

MANY = 300
LONG = 5_100
"""More than a sweep reads at once."""


async def listed(redis: Redis, key: str = KEYS.wait_list) -> list[str]:
    return [str(number) for number in await redis.lrange(key, 0, -1)]


async def parked(worker: Worker, count: int) -> list[str]:
    names = [f"N{n:04}" for n in range(count)]
    await asyncio.gather(*(worker.parked(name) for name in names))
    return names


async def sweeps(worker: Worker, count: int) -> None:
    """As many as a worker makes, of this line only if it does not look sound."""
    for _ in range(count):
        await worker.limiter.sweep([USPS])


async def unsound(worker: Worker) -> list[str]:
    spans = worker.rules.reach_us
    return list(await worker.pipeline.run("inspect", [KEYS.wait_list], [*spans, 1]))


@pytest.mark.parametrize("origin", Origin)
async def test_it_goes_to_the_end_of_its_list(busy: Worker, redis: Redis, origin: Origin) -> None:
    key = KEYS.wait_list if origin is Origin.MANUAL else KEYS.wait_list_automatic
    for name in ("N001", "N002", "N003"):
        await busy.parked(name, origin=origin)
    await redis.lrem(key, 1, "N002")

    await busy.limiter.sweep([USPS])

    assert await listed(redis, key) == ["N001", "N003", "N002"]
    assert await counted(redis, "relisted") == (1,)


async def test_a_request_that_came_since_is_answered_with_it(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await busy.parked("N001")
    await busy.parked("N002", id="op-1")
    await redis.lrem(KEYS.wait_list, 1, "N002")
    await busy.parked("N002", id="op-2")
    assert await listed(redis) == ["N001"]

    await busy.limiter.sweep([USPS])

    calls = {call.request.number: call for call in (await free.take()).calls}
    assert set(calls["N002"].operations) == {"op-1", "op-2"}


async def test_all_that_were_taken_out_are_found_and_nobody_is_listed_twice(
    busy: Worker, redis: Redis
) -> None:
    names = await parked(busy, MANY)
    for name in names[10:250:3]:
        await redis.lrem(KEYS.wait_list, 1, name)

    await sweeps(busy, 8)

    found = await listed(redis)
    assert sorted(found) == names
    assert found[:10] == names[:10]
    assert await unsound(busy) == []


async def test_it_is_found_in_a_list_that_is_too_long_to_be_read_at_once(
    busy: Worker, redis: Redis
) -> None:
    names = await parked(busy, LONG)
    for name in (names[7], names[5_000]):
        await redis.lrem(KEYS.wait_list, 1, name)

    await sweeps(busy, 3 + LONG // 100)

    assert sorted(await listed(redis)) == names
    assert await counted(redis, "relisted") == (2,)


async def test_a_line_whose_numbers_are_all_in_their_places_is_not_swept(
    busy: Worker, redis: Redis
) -> None:
    await parked(busy, 3)
    await busy.parked("BUSY", id="behind")
    await busy.take()  # so that it is drained
    await redis.rpush(KEYS.wait_list, "HAND0001")

    assert await unsound(busy) == []
    await redis.lrem(KEYS.wait_list, 1, "N0001")
    await redis.lrem(KEYS.wait_list, 1, "HAND0001")
    assert await unsound(busy) == [USPS]


async def test_a_retry_that_was_taken_out_is_found(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await free.limiter.retry(await free.granted("LATER"), again_in(60.0), 0)
    await busy.parked("N001")
    await redis.zrem(KEYS.wait_later, "LATER")

    await busy.limiter.sweep([USPS])

    assert await listed(redis) == ["N001", "LATER"]
