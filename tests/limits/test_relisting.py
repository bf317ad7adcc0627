"""A list that somebody deleted is written again, however long it was."""

from __future__ import annotations

import asyncio
import json

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


async def test_a_scan_that_gives_all_at_once_is_worked_off_in_steps(
    free: Worker, redis: Redis
) -> None:
    """Redis keeps a small hash of short values as one piece, which HSCAN reads whole."""
    record = json.dumps({"since": 1, "anon": {"id": "j", "at": 1}}, separators=(",", ":"))
    numbers = {f"N{n:03}": record for n in range(400)}
    await redis.hset(KEYS.wait_requests, mapping=numbers)
    assert await redis.object("encoding", KEYS.wait_requests) == "listpack"

    *_, more = await free.raw("sweep", "")
    at_once = await redis.llen(KEYS.wait_list)
    await free.limiter.sweep([USPS])

    assert (more, at_once < 150) == (1, True)
    assert set(await redis.lrange(KEYS.wait_list, 0, -1)) == set(numbers)
    assert not await redis.hexists(KEYS.wait_requests, "!relist")
