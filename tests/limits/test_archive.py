"""Ended operations: what is given to the archive (lua/archive.lua), and what their end tells."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from limits_bench import ANSWERED, KEYS, NO_PLACES, Worker, retries_are_due, status
from redis.asyncio import Redis

from limits.admin.operations import own_attempts
from limits.archive import BRIEF_MS, DAY_MS, REPORTS_MS, WORKS_MS, Archived, Ended, ToArchive
from limits.keys import ARCHIVE_LOCKS, TO_ARCHIVE
from limits.pipeline import unconfirmed
from tracking.call import Attempt, Setback
from tracking.request import Origin

LOCK1, LOCK2 = ARCHIVE_LOCKS
AT_ONCE = 100
AT = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
MARK_MOST = 600
"""Bytes of one operation that waits to be archived: its status, and its entry in the set."""

TABLE_BYTES = 16
"""Of Redis' table of keys, for one key; MEMORY USAGE does not count them."""

Hire = Callable[[str], ToArchive]


@pytest.fixture
def archivers(redis: Redis) -> Hire:
    return lambda who: ToArchive(unconfirmed(redis), who)


@pytest.fixture
async def first(archivers: Hire) -> ToArchive:
    return archivers("first")


@pytest.fixture
async def second(archivers: Hire) -> ToArchive:
    return archivers("second")


async def given(archiver: ToArchive, *reported: Archived, most: int = AT_ONCE) -> Sequence[Ended]:
    work = await archiver.ask(reported, most)
    assert not isinstance(work, float), work
    return work


async def refused(archiver: ToArchive, *reported: Archived) -> float:
    """For how many seconds it must wait."""
    seconds = await archiver.ask(reported, AT_ONCE)
    assert isinstance(seconds, float), seconds
    return seconds


def archived(each: Ended, keep_ms: int | None = DAY_MS) -> Archived:
    return Archived(each, keep_ms)


async def ended(worker: Worker, *ids: str) -> None:
    for each in ids:
        await worker.finish(await worker.granted(f"N{each}", id=each))


async def waits(redis: Redis) -> list[str]:
    return [str(each) for each in await redis.zrange(TO_ARCHIVE, 0, -1)]


async def test_what_ended_stands_in_the_set_and_its_status_has_no_end(
    worker: Worker, redis: Redis
) -> None:
    await ended(worker, "op-1")
    await worker.granted("N002", id="runs")
    await worker.parked("N002", id="waits")
    await worker.raw("cancel", "N002", "waits", NO_PLACES)

    assert await waits(redis) == ["op-1", "waits"]
    assert await redis.ttl(f"{KEYS.status}op-1") == -1


async def test_it_is_given_to_one_archiver_the_oldest_first_until_all_is_reported(
    worker: Worker, redis: Redis, first: ToArchive
) -> None:
    await ended(worker, "op-3", "op-2", "op-1")
    await redis.zadd(TO_ARCHIVE, {"op-3": 1_000, "op-2": 2_000})

    some = await given(first, most=2)
    others = await given(first, *map(archived, some), most=2)

    assert [(each.id, each.at_ms) for each in some] == [("op-3", 1_000), ("op-2", 2_000)]
    assert json.loads(some[0].status or "")["tracking"] == "usps:Nop-3"
    assert [each.id for each in others] == ["op-1"]
    assert await given(first, *map(archived, others)) == []
    assert await waits(redis) == []


@pytest.mark.parametrize("keep_ms", [DAY_MS, BRIEF_MS])
async def test_confirming_sets_the_end_of_a_status_that_long_after_the_operations_own(
    worker: Worker, redis: Redis, first: ToArchive, keep_ms: int
) -> None:
    await ended(worker, "op-1")
    earlier = (await given(first))[0].at_ms - 600_000
    await redis.zadd(TO_ARCHIVE, {"op-1": earlier})

    await given(first, Archived(Ended("op-1", earlier, None), keep_ms))

    left = await redis.pexpiretime(f"{KEYS.status}op-1")
    assert left == earlier + keep_ms
    assert await waits(redis) == []


