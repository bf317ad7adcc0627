"""How the lines stand, read for a program that asks every few seconds."""

from __future__ import annotations

import json
from dataclasses import replace

from limits_bench import KEYS, USPS, Hire
from redis.asyncio import Redis

from limits.admin.snapshot import LINES_AT_ONCE, LineSnapshot, LineSnapshots
from limits.rules import Rules
from tracking.line import Line, courier_line
from tracking.request import Origin

RULES = Rules(per_second=2, concurrent=1)
ELSEWHERE = [courier_line(USPS), Line("fedex")]


async def read(redis: Redis, rules: Rules) -> list[LineSnapshot]:
    return await LineSnapshots(redis, lambda _: rules).busy(ELSEWHERE)


async def wait_for(redis: Redis, number: str, seconds: float) -> None:
    """Let a number have waited for so long."""
    record = json.loads(str(await redis.hget(KEYS.wait_requests, number)))
    record["since"] -= round(seconds * 1000)
    await redis.hset(KEYS.wait_requests, number, json.dumps(record))


async def test_a_line_at_rest_is_left_out_unless_it_has_a_quota(redis: Redis) -> None:
    assert await read(redis, RULES) == []
    [fedex, usps] = await read(redis, replace(RULES, per_hour=60, per_day=1_000))
    assert (usps.line, usps.hour_left, usps.day_left) == ("usps", 60, 1_000)
    assert (fedex.line, fedex.running, fedex.rate_unused) == ("fedex", 0, 0)


async def test_what_runs_waits_and_binds_is_told(redis: Redis, hire: Hire) -> None:
    worker = await hire(RULES)
    await worker.granted("BUSY")
    await worker.parked("N001")
    await worker.parked("N002", origin=Origin.AUTOMATIC)
    await redis.zadd("tracking:workers", {"a worker": 9e15})
    await wait_for(redis, "N001", 90)

    [usps] = await read(redis, RULES)

    assert (usps.running, usps.waiting) == (1, 2)
    assert (usps.waiting_manual, usps.waiting_automatic) == (1, 1)
    assert 90 <= (usps.oldest_age_seconds or 0) < 100
    assert usps.bound_by == "concurrency"
    assert usps.rate_unused == 0


async def test_the_rate_is_unused_where_somebody_waits_and_nobody_calls(
    redis: Redis, hire: Hire
) -> None:
    worker = await hire(RULES)
    call = await worker.granted("BUSY")
    await worker.parked("N001")
    await worker.finish(call)
    await wait_for(redis, "N001", 0.5)
    [just_now] = await read(redis, RULES)
    await wait_for(redis, "N001", 5)

    [usps] = await read(redis, RULES)

    assert (just_now.waiting_manual, just_now.rate_unused) == (1, 0)
    assert (usps.running, usps.waiting_manual, usps.rate_unused) == (0, 1, 1)


async def test_what_a_quota_leaves_counts_the_calls_that_were_made(
    redis: Redis, hire: Hire
) -> None:
    rules = Rules(per_second=10, per_hour=3, per_day=2)
    worker = await hire(rules)
    await worker.granted("N001")
    await worker.granted("N002")

    [_, usps] = await read(redis, rules)

    assert (usps.line, usps.hour_left, usps.day_left) == ("usps", 1, 0)


async def test_lines_beyond_one_round_trip_are_read_too(redis: Redis) -> None:
    lines = [f"courier-{index:03}" for index in range(LINES_AT_ONCE + 1)]
    await redis.sadd("wait_slugs", *lines)
    await redis.rpush(f"wait_list:{lines[-1]}", "94001")

    found = await read(redis, RULES)

    assert [each.line for each in found] == lines
    assert [each.waiting_manual for each in found] == [0] * LINES_AT_ONCE + [1]


async def test_a_line_with_a_broken_key_leaves_the_others_to_be_told(
    redis: Redis, hire: Hire
) -> None:
    worker = await hire(RULES)
    await worker.granted("N001", slug="fedex")
    await redis.sadd(KEYS.wait_list, "N001")
    await redis.sadd("wait_slugs", "usps")

    [fedex, usps] = await read(redis, RULES)

    assert (fedex.running, usps.running, usps.bound_by) == (1, 0, "broken")
