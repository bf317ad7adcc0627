"""Longer spans are sums of shorter ones (lua/add_up.lua), however many processes make them."""

from __future__ import annotations

from typing import Any

import pytest
from limits_bench import Worker, redis_us
from redis.asyncio import Redis

from limits import keys
from limits.admin.statistics import DAY, TEN_MINUTES, Tallies
from limits.pipeline import Pipeline
from tracking.request import Slug
from tracking.tally import tally_of

SLUGS = ("usps", "dpd-uk")
FIELDS = {"SUCCESS 100 250": 3, "repeated - 1000": 1}


@pytest.fixture
async def tallies(redis: Redis) -> Tallies:
    return Tallies(redis)


async def now(redis: Redis, span: int) -> int:
    seconds = await redis_us(redis) // 1_000_000
    return seconds - seconds % span


async def happens(redis: Redis, slug: str, at: int, times: int = 3) -> None:
    """Something happened in these 10 minutes, as scripts count it."""
    await redis.sadd(keys.TALLIED_SLUGS, slug)
    for field, each in FIELDS.items():
        await redis.hincrby(keys.ten_minutes(at, slug), field, each * times)


async def successes(redis: Redis, name: str) -> int:
    return tally_of([await redis.hgetall(name)]).counts["SUCCESS"]


async def test_the_ten_minutes_of_all_are_those_of_each_slug(
    worker: Worker, redis: Redis, tallies: Tallies
) -> None:
    for slug in SLUGS:
        await worker.finish(await worker.granted("N001", slug=Slug(slug)))
    at = await now(redis, TEN_MINUTES)

    await tallies.make_spans()
    await tallies.make_spans()

    assert await successes(redis, keys.ten_minutes(at)) == 2
    assert 0 < await redis.ttl(keys.ten_minutes(at)) <= 7 * DAY


async def test_days_are_the_ten_minutes_of_a_slug_and_of_all(
    redis: Redis, tallies: Tallies
) -> None:
    today = await now(redis, DAY)
    await redis.set(keys.SPANS_MADE, today - DAY)
    for at in (today - DAY, today - TEN_MINUTES, today):
        for slug in SLUGS:
            await happens(redis, slug, at)

    made = await tallies.make_spans()

    told = {(each.at, each.slug): each.tally.counts["SUCCESS"] for each in made.days}
    assert told[today - DAY, "usps"] == told[today - DAY, "dpd-uk"] == 18
    assert (told[today - DAY, ""], told[today, ""], told[today, "usps"]) == (36, 18, 9)
    for (at, slug), times in told.items():
        assert await successes(redis, keys.day(at, slug)) == times
    assert 7 * DAY < await redis.ttl(keys.day(today, "usps")) <= 8 * DAY