async def test_nobody_else_is_given_work_while_one_has_it(
    worker: Worker, redis: Redis, first: ToArchive, second: ToArchive
) -> None:
    await ended(worker, "op-1")
    await given(first)

    seconds = await refused(second)

    assert WORKS_MS / 1000 < seconds <= REPORTS_MS / 1000
    assert 0 < await redis.pttl(LOCK1) <= WORKS_MS
    assert 0 < await redis.pttl(LOCK2) <= REPORTS_MS


async def test_in_the_grace_the_last_one_may_still_report_and_nobody_is_given_work(
    worker: Worker, redis: Redis, first: ToArchive, second: ToArchive
) -> None:
    await ended(worker, "op-1", "op-2")
    (each,) = await given(first, most=1)
    await redis.delete(LOCK1)  # its time is over

    assert await refused(second) > 0
    assert await refused(first, archived(each)) == WORKS_MS / 1000

    assert await waits(redis) == ["op-2"]
    assert [each.id for each in await given(second)] == ["op-2"]


async def test_after_the_grace_the_next_one_is_given_the_same_and_the_last_ones_word_is_not_taken(
    worker: Worker, redis: Redis, first: ToArchive, second: ToArchive
) -> None:
    await ended(worker, "op-1")
    work = await given(first)
    await redis.delete(LOCK1, LOCK2)  # the first one has vanished

    assert await given(second) == work
    await refused(first, *map(archived, work))

    assert await waits(redis) == ["op-1"]
    assert await given(second, *map(archived, work)) == []


async def test_an_operation_that_ended_once_more_is_not_confirmed_by_the_first_report(
    worker: Worker, redis: Redis, first: ToArchive
) -> None:
    await ended(worker, "op-1")
    work = await given(first)
    await redis.zadd(TO_ARCHIVE, {"op-1": work[0].at_ms + 1})

    again = await given(first, *map(archived, work))

    assert [each.at_ms for each in again] == [work[0].at_ms + 1]
    assert await redis.ttl(f"{KEYS.status}op-1") == -1


async def test_a_status_that_somebody_deleted_or_that_has_not_ended_is_given_up(
    worker: Worker, redis: Redis, first: ToArchive
) -> None:
    await ended(worker, "op-1")
    await worker.granted("N002", id="runs")
    await redis.delete(f"{KEYS.status}op-1")
    await redis.zadd(TO_ARCHIVE, {"runs": 1})

    work = await given(first)
    await given(first, *(archived(each, None) for each in work))

    assert {each.id: each.status is None for each in work} == {"runs": False, "op-1": True}
    assert await waits(redis) == []
    assert await redis.ttl(f"{KEYS.status}runs") == -1


async def test_a_full_redis_lets_what_ended_be_archived(
    worker: Worker, redis: Redis, first: ToArchive
) -> None:
    await ended(worker, "op-1")
    before = await redis.config_get("maxmemory")
    await redis.config_set("maxmemory", 1)
    try:
        work = await given(first)
        await given(first, *map(archived, work))
    finally:
        await redis.config_set("maxmemory", before["maxmemory"])

    assert await waits(redis) == []


async def told(redis: Redis, operation: str) -> dict[str, Any]:
    found = await status(redis, operation)
    assert found is not None
    return found


async def test_who_has_no_id_or_is_automatic_is_told_by_the_end(
    worker: Worker, redis: Redis
) -> None:
    await worker.finish(await worker.granted("N001", job="job-1"))
    await worker.finish(await worker.granted("N002", job="job-2", origin=Origin.AUTOMATIC))
    await worker.finish(await worker.granted("N003", id="op-3", origin=Origin.AUTOMATIC))
    await worker.finish(await worker.granted("N004", id="op-4"))

    names = ["usps:N001:job-1", "usps:N002:job-2", "op-3", "op-4"]
    ends = [await told(redis, each) for each in names]
    assert [(each.get("anonymous"), each.get("auto")) for each in ends] == [
        (True, None),
        (True, True),
        (None, True),
        (None, None),
    ]


