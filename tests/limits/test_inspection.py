"""A sweep is for slugs that it would change; all others are passed over by one quick look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import rule, run_state_machine_as_test
from limits_bench import ANSWERED, KEYS, USPS, Worker, redis_us, the_lease_ends
from redis import Redis as PlainRedis
from redis.asyncio import Redis
from sender import RULES
from test_random_walk import WALKS
from walk import SENT, Walk

from limits.keys import LINES
from limits.script_file import load
from tracking.request import Slug

EXPIRE_BY_THEMSELVES = (KEYS.sec_calls, KEYS.call_starts, KEYS.wait_list_activated)
INSPECT = load()["inspect"].text
FAR_US = 1_000_000_000

Harm = Callable[[Redis, Worker], Awaitable[Any]]


async def inspected(worker: Worker, *slugs: str) -> list[str]:
    spans = [us for _ in slugs for us in (*worker.rules.reach_us, 1)]
    lists = [f"wait_list:{slug}" for slug in slugs]
    return list(await worker.pipeline.run("inspect", lists, spans))


@pytest.fixture
async def crowd(busy: Worker) -> Worker:
    """A worker whose only slot is taken, with two that wait, and who drains them."""
    await busy.parked("N001")
    await busy.parked("N002")
    assert (await busy.take(1, claims=True)).ask_again is not None
    return busy


async def test_a_slug_that_is_drained_and_whose_calls_live_is_passed_over(crowd: Worker) -> None:
    assert await inspected(crowd, USPS) == []
    assert await crowd.limiter.sweep([USPS]) == []


async def test_a_slug_with_calls_in_flight_and_nobody_waiting_is_passed_over(
    worker: Worker,
) -> None:
    await worker.granted()

    assert await inspected(worker, USPS) == []


async def test_a_line_is_swept_until_the_last_lease_of_a_dead_worker_has_ended(
    worker: Worker, redis: Redis
) -> None:
    dead = await worker.granted("N001", job="job-1")
    await worker.finish(await worker.granted("N001", job="job-1"))

    await worker.limiter.sweep([USPS])
    assert await redis.smembers(LINES) == {USPS}

    await the_lease_ends(redis, dead)
    await worker.limiter.sweep([USPS])
    assert await redis.exists(LINES, KEYS.calls_leases, KEYS.calls_number) == 0


async def _leases_end(redis: Redis, at_us: int) -> None:
    ids = await redis.zrange(KEYS.calls_leases, 0, -1)
    await redis.zadd(KEYS.calls_leases, dict.fromkeys(ids, at_us))


async def _a_lease_ends(redis: Redis, _: Worker) -> None:
    await _leases_end(redis, 1)


async def _a_lease_is_gone(redis: Redis, _: Worker) -> None:
    await redis.delete(KEYS.calls_leases)


async def _an_old_lease_hides_that_one_is_gone(redis: Redis, _: Worker) -> None:
    await redis.delete(KEYS.calls_leases)
    await redis.zadd(KEYS.calls_leases, {"taken-over": await redis_us(redis) + 1_000_000})


async def _a_number_names_no_call(redis: Redis, _: Worker) -> None:
    await redis.hset(KEYS.wait_inflight, "=N999", "nobody")


async def _nobody_drains(redis: Redis, _: Worker) -> None:
    await redis.delete(KEYS.wait_drainer)


async def _the_flag_has_ended(redis: Redis, _: Worker) -> None:
    await redis.delete(KEYS.wait_list_activated)


async def _a_retry_is_overdue(redis: Redis, _: Worker) -> None:
    await redis.zadd(KEYS.wait_later, {"N003": 1})


async def _the_list_was_deleted(redis: Redis, _: Worker) -> None:
    await redis.delete(KEYS.wait_list)


async def _a_drainer_of_a_clock_that_was_ahead(redis: Redis, worker: Worker) -> None:
    far = await redis_us(redis) + FAR_US
    await redis.set(KEYS.wait_drainer, f"{worker.limiter.token} {far}")


async def _a_lease_of_a_clock_that_was_ahead(redis: Redis, _: Worker) -> None:
    await _leases_end(redis, await redis_us(redis) + FAR_US)


async def _a_lane_of_a_clock_that_was_ahead(redis: Redis, _: Worker) -> None:
    await redis.zadd(KEYS.call_starts, {"c": await redis_us(redis) + FAR_US})


async def _a_key_is_of_another_type(redis: Redis, _: Worker) -> None:
    await redis.delete(KEYS.wait_inflight)
    await redis.set(KEYS.wait_inflight, "text")


@pytest.mark.parametrize(
    "harm",
    [
        _a_lease_ends,
        _a_lease_is_gone,
        _an_old_lease_hides_that_one_is_gone,
        _a_number_names_no_call,
        _nobody_drains,
        _the_flag_has_ended,
        _a_retry_is_overdue,
        _the_list_was_deleted,
        _a_drainer_of_a_clock_that_was_ahead,
        _a_lease_of_a_clock_that_was_ahead,
        _a_lane_of_a_clock_that_was_ahead,
        _a_key_is_of_another_type,
    ],
    ids=lambda harm: harm.__name__.strip("_"),
)
async def test_a_slug_is_named_when(harm: Harm, crowd: Worker, redis: Redis) -> None:
    assert await inspected(crowd, USPS) == []

    await harm(redis, crowd)

    assert await inspected(crowd, "dpd-uk", USPS, "dpd-uk") == ["dpd-uk", USPS, "dpd-uk"]


async def test_a_slug_that_came_to_rest_is_named_so_that_it_leaves_the_set(
    worker: Worker, redis: Redis
) -> None:
    await worker.finish(await worker.granted(), ANSWERED)
    assert await redis.smembers(KEYS.lines) == {USPS}

    assert await inspected(worker, USPS) == [USPS]
    await worker.limiter.sweep([USPS])

    assert await redis.exists(KEYS.lines) == 0


async def test_of_many_slugs_only_the_harmed_one_is_swept(worker: Worker, redis: Redis) -> None:
    slugs = [Slug(f"courier-{number}") for number in range(450)]
    for slug in slugs:
        await worker.granted(slug=slug)
    lost = await worker.granted("LOST")
    await the_lease_ends(redis, lost)

    swept = await worker.limiter.sweep([*slugs, USPS])

    assert [(each.line, each.swept) for each in swept] == [(USPS, 1)]


class InspectedWalk(Walk):
    """A walk that looks before each sweep, as the limiter does."""

    def __init__(self, url: str, seen: Counter[bool]) -> None:
        super().__init__(url, 100)
        self.seen = seen

    @rule(sent=SENT)
    def sweep(self, sent: int) -> None:
        self.leap()
        named = self.redis.eval(INSPECT, 1, KEYS.wait_list, *RULES.reach_us, 1)
        before = values(self.redis)
        reply = self.run("sweep", self.new("s"), sent=sent)
        self.seen[bool(named)] += 1
        if not named:
            assert reply[1:] == [0, [], 0, 0]
            assert values(self.redis) == before
        for grant in reply[2]:
            self.bury(grant)


def values(redis: PlainRedis) -> dict[str, Any]:
    """Everything of the courier that does not end by itself within the second."""
    read: dict[str, Callable[[str], Any]] = {
        "string": redis.get,
        "list": lambda key: redis.lrange(key, 0, -1),
        "hash": redis.hgetall,
        "zset": lambda key: redis.zrange(key, 0, -1, withscores=True),
        "stream": redis.xrange,
        "set": redis.smembers,
    }
    names = [key for key in redis.keys("*") if key not in EXPIRE_BY_THEMSELVES]
    return {key: read[redis.type(key)](key) for key in names}


@pytest.mark.portion
def test_what_is_passed_over_on_any_walk_is_nothing_that_a_sweep_would_change(
    redis_url: str,
) -> None:
    seen: Counter[bool] = Counter()
    walks = settings(max_examples=max(5, WALKS // 5), stateful_step_count=30)

    run_state_machine_as_test(lambda: InspectedWalk(redis_url, seen), settings=walks)

    assert seen[True] > 0
    assert seen[False] > 0, "some sweeps were not needed"


async def test_of_many_lines_survey_names_those_alone_to_which_somebody_pushed_by_hand(
    worker: Worker, redis: Redis
) -> None:
    known = [f"courier-{n}" for n in range(2_000)]
    await redis.rpush("wait_list:courier-7", "N001")
    await redis.rpush("wait_list_automatic:courier-1999", "N002")

    found = await worker.pipeline.run("survey", [KEYS.lines], [" ".join(known)])

    assert found == ["courier-7", "courier-1999"]


async def test_survey_names_each_slug_with_work_once(worker: Worker, redis: Redis) -> None:
    await worker.granted()
    await redis.rpush(KEYS.wait_list, "N002")
    await redis.rpush("wait_list_automatic:dpd-uk", "N003")

    found = await worker.pipeline.run("survey", [KEYS.lines], [f"{USPS} dpd-uk gls"])

    assert sorted(found) == ["dpd-uk", USPS]