async def test_the_first_spans_are_those_in_which_something_was_counted(
    worker: Worker, redis: Redis, tallies: Tallies
) -> None:
    """A week of nothing, for each of 1,200 couriers, would take Redis two million commands."""
    begun = await now(redis, TEN_MINUTES)
    await worker.finish(await worker.granted("N001"))
    first = int(await redis.get(keys.SPANS_MADE))
    await redis.config_resetstat()

    await tallies.make_spans()

    assert begun - TEN_MINUTES <= first <= await now(redis, TEN_MINUTES) - TEN_MINUTES
    asked = (await redis.info("commandstats"))["cmdstat_hgetall"]["calls"]
    assert asked <= 2 * 2 * (DAY // TEN_MINUTES) + 10, "of today, and of yesterday at midnight"


async def test_jobs_that_were_no_requests_begin_the_spans_as_well(
    redis: Redis, tallies: Tallies
) -> None:
    begun = await now(redis, TEN_MINUTES)

    await tallies.count_malformed(1)

    first = int(await redis.get(keys.SPANS_MADE))
    assert begun - TEN_MINUTES <= first <= await now(redis, TEN_MINUTES) - TEN_MINUTES


async def test_what_is_counted_later_changes_nothing_of_where_spans_begin(
    worker: Worker, redis: Redis
) -> None:
    await redis.set(keys.SPANS_MADE, 600)

    await worker.finish(await worker.granted("N001"))

    assert await redis.get(keys.SPANS_MADE) == "600"


async def test_where_none_was_made_all_that_was_counted_is(redis: Redis, tallies: Tallies) -> None:
    """All workers may stop within the first minute of a Redis, and start again days later."""
    today = await now(redis, DAY)
    await happens(redis, "usps", today - 2 * DAY)

    made = await tallies.make_spans()

    told = {(each.at, each.slug): each.tally.counts["SUCCESS"] for each in made.days}
    assert told[today - 2 * DAY, "usps"] == told[today - 2 * DAY, ""] == 9
    assert await successes(redis, keys.ten_minutes(today - 2 * DAY)) == 9


async def test_what_was_kept_is_not_made_again_until_the_next_ten_minutes(
    redis: Redis, tallies: Tallies
) -> None:
    at = await now(redis, TEN_MINUTES)
    await happens(redis, "usps", at - TEN_MINUTES)
    await redis.set(keys.SPANS_MADE, at - TEN_MINUTES)
    await tallies.kept(await tallies.make_spans())

    assert (await tallies.make_spans()).days == ()

    # Somebody counted until the very end of the span, after it was made the last time.
    await happens(redis, "usps", at - TEN_MINUTES)
    await redis.decrby(keys.SPANS_MADE, TEN_MINUTES)
    (await tallies.make_spans())
    assert await successes(redis, keys.ten_minutes(at - TEN_MINUTES)) == 18


async def test_what_was_not_kept_is_made_again(redis: Redis, tallies: Tallies) -> None:
    await happens(redis, "usps", await now(redis, TEN_MINUTES))

    days = (await tallies.make_spans()).days

    assert (await tallies.make_spans()).days == days != ()


async def test_a_sum_does_not_shrink_when_its_parts_are_gone(
    redis: Redis, tallies: Tallies
) -> None:
    # Not of today, which may just have begun.
    yesterday = await now(redis, DAY) - DAY
    await happens(redis, "usps", yesterday)
    await happens(redis, "usps", yesterday + TEN_MINUTES)
    await tallies.make_spans()
    await redis.delete(keys.ten_minutes(yesterday, "usps"))

    await tallies.make_spans()

    assert await successes(redis, keys.day(yesterday, "usps")) == 18


async def test_jobs_that_were_no_requests_are_of_all_slugs(redis: Redis, tallies: Tallies) -> None:
    today = await now(redis, DAY)
    at = await now(redis, TEN_MINUTES)
    await happens(redis, "usps", at)

    await tallies.count_malformed(2)
    await tallies.count_malformed(1)
    made = await tallies.make_spans()

    assert await redis.hget(keys.ten_minutes(at), "malformed") == "3"
    assert await redis.hget(keys.day(today), "malformed") == "3"
    assert {each.tally.counts["malformed"] for each in made.days if each.slug} == {0}
    short = await redis.keys("tracking:stats1:*")
    assert [await redis.hgetall(name) for name in short] == [{"malformed": "3"}]
    assert 0 < await redis.ttl(short[0]) <= 3_600


async def test_scripts_of_spans_answer_with_the_time_and_the_sums(
    worker: Worker, redis: Redis
) -> None:
    before = await redis_us(redis)
    await redis.hset("part", mapping={"SUCCESS 100 -": 2, "full": 1})
    await redis.hset("other", mapping={"SUCCESS 100 -": 3})

    at, *sums = await worker.pipeline.run("add_up", ["whole", "part", "other", "none"], [60_000])
    (counted_at,) = await worker.pipeline.run("malformed", [], [1])

    assert before <= at <= counted_at <= await redis_us(redis)
    assert dict(zip(sums[::2], sums[1::2], strict=True)) == {"SUCCESS 100 -": 5, "full": 1}
    assert await redis.hgetall("whole") == {"SUCCESS 100 -": "5", "full": "1"}
    assert 0 < await redis.pttl("whole") <= 60_000


async def test_nothing_is_made_where_nothing_happened(redis: Redis, tallies: Tallies) -> None:
    assert (await tallies.make_spans()).days == ()
    assert await redis.keys("*") == []


async def test_spans_are_read_as_they_are_asked_for(redis: Redis, tallies: Tallies) -> None:
    await happens(redis, "usps", 0)

    nothing, found = await tallies.read(
        [keys.ten_minutes(600, "usps"), keys.ten_minutes(0, "usps")]
    )

    assert nothing == tally_of([])
    assert (found.operations, found.calls, found.counts["repeated"]) == (9, 12, 3)


async def test_many_parts_are_added_up_in_portions(
    redis: Redis, tallies: Tallies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of 1,200 couriers would hold Redis up for 20 ms."""
    monkeypatch.setattr("limits.admin.statistics.ADDED_AT_ONCE", 2)
    at = await now(redis, TEN_MINUTES)
    for n in range(5):
        await happens(redis, f"slug-{n}", at)
    await redis.hset(keys.ten_minutes(at), "malformed", 4)

    await tallies.make_spans()
    await tallies.make_spans()

    assert await successes(redis, keys.ten_minutes(at)) == 5 * 9
    assert await redis.hget(keys.ten_minutes(at), "malformed") == "4"
    assert 0 < await redis.ttl(keys.ten_minutes(at)) <= 7 * DAY


async def test_sums_of_a_portion_are_only_told(worker: Worker, redis: Redis) -> None:
    await redis.hset("part", "full", 2)

    _, *sums = await worker.pipeline.run("add_up", ["whole", "part"], [0, "full", 3, "SUCCESS", 1])

    assert dict(zip(sums[::2], sums[1::2], strict=True)) == {"full": 5, "SUCCESS": 1}
    assert await redis.exists("whole") == 0


async def test_spans_are_made_by_one_script_at_a_time(
    redis: Redis, tallies: Tallies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many in one pipeline would hold up all others who ask Redis."""
    await happens(redis, "usps", await now(redis, DAY) - 2 * DAY)
    asked, at_once = Pipeline.run, [0, 0]

    async def run(pipeline: Pipeline, *args: Any) -> Any:
        at_once[0] += 1
        at_once[1] = max(at_once)
        reply = await asked(pipeline, *args)
        at_once[0] -= 1
        return reply

    monkeypatch.setattr(Pipeline, "run", run)
    await tallies.make_spans()

    assert at_once == [0, 1]
