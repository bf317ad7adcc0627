"""Who plans the re-checks of a courier: one process at a time (lua/plan.lua)."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from limits import keys
from limits.workers import LEASE_SECONDS, Planners
from tracking.request import Slug

USPS, UPS, DHL = Slug("usps"), Slug("ups"), Slug("dhl")


@pytest.fixture
async def first(redis: Redis) -> Planners:
    return Planners(redis, "first")


@pytest.fixture
async def second(redis: Redis) -> Planners:
    return Planners(redis, "second")


async def test_one_process_plans_a_courier_and_others_plan_others(
    first: Planners, second: Planners
) -> None:
    assert await first.hold([USPS, UPS]) == [USPS, UPS]

    assert await second.hold([USPS, UPS, DHL]) == [DHL]
    assert await first.hold([USPS, UPS, DHL]) == [USPS, UPS]


async def test_who_plans_keeps_a_courier_with_each_question(first: Planners, redis: Redis) -> None:
    await first.hold([USPS])
    await redis.pexpire(keys.planner(USPS), 1_000)

    await first.hold([USPS])

    left = await redis.pttl(keys.planner(USPS)) / 1000
    assert LEASE_SECONDS - 10 < left <= LEASE_SECONDS < 60


async def test_another_one_takes_over_once_the_lease_is_over(
    first: Planners, second: Planners, redis: Redis
) -> None:
    await first.hold([USPS, UPS])
    await redis.delete(keys.planner(USPS))  # as its end does

    assert await second.hold([USPS, UPS]) == [USPS]
    assert await first.hold([USPS, UPS]) == [UPS]


async def test_a_broken_key_is_nobodys_and_keeps_no_other_courier_from_its_planner(
    first: Planners, redis: Redis
) -> None:
    await redis.sadd(keys.planner(USPS), "by hand")

    assert await first.hold([USPS, UPS]) == [UPS]
    assert await first.hold([]) == []
