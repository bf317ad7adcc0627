"""What scripts leave out where requests are no operations, or where nothing is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from limits_bench import (
    ANSWERED,
    DEAD,
    FAST,
    KEYS,
    USPS,
    Hire,
    Worker,
    a_millisecond_goes_by,
    again_in,
    counted,
    retries_are_due,
    the_lease_ends,
)
from redis.asyncio import Redis

from limits import keys
from limits.admin.cancel import Canceller
from limits.admin.forget import Forgetter
from tracking.line import TRACKING, courier_line
from tracking.operation import State
from tracking.request import Number

OF_OPERATIONS = (
    keys.STATUS,
    keys.HISTORY,
    keys.TO_ARCHIVE,
    keys.EVENTS,
    keys.SUCCESSES,
    keys.ERRORS,
)
OF_STATISTICS = ("tracking:stats1", "tracking:stats2", keys.TALLIED_SLUGS, keys.SPANS_MADE)


async def lived(worker: Worker, redis: Redis) -> None:
    """Requests of every fate, on a line with one slot."""
    canceller = Canceller(redis, lambda _: worker.rules)
    await worker.limiter.retry(await worker.granted("N001", id="op-1"), again_in(60.0), 0)
    await retries_are_due(redis)
    first = await worker.taken()
    await worker.parked("N001", job="job-2", id="op-2")
    await worker.parked("N002", id="op-3")
    await worker.parked("N003")
    await worker.ended("N004", expires_at=1.0)
    await canceller.cancel(USPS, Number("N003"))
    await the_lease_ends(redis, first)
    await worker.limiter.sweep([courier_line(USPS)])
    for end in (DEAD, ANSWERED):
        await worker.finish(await worker.taken(), end)


async def found(redis: Redis, prefixes: tuple[str, ...]) -> set[str]:
    """What Redis holds under these names."""
    return {key for key in await redis.keys() if key.startswith(prefixes)}


async def bare(hire: Hire, *rules: str) -> Worker:
    """A worker of a line of whose kind these rules are off."""
    kind = TRACKING._replace(**dict.fromkeys(rules, False))
    return await hire(replace(FAST, concurrent=1, kind=kind))


async def test_a_line_without_operations_leaves_no_key_of_one(hire: Hire, redis: Redis) -> None:
    await lived(await bare(hire, "operations"), redis)

    assert await found(redis, OF_OPERATIONS) == set()
    assert await redis.exists(KEYS.wait_requests, KEYS.wait_inflight, KEYS.wait_list) == 0


async def test_a_line_without_operations_counts_what_happened_on_it_all_the_same(
    hire: Hire, redis: Redis
) -> None:
    await lived(await bare(hire, "operations"), redis)

    assert await counted(redis, "SUCCESS", "ERROR", "CANCELLED", "open") == (1, 1, 2, 0)
    assert await redis.smembers(keys.TALLIED_SLUGS) == {"usps"}


async def test_an_id_names_nothing_where_there_are_no_operations(hire: Hire, redis: Redis) -> None:
    worker = await bare(hire, "operations")
    await worker.finish(await worker.granted("N001", id="op-1"))
    await a_millisecond_goes_by(redis)

    call = await worker.granted("N002", id="op-1", max_age=0.0)

    assert (call.operations, call.requests) == ((), 1)


async def test_a_request_without_an_operation_is_carried_until_it_is_called(hire: Hire) -> None:
    worker = await bare(hire, "operations")
    await worker.granted("BUSY")
    await worker.parked("N001", id="op-1", expires_at=9e9)
    await worker.parked("N001", id="op-2", expires_at=9e9)
    free = await hire(replace(worker.rules, concurrent=2))

    call = await free.taken()

    assert (call.request.number, call.requests, call.operations) == ("N001", 2, ())


async def test_a_line_that_is_not_counted_enters_no_statistics(hire: Hire, redis: Redis) -> None:
    worker = await bare(hire, "counted")
    await lived(worker, redis)

    assert await found(redis, OF_STATISTICS) == set()


async def test_a_line_that_is_not_counted_writes_no_history_and_marks_nothing_forgotten(
    hire: Hire, redis: Redis
) -> None:
    worker = await bare(hire, "counted")
    await lived(worker, redis)
    await worker.granted("N005")
    forgotten = await Forgetter(redis, lambda _: worker.rules).forget(USPS, Number("N005"))

    assert (forgotten.ended, len(forgotten.calls)) == (1, 1)
    assert await found(redis, (keys.HISTORY, keys.FORGOTTEN)) == set()


async def test_ends_of_operations_that_are_not_counted_are_ends_all_the_same(
    hire: Hire, redis: Redis
) -> None:
    await lived(await bare(hire, "counted"), redis)

    assert await redis.mget(keys.SUCCESSES, keys.ERRORS) == ["1", "2"]
    assert await redis.zscore(keys.TO_ARCHIVE, "op-3")
    assert await redis.xlen(keys.EVENTS) == await redis.zcard(keys.TO_ARCHIVE)


@pytest.mark.parametrize("rules", [(), ("operations",), ("counted",), ("operations", "counted")])
async def test_limits_and_order_are_the_same_by_whatever_rules(
    hire: Hire, redis: Redis, rules: tuple[str, ...]
) -> None:
    worker = await bare(hire, *rules)
    running = await worker.granted("N001")
    for number in ("N002", "N003"):
        assert (await worker.parked(number)).why in {"concurrency", "queue"}

    turn = await worker.finish(running, ANSWERED, 5)

    assert [call.request.number for call in turn.calls] == ["N002"]
    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N003"]


@pytest.mark.parametrize("runs", [True, False])
async def test_where_nothing_is_merged_a_second_operation_changes_nothing_either(
    hire: Hire, redis: Redis, *, runs: bool
) -> None:
    worker = await bare(hire, "merges", "operations")
    await worker.granted("N001" if runs else "BUSY")
    if not runs:
        await worker.parked("N001", job="job-1")
    before = [await redis.hgetall(name) for name in (KEYS.wait_requests, KEYS.wait_inflight)]

    assert (await worker.parked("N001", id="op-9")).why == "known"

    after = [await redis.hgetall(name) for name in (KEYS.wait_requests, KEYS.wait_inflight)]
    assert after == before


async def test_a_job_that_comes_back_after_its_end_is_a_new_call_where_nothing_is_noted(
    hire: Hire,
) -> None:
    worker = await bare(hire, "operations", "remembers")
    await worker.finish(await worker.granted("N001", job="job-1"))

    assert await worker.granted("N001", job="job-1")


async def test_a_job_that_comes_back_after_its_end_is_known_where_ends_are_noted(
    hire: Hire,
) -> None:
    worker = await bare(hire, "remembers")
    await worker.finish(await worker.granted("N001", job="job-1"))

    assert await worker.ended("N001", job="job-1") is State.SUCCESS
