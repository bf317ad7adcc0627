"""Cancelling by age and origin: each operation of a number is judged by itself."""

from __future__ import annotations

import json

import pytest
from limits_bench import (
    KEYS,
    NO_PLACES,
    USPS,
    Worker,
    a_millisecond_goes_by,
    counted,
    redis_us,
    state,
)
from redis.asyncio import Redis

from limits.admin.cancel import CancelFilter, Canceller
from tracking.request import Origin


async def ids_that_wait(redis: Redis) -> list[str]:
    record = json.loads(await redis.hget(KEYS.wait_requests, "N001") or "{}")
    return [
        *record.get("newest", []),
        *await redis.lrange(f"{KEYS.operations}N001", 0, -1),
        *(["anonymous"] if "anon" in record else []),
    ]


async def test_of_a_number_only_those_are_cancelled_that_are_meant(
    busy: Worker, redis: Redis
) -> None:
    await busy.parked(id="auto", origin=Origin.AUTOMATIC)
    await busy.parked(id="manual")
    await busy.parked()

    _, *told = await busy.raw("cancel_where", "N001", '{"origin":"AUTOMATIC"}')

    assert told == [1, 0]
    assert await ids_that_wait(redis) == ["manual", "anonymous"]
    assert (await state(redis, "auto"), await state(redis, "manual")) == ("CANCELLED", "WAITING")


async def test_the_last_that_leaves_takes_the_number_along(busy: Worker, redis: Redis) -> None:
    await busy.parked(id="op-1")

    _, *told = await busy.raw("cancel_where", "N001", "{}")

    assert told == [1, 0]
    assert await redis.exists(KEYS.wait_requests, KEYS.wait_list) == 0


async def test_of_hundreds_each_is_looked_at_once(busy: Worker, redis: Redis) -> None:
    for n in range(125):
        await busy.parked(id=f"op-{n}")
    before_ms = await redis_us(redis) // 1000
    await a_millisecond_goes_by(redis)
    for n in range(125, 250):
        await busy.parked(id=f"op-{n}")

    todo, steps, ended = 0, 0, 0
    while steps == 0 or todo:
        which = json.dumps({"before": before_ms} | ({"todo": todo} if todo else {}))
        _, count, todo = await busy.raw("cancel_where", "N001", which)
        steps, ended = steps + 1, ended + count

    assert (steps, ended) == (3, 125)
    assert await counted(redis, "CANCELLED", "open") == (125, 125)
    assert len(await ids_that_wait(redis)) == 125


async def test_of_a_number_that_nobody_waits_for_nothing_ends(busy: Worker) -> None:
    _, *told = await busy.raw("cancel_where", "N001", "{}")

    assert told == [0, 0]


async def test_requests_without_an_id_are_of_their_own_origin(busy: Worker, redis: Redis) -> None:
    await busy.parked(origin=Origin.AUTOMATIC)
    await busy.parked(id="manual")

    of_manual = await busy.raw("cancel_where", "N001", '{"origin":"MANUAL"}')
    left = await ids_that_wait(redis)
    await busy.parked(id="manual-2")
    of_automatic = await busy.raw("cancel_where", "N001", '{"origin":"AUTOMATIC"}')

    assert (of_manual[1], left) == (1, ["anonymous"])
    assert (of_automatic[1], await ids_that_wait(redis)) == (1, ["manual-2"])


async def test_one_whose_record_somebody_deleted_takes_no_other_along(
    busy: Worker, redis: Redis
) -> None:
    await busy.parked(id="op-1")
    await redis.hdel(KEYS.wait_requests, "N001")
    await busy.parked(id="op-2")

    _, *told = await busy.raw("cancel", "N001", "op-1", NO_PLACES)

    assert told == ["cancelled", 1, 0]
    assert (await state(redis, "op-1"), await state(redis, "op-2")) == ("CANCELLED", "WAITING")
    assert await ids_that_wait(redis) == ["op-2"]


@pytest.mark.parametrize("origin", Origin)
async def test_a_number_that_has_nothing_of_an_origin_costs_no_script(
    busy: Worker, redis: Redis, origin: Origin
) -> None:
    other = next(each for each in Origin if each != origin)
    await busy.parked("N001", origin=other)
    await busy.parked("N002", id="op-2", origin=other)
    await redis.config_resetstat()

    canceller = Canceller(redis, lambda _: busy.rules)
    told = [each async for each, _ in canceller.cancel_where(USPS, CancelFilter(origin=origin))]

    assert told == []
    assert "cmdstat_evalsha" not in await redis.info("commandstats")
