"""A list that somebody deleted is written again, however long it was."""

from __future__ import annotations

import asyncio

from limits_bench import KEYS, USPS, Worker, counted
from redis.asyncio import Redis


async def test_a_long_deleted_list_is_written_again_in_steps(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    asks = (busy.parked(f"N{n:04}", id=None if n % 3 else f"op-{n}") for n in range(1_200))
    await asyncio.gather(*asks)
    await redis.hset(KEYS.wait_requests, "!relist", "0")  # one that was interrupted
    await redis.delete(KEYS.wait_list)
    await redis.config_resetstat()

    await free.limiter.sweep([USPS])

    scans = (await redis.info("commandstats"))["cmdstat_hscan"]["calls"]
    assert scans > 3
    assert len(set(await redis.lrange(KEYS.wait_list, 0, -1))) == 1_200
    assert await redis.llen(KEYS.wait_list) == 1_200
    assert await counted(redis, "relisted") == (1_200,)
    assert not await redis.hexists(KEYS.wait_requests, "!relist")
