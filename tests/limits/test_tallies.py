"""What scripts count (lua/lib/state.lua), quantiles of it, and the defects over a job."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from dataclasses import replace
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st
from limits_bench import (
    DEAD,
    FAST,
    KEYS,
    NO_PLACES,
    Hire,
    Worker,
    again_in,
    redis_us,
    the_lease_ends,
    verdict,
)
from redis.asyncio import Redis

from limits import keys
from limits.connect import open_redis
from limits.jobs import DEFECTS_KEPT_SECONDS, Defects
from limits.server import RedisAddress
from tracking.call import Call, Full, IdConflict, Parked
from tracking.errors import LimitsDown
from tracking.request import Slug
from tracking.tally import BOUNDS_MS, MORE, Histogram, Tally, tally_of

SCRIPT = (files("limits") / "lua/lib/state.lua").read_text()


SOON = re.compile(r"\b(100|250|500|1000|2500)\b")
"""A busy machine may be so late."""


async def fields(redis: Redis, prefix: str = "tracking:stats2:usps:") -> dict[str, int]:
    """What was counted, however soon it came, in all hashes: a span may just have ended."""
    found = Counter[str]()
    for name in await redis.keys(f"{prefix}[0-9]*"):
        for what, times in (await redis.hgetall(name)).items():
            found[SOON.sub("soon", what)] += int(times)
    return dict(found)


async def tallied(redis: Redis, slug: str = "usps") -> Tally:
    names = await redis.keys(f"tracking:stats2:{slug}:*")
    return tally_of([await redis.hgetall(name) for name in names])


async def began(redis: Redis, call: Call, seconds: float) -> None:
    """The call began so long ago."""
    inflight = keys.of_line(call.line).wait_inflight
    at = await redis_us(redis) - round(seconds * 1_000_000)
    record = json.loads(await redis.hget(inflight, call.id) or "")
    await redis.hset(inflight, call.id, json.dumps(record | {"at": str(at)}))


async def waits_since(redis: Redis, operation: str, seconds: float) -> None:
    """The operation was admitted so long ago."""
    name = keys.status(operation)
    told = json.loads(await redis.get(name))
    told["at"] = await redis_us(redis) // 1000 - round(seconds * 1000)
    await redis.set(name, json.dumps(told))


async def test_an_operation_counts_once_whatever_comes_again(worker: Worker, redis: Redis) -> None:
    call = await worker.granted("N001", id="op-1", job="job-1")
    await worker.finish(call)
    await worker.finish(call)
    await worker.ended("N001", id="op-1", job="job-1")
    await worker.finish(await worker.granted("N002", id="op-2"), DEAD)

    once = {"SUCCESS soon soon": 1, "ERROR soon soon": 1}
    assert await fields(redis) == once
    assert await fields(redis, "tracking:stats1:") == once
    assert await redis.mget(keys.SUCCESSES, keys.ERRORS) == ["1", "1"]
    assert await redis.smembers(keys.TALLIED_SLUGS) == {"usps"}


async def test_what_is_counted_ends_by_itself_but_for_the_totals(
    worker: Worker, redis: Redis
) -> None:
    now = await redis_us(redis) // 1_000_000

    await worker.finish(await worker.granted("N001"))

    spans = {name: await redis.ttl(name) for name in await redis.keys("tracking:stats[12]:*")}
    assert {name.rpartition(":")[0]: left > 0 for name, left in spans.items()} == {
        "tracking:stats1": True,
        "tracking:stats2:usps": True,
    }
    for name, left in spans.items():
        most = 3_600 if name.startswith("tracking:stats1") else 604_800
        assert most - 60 < left <= most
        assert int(name.rpartition(":")[2]) % (10 if most == 3_600 else 600) == 0
        assert abs(int(name.rpartition(":")[2]) - now) <= 610
    assert await redis.ttl(keys.SUCCESSES) == await redis.ttl(keys.TALLIED_SLUGS) == -1


async def test_how_long_it_waited_and_how_long_its_call_took_are_counted(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await busy.parked("N001", id="op-1")
    await waits_since(redis, "op-1", 7.0)
    call = await free.taken()
    await began(redis, call, 3.5)

    await free.finish(call)

    assert await fields(redis) == {"SUCCESS 10000 5000": 1}


async def test_an_end_without_a_call_counts_its_waiting_and_no_call(
    busy: Worker, redis: Redis
) -> None:
    await busy.parked("N001", id="op-1")
    await waits_since(redis, "op-1", 100_000.0)

    await busy.raw("cancel", "N001", "op-1", NO_PLACES)

    found = await tallied(redis)
    assert (found.operations, found.calls) == (1, 0)
    assert await fields(redis) == {"CANCELLED more -": 1}
    assert await redis.mget(keys.SUCCESSES, keys.ERRORS) == [None, None]


async def test_a_call_that_ends_many_operations_is_one_call(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    for n in range(120):
        await busy.parked("N001", id=f"op-{n}")
    call = await free.taken()

    await free.finish(call)

    found = await tallied(redis)
    assert (found.operations, found.calls, found.waited.counts.total()) == (120, 1, 120)


async def test_requests_that_merged_are_counted_beside_their_operation(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    for n in range(3):
        await busy.parked("N001", job=f"job-{n}")

    await free.finish(await free.taken())

    found = await tallied(redis)
    assert (found.operations, found.counts["merged"]) == (1, 2)


async def test_calls_that_end_no_operation_are_counted_by_why(worker: Worker, redis: Redis) -> None:
    call = await worker.granted("N001", id="op-1", job="job-1")
    call = await worker.granted("N001", id="op-1", job="job-1")
    await the_lease_ends(redis, call)
    await worker.raw("sweep", "s")
    call = await worker.taken()
    await call.permit.before_send()
    (call,) = (await worker.limiter.hand_back([call], 1)).calls
    (call,) = (await worker.limiter.retry(call, again_in(0.0), 1)).calls
    assert await worker.limiter.hand_back([call], 0), "nothing was sent, so it was no call"

    found = await tallied(redis)
    assert found.counts == {"lost": 2, "handed_back": 1, "repeated": 1}
    assert (found.calls, found.operations) == (4, 0)


async def test_a_call_whose_operations_had_all_ended_is_counted(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted("N001", id="op-1")
    await worker.raw("forget", "N001", 60_000, NO_PLACES)

    await worker.finish(call)

    assert await fields(redis) == {"CANCELLED soon -": 1, "idle - soon": 1}


async def test_what_is_refused_is_counted_outside_the_operations(hire: Hire, redis: Redis) -> None:
    worker = await hire(replace(FAST, concurrent=1, max_waiting=1))
    await worker.granted("N001", id="op-1")
    assert isinstance(await worker.admit("N002", id="op-2"), Parked)

    assert isinstance(await worker.admit("N003", id="op-3"), Full)
    assert isinstance(await worker.admit("N002", id="op-4"), Full)
    assert isinstance(await worker.admit("N002", id="op-1"), IdConflict)

    found = await tallied(redis)
    assert found.counts == {"full": 2, "id_reused": 1}
    assert found.operations == 0


async def test_what_one_script_does_to_many_is_written_once_for_each_slug(
    worker: Worker, redis: Redis
) -> None:
    slugs = (Slug("usps"), Slug("dpd-uk"))
    await worker.finish(await worker.granted("N000"))
    await worker.finish(await worker.granted("N000", slug=slugs[1]))
    calls = [await worker.granted(f"N{n}", slug=slugs[n % 2]) for n in range(1_000, 1_010)]
    for call in calls:
        await began(redis, call, 3.5)
    before = await redis.info("commandstats")

    await asyncio.gather(*map(worker.finish, calls))

    after = await redis.info("commandstats")
    counted = [each["cmdstat_hincrby"]["calls"] for each in (before, after)]
    assert counted[1] - counted[0] == 2 + 1
    assert [(await tallied(redis, slug)).operations for slug in slugs] == [6, 6]


async def test_a_finish_that_takes_several_scripts_counts_its_call_once(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted("N001", id="op-1")
    record = json.loads(await redis.hget(KEYS.wait_inflight, call.id) or "")
    await redis.hset(KEYS.wait_inflight, call.id, json.dumps(record | {"tallied": True}))

    await worker.raw("finish", call.id, verdict(call.granted_us // 1000), "N001", "b", 0)

    assert await fields(redis) == {"SUCCESS soon -": 1}


def test_scripts_and_readers_have_the_same_bounds() -> None:
    written = re.findall(r"\d+", SCRIPT.split("local BOUNDS = {")[1].split("}")[0])

    assert tuple(map(int, written)) == BOUNDS_MS


@pytest.mark.parametrize(
    "name",
    [keys.SUCCESSES, keys.ERRORS, keys.TALLIED_SLUGS, "tracking:stats1:", "tracking:stats2:"],
)
def test_scripts_name_what_they_count_as_we_do(name: str) -> None:
    assert f"'{name}'" in SCRIPT
    assert keys.ten_seconds(7) == "tracking:stats1:7"
    assert keys.ten_minutes(7, "usps") == "tracking:stats2:usps:7"


BOUNDS = [*map(str, BOUNDS_MS), MORE]


@pytest.mark.parametrize(
    ("counts", "share", "seconds"),
    [
        ({}, 0.5, None),
        ({"100": 10}, 0.5, 0.05),
        ({"250": 4}, 1.0, 0.25),
        ({"100": 50, "1000": 50}, 0.5, 0.1),
        ({"100": 90, "1000": 10}, 0.95, 0.75),
        ({"100": 98, "more": 2}, 0.99, 86_400.0),
    ],
)
def test_a_quantile_lies_within_its_bounds(
    counts: dict[str, int], share: float, seconds: float | None
) -> None:
    assert Histogram(Counter(counts)).quantile(share) == pytest.approx(seconds)


@given(st.dictionaries(st.sampled_from(BOUNDS), st.integers(1, 1_000), min_size=1))
def test_a_greater_share_takes_at_least_as_long(counts: dict[str, int]) -> None:
    histogram = Histogram(Counter(counts))

    found = [histogram.quantile(share) or 0.0 for share in (0.0, 0.5, 0.95, 0.99, 1.0)]

    assert found == sorted(found)
    assert found[-1] <= BOUNDS_MS[-1] / 1000


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
