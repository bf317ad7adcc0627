"""The end of an operation tells of the calls that were made for it."""

from __future__ import annotations

import datetime as dt
from typing import Any

from limits_bench import ANSWERED, Worker, retries_are_due, status
from redis.asyncio import Redis

from limits.admin.operations import own_attempts
from tracking.call import Attempt, Setback

AT = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)


async def told(redis: Redis, operation: str) -> dict[str, Any]:
    found = await status(redis, operation)
    assert found is not None
    return found


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
        call,
        Setback("courier_down", 0.0, attempt=Attempt(AT, "courier_down", 5)),
        0,
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
