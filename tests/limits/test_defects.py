"""Defects over a job are counted in Redis: those of all workers, also after their restarts."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from limits.connect import open_redis
from limits.jobs import DEFECTS_KEPT_SECONDS, Defects
from limits.server import RedisAddress
from tracking.errors import LimitsDown


async def test_so_many_defects_hand_a_job_back_and_the_next_one_no_more(redis: Redis) -> None:
    one, other = Defects(redis, most=3), Defects(redis, most=3)

    told = [await each.add("job") for each in (one, other, one, other, one)]

    assert told == [False, False, False, True, True]
    assert not await one.add("another job")


async def test_the_count_ends_a_day_after_the_first(redis: Redis) -> None:
    defects = Defects(redis, most=3)
    await defects.add("job")
    await redis.expire("tracking:defects:job", 60)

    await defects.add("job")

    assert await redis.ttl("tracking:defects:job") <= 60
    await defects.add("another job")
    assert (
        DEFECTS_KEPT_SECONDS - 5
        <= await redis.ttl("tracking:defects:another job")
        <= DEFECTS_KEPT_SECONDS
    )


async def test_a_redis_that_is_away_counts_nothing() -> None:
    away = open_redis(RedisAddress("redis://127.0.0.1:1/0"))

    with pytest.raises(LimitsDown):
        await Defects(away, most=3).add("job")
    await away.aclose()
