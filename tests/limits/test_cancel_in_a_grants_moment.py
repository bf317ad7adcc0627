"""A request may come in the very millisecond in which its number began to run."""

from __future__ import annotations

import json

from limits_bench import KEYS, NO_PLACES, Worker
from redis.asyncio import Redis


async def test_who_came_in_the_millisecond_of_a_grant_and_after_it_waits_and_can_be_cancelled(
    worker: Worker, redis: Redis
) -> None:
    _, _, call = await worker.raw_admit("b")
    await worker.raw_admit("c", id="op-1")
    waiting = json.loads(str(await redis.get(f"{KEYS.status}op-1")))
    waiting["at"] = int(call[2]) // 1000
    await redis.set(f"{KEYS.status}op-1", json.dumps(waiting))

    _, word, *_ = await worker.raw("cancel", "N001", "op-1", NO_PLACES)

    assert word == "cancelled"
