"""The script that belongs to no slug and that a sweep begins with: which slugs have work."""

from __future__ import annotations

from limits_bench import KEYS, USPS, Worker
from redis.asyncio import Redis


async def test_survey_names_each_slug_with_work_once(worker: Worker, redis: Redis) -> None:
    await worker.granted()
    await redis.rpush(KEYS.wait_list, "N002")
    await redis.rpush("wait_list_automatic:dpd-uk", "N003")

    found = await worker.pipeline.run("survey", [KEYS.lines], [f"{USPS} dpd-uk gls"])

    assert sorted(found) == ["dpd-uk", USPS]
