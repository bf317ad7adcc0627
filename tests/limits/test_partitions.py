"""Three Redis servers under Sentinels, cut in two: nobody calls on both sides."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from limits_bench import FAST, Hire, Worker, until
from redis.asyncio import Redis
from test_sentinels import address_of

from devstack.sentinels import Watched, cut_off
from devstack.sentinels import watched as running_watched
from limits.connect import open_redis, watched_priorities
from limits.replicas import confirmations
from service.preflight.judgement import Grade, judge_redis
from service.preflight.probe import read_redis
from tracking.call import Granted
from tracking.errors import LimitsDown


@pytest.fixture
def three() -> Iterator[Watched]:
    with running_watched(replicas=2) as found:
        yield found


async def granted(worker: Worker, number: str) -> bool:
    with suppress(LimitsDown):
        return isinstance(await worker.admit(number), Granted)
    return False


@pytest.mark.prove
async def test_of_two_sides_of_a_partition_only_the_one_with_most_servers_calls(
    three: Watched, hire: Hire
) -> None:
    address = address_of(three)
    old = await hire(replace(FAST, concurrent=2), address=address, watched=True, quiet_seconds=0.0)
    assert await granted(old, "N001")
    first, second, third = three.servers
    cut_off(three, (first, second))
    await asyncio.to_thread(three.await_promotion, third)

    promoted = Redis.from_url(third.url)
    assert (await promoted.info("replication"))["role"] == "master"
    await promoted.aclose()
    on_the_old_side = [await granted(old, f"O{n}") for n in range(3)]
    with pytest.raises(LimitsDown, match="too few replicas"):
        await hire(replace(FAST, concurrent=2), address=address, watched=True, quiet_seconds=0.0)

    assert on_the_old_side == [True, False, False], "it has most servers, and goes on"


@pytest.mark.prove
async def test_a_preferred_replica_is_found(three: Watched) -> None:
    async with open_redis(address_of(three)) as client:
        assert await watched_priorities(client) == [100, 100]
        assert await confirmations(client) == 1
        assert Grade.LOSES not in {each.grade for each in judge_redis(await read_redis(client))}

        async with Redis.from_url(three.other(three.primary()).url) as admin:
            await admin.config_set("replica-priority", 10)

        async def is_refused() -> bool:
            found = judge_redis(await read_redis(client))
            return "has servers of different replica-priority (10, 100)" in {
                each.what for each in found if each.grade is Grade.LOSES
            }

        await until(is_refused)
