"""Of what a job costs Redis, commands are what can be counted exactly."""

from __future__ import annotations

import pytest
from limits_bench import Hire, Worker
from redis.asyncio import Redis

from limits.rules import Rules
from tracking.call import Full


async def commands(redis: Redis) -> dict[str, int]:
    told = await redis.info("commandstats")
    ours = {"cmdstat_info", "cmdstat_evalsha", "cmdstat_script|load"}
    return {name: each["calls"] for name, each in told.items() if name not in ours}


async def spent_since(before: dict[str, int], redis: Redis) -> dict[str, int]:
    after = await commands(redis)
    return {name: n - before.get(name, 0) for name, n in after.items() if n > before.get(name, 0)}


@pytest.mark.parametrize(("identity", "most"), [(None, 43), ("op-1", 45)])
async def test_a_job_that_meets_nobody_costs_few_commands(
    worker: Worker, redis: Redis, identity: str | None, most: int
) -> None:
    await worker.finish(await worker.granted("N000"))
    before = await commands(redis)

    await worker.finish(await worker.granted("N001", id=identity))

    spent = await spent_since(before, redis)
    assert sum(spent.values()) <= most, spent


async def test_a_job_that_is_refused_as_full_reads_its_state_once(hire: Hire, redis: Redis) -> None:
    worker = await hire(Rules(per_second=1, max_waiting=1))
    await worker.granted("N000")
    await worker.parked("N001")
    await worker.admit("N002", id="first")  # the first of a slug begins its statistics, too
    before = await commands(redis)

    full = await worker.admit("N003", id="full")

    spent = await spent_since(before, redis)
    assert type(full) is Full
    assert sum(spent.values()) <= 15, spent