async def test_an_ended_operation_takes_no_more_memory_than_promised_until_it_is_archived(
    worker: Worker, redis: Redis
) -> None:
    output = {"tag": "InTransit", "subtag": "InTransit_003", "delivered": False, "checkpoints": 12}
    attempt = Attempt(AT, "answered", 212, 200)
    verdict = ANSWERED._replace(output=output, attempt=attempt)
    many = 400

    async def one(n: int) -> None:
        number = f"94001111{n:014}"
        call = await worker.granted(number, id=f"0f8fad5b-d9cb-469f-a165-{n:012}")
        await worker.finish(call, verdict)

    for begin in range(0, many, 20):
        await asyncio.gather(*map(one, range(begin, begin + 20)))
    keys = await redis.keys(f"{KEYS.status}*")
    assert len(keys) == many
    # Asked key by key: the memory of the server as a whole holds its clients' buffers, too.
    taken = [await redis.memory_usage(key, samples=0) for key in (*keys, TO_ARCHIVE)]
    assert 300 < sum(taken) / many + TABLE_BYTES <= MARK_MOST


async def test_an_end_tells_of_all_calls_that_were_made_for_its_number(
    worker: Worker, redis: Redis
) -> None:
    down = Attempt(AT, "courier_down", 1_200, 503)
    call = await worker.granted("N001", id="op-1")
    granted_ms = [call.granted_us // 1000]
    for attempt in (down, None):
        await worker.limiter.retry(call, Setback("courier_down", 0.0, attempt=attempt), 0)
        await retries_are_due(redis)
        call = await worker.taken()
    granted_ms.append(call.granted_us // 1000)

    answered = Attempt(AT, "answered", 80)
    await worker.finish(call, ANSWERED._replace(attempt=answered))

    attempts = (await told(redis, "op-1"))["attempts"]
    assert attempts == [
        [granted_ms[0], "courier_down", 503, 1_200],
        [granted_ms[1], "answered", None, 80],
    ]


async def test_the_newest_ten_calls_are_told_of(worker: Worker, redis: Redis) -> None:
    call = await worker.granted("N001", id="op-1")
    for ms in range(12):
        attempt = Attempt(AT, "courier_down", ms)
        await worker.limiter.retry(call, Setback("courier_down", 0.0, attempt=attempt), 0)
        await retries_are_due(redis)
        call = await worker.taken()
    await worker.finish(call, ANSWERED._replace(attempt=Attempt(AT, "answered", 12)))

    attempts = (await told(redis, "op-1"))["attempts"]
    assert [ms for _, _, _, ms in attempts] == list(range(3, 13))


async def test_many_that_end_with_one_call_all_tell_of_it_once(
    worker: Worker, redis: Redis
) -> None:
    """More than one script ends them."""
    call = await worker.granted("N001")
    await worker.limiter.retry(
        call, Setback("courier_down", 0.0, attempt=Attempt(AT, "courier_down", 5)), 0
    )
    for n in range(250):
        await worker.parked("N001", id=f"op-{n}")
    await retries_are_due(redis)
    attempt = Attempt(AT, "answered", 7, 200)

    await worker.finish(await worker.taken(), ANSWERED._replace(attempt=attempt))

    for n in (0, 249):
        attempts = (await told(redis, f"op-{n}"))["attempts"]
        assert [outcome for _, outcome, *_ in attempts] == ["courier_down", "answered"]


def test_an_operation_is_not_shown_the_calls_of_before_its_admission() -> None:
    """But for the one that answered it: that may have run already."""
    made = [(1_000, "courier_down", 503, 5), (2_000, "courier_down", None, 6)]
    made.append((3_000, "answered", 200, 7))

    def ms_of(admitted_ms: int, *, anonymous: bool = False) -> list[int]:
        return [each["ms"] for each in own_attempts(made, admitted_ms, anonymous=anonymous)]

    assert ms_of(999) == ms_of(1_000) == ms_of(9_000, anonymous=True) == [5, 6, 7]
    assert (ms_of(1_001), ms_of(9_000)) == ([6, 7], [7])
    assert own_attempts([], 0, anonymous=False) == []
    (last,) = own_attempts(made[2:], 0, anonymous=False)
    assert last == {
        "at": "1970-01-01T00:00:03.000Z",
        "outcome": "answered",
        "http_status": 200,
        "ms": 7,
    }
