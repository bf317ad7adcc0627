"""Of what a job costs Redis, commands are what can be counted exactly."""

from __future__ import annotations

import pytest
from limits_bench import Worker
from redis.asyncio import Redis


async def commands(redis: Redis) -> dict[str, int]:
    told = await redis.info("commandstats")
    ours = {"cmdstat_info", "cmdstat_evalsha", "cmdstat_script|load"}
    return {name: each["calls"] for name, each in told.items() if name not in ours}


@pytest.mark.parametrize(("identity", "most"), [(None, 43), ("op-1", 45)])
async def test_a_job_that_meets_nobody_costs_few_commands(
    worker: Worker, redis: Redis, identity: str | None, most: int
) -> None:
    await worker.finish(await worker.granted("N000"))
    before = await commands(redis)

    await worker.finish(await worker.granted("N001", id=identity))

    after = await commands(redis)
    spent = {name: n - before.get(name, 0) for name, n in after.items() if n > before.get(name, 0)}
    assert sum(spent.values()) <= most, spent
