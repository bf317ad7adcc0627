"""One call answers everyone who finds it fresh enough; it asks again for whom it does not."""

from __future__ import annotations

import asyncio
import time

import pytest
from limits_bench import (
    ANSWERED,
    DEAD,
    KEYS,
    Hire,
    Worker,
    again_in,
    counted,
    redis_us,
    state,
    they_expire,
    until,
)
from redis.asyncio import Redis

from limits.limiter import Policy
from tracking.call import Ended, Granted, Parked, Verdict
from tracking.operation import State
from tracking.request import Origin

ANSWER = f"{KEYS.answer}N001"


async def next_millisecond(redis: Redis) -> None:
    """What comes now comes after the grant, also by a clock of milliseconds."""
    granted_ms = await redis_us(redis) // 1000

    async def later() -> bool:
        return await redis_us(redis) // 1000 > granted_ms

    await until(later)


async def age_the_answer(redis: Redis, seconds: float) -> None:
    text = await redis.get(ANSWER)
    observed = int(text.split('"observed":')[1].split(",")[0])
    older = text.replace(str(observed), str(observed - round(seconds * 1000)))
    await redis.set(ANSWER, older, keepttl=True)


async def test_a_request_finds_an_answer_of_the_last_30_seconds_fresh(
    worker: Worker, redis: Redis
) -> None:
    await worker.finish(await worker.granted())

    assert await worker.ended(id="op-2") is State.SUCCESS
    assert await state(redis, "op-2") == "SUCCESS"
    assert await counted(redis, "calls", "SUCCESS") == (1, 2)


@pytest.mark.parametrize(
    ("max_age", "is_asked"), [(None, True), (0.0, True), (10.0, True), (3600.0, False)]
)
async def test_an_answer_is_fresh_for_as_long_as_the_request_says(
    worker: Worker, redis: Redis, max_age: float | None, *, is_asked: bool
) -> None:
    await worker.finish(await worker.granted())
    await age_the_answer(redis, 31)

    admission = await worker.admit(max_age=max_age)

    assert isinstance(admission, Granted) is is_asked


async def test_max_age_0_always_asks(worker: Worker, redis: Redis) -> None:
    await worker.finish(await worker.granted())
    await next_millisecond(redis)

    assert isinstance(await worker.admit(max_age=0.0), Granted)


async def test_answers_are_kept_for_the_default_max_age_but_30_seconds_to_an_hour(
    hire: Hire, redis: Redis
) -> None:
    for max_age, keep_ms in ((5.0, 30_000), (90.0, 90_000), (31_536_000.0, 3_600_000)):
        worker = await hire(policy=Policy(max_age=max_age))
        await worker.finish(await worker.granted(max_age=0.0))

        assert keep_ms - 5_000 < await redis.pttl(ANSWER) <= keep_ms
        assert worker.limiter.remembers_seconds * 1000 == keep_ms


async def test_a_stored_answer_of_months_ago_is_fresh_where_a_year_is_the_default(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(policy=Policy(max_age=31_536_000.0))
    months_ago = await redis_us(redis) // 1000 - 90 * 86_400_000
    stored = Verdict(State.SUCCESS, {"tag": "Delivered"}, observed_ms=months_ago)

    assert await worker.admit_with(stored) == Ended(State.SUCCESS)


async def test_the_default_max_age_is_a_setting(hire: Hire, redis: Redis) -> None:
    worker = await hire(policy=Policy(max_age=5.0))
    await worker.finish(await worker.granted())
    await age_the_answer(redis, 6)

    assert isinstance(await worker.admit(), Granted)


async def test_a_stored_answer_that_the_caller_found_is_judged_by_redis_clock(
    worker: Worker, redis: Redis
) -> None:
    now_ms = await redis_us(redis) // 1000
    stored = Verdict(State.SUCCESS, {"tag": "InTransit"}, observed_ms=now_ms - 60_000)

    assert await worker.admit_with(stored, id="op-1", max_age=3600.0) == Ended(State.SUCCESS)
    assert await counted(redis, "calls", "SUCCESS") == (0, 1)


@pytest.mark.parametrize("shift_ms", [-3_700_000, 60_000], ids=["too old", "of the future"])
async def test_a_stored_answer_that_does_not_fit_is_not_taken(
    worker: Worker, redis: Redis, shift_ms: int
) -> None:
    """An observation of the future is of before a step back of Redis' clock."""
    observed = await redis_us(redis) // 1000 + shift_ms
    stored = Verdict(State.SUCCESS, {}, observed_ms=observed)

    assert isinstance(await worker.admit_with(stored, max_age=3600.0), Granted)


async def test_a_dead_call_is_no_answer_for_others(worker: Worker) -> None:
    await worker.finish(await worker.granted(), DEAD)

    assert isinstance(await worker.admit(), Granted)


MISTYPED, CORRECTED = {"tracking_postal_code": "99999"}, {"tracking_postal_code": "10115"}


@pytest.mark.parametrize(
    ("fields", "is_asked"),
    [({}, False), (MISTYPED, False), (CORRECTED, True), ({**MISTYPED, "tracking_key": "k"}, True)],
    ids=["none", "the same", "another value", "one more"],
)
async def test_an_answer_is_fresh_for_who_names_no_field_that_the_courier_was_not_asked_with(
    worker: Worker, fields: dict[str, str], *, is_asked: bool
) -> None:
    await worker.finish(await worker.granted(fields=MISTYPED))

    admission = await worker.admit(fields=fields)

    assert isinstance(admission, Granted) is is_asked


async def test_a_re_check_with_the_fields_of_before_takes_an_answer_to_newer_ones(
    worker: Worker,
) -> None:
    await worker.finish(await worker.granted(fields=CORRECTED))

    assert await worker.ended(fields=MISTYPED, origin=Origin.AUTOMATIC) is State.SUCCESS


async def test_who_names_another_field_while_its_number_runs_is_called_after_it(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted(fields=MISTYPED)
    await next_millisecond(redis)
    await worker.parked(id="corrected", fields=CORRECTED)

    (second,) = (await worker.finish(call, ANSWERED, 5)).calls

    assert (second.operations, second.request.fields) == (("corrected",), CORRECTED)


async def test_while_its_number_runs_a_request_waits_and_has_the_answer_of_that_call(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted()
    await next_millisecond(redis)

    assert await worker.admit(id="op-2") == Parked("running")
    assert await worker.admit(id="op-3") == Parked("behind")
    turn = await worker.finish(call, ANSWERED, 5)

    assert turn.calls == ()
    assert await state(redis, "op-2") == await state(redis, "op-3") == "SUCCESS"
    assert await redis.exists(KEYS.wait_requests) == 0


async def test_all_who_come_at_once_for_a_number_have_its_answer(
    worker: Worker, redis: Redis
) -> None:
    ids = [f"op-{n}" for n in range(4)]

    first, *others = await asyncio.gather(*(worker.admit(id=each) for each in ids))

    assert isinstance(first, Granted)
    assert others == [Parked("running"), Parked("behind"), Parked("behind")]
    await worker.finish(first.call, ANSWERED, 5)
    assert {await state(redis, each) for each in ids} == {"SUCCESS"}


async def test_whom_the_running_call_does_not_serve_is_called_after_it(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted()
    await next_millisecond(redis)
    await worker.parked(id="strict", max_age=0.0)
    await worker.parked(id="patient")
    await next_millisecond(redis)

    (second,) = (await worker.finish(call, ANSWERED, 5)).calls

    assert second.operations == ("strict",)
    assert await state(redis, "patient") == "SUCCESS"
    assert await state(redis, "strict") == "RUNNING"


async def test_who_waited_before_the_call_was_asked_has_its_answer_whatever_its_max_age(
    worker: Worker, redis: Redis
) -> None:
    await redis.set(KEYS.calls_paused, "x", px=60_000)
    await worker.parked(id="strict", max_age=0.0)
    await redis.delete(KEYS.calls_paused)

    turn = await worker.finish(await worker.taken(), ANSWERED, 5)

    assert turn.calls == ()
    assert await state(redis, "strict") == "SUCCESS"


async def test_of_joined_requests_the_strictest_max_age_counts(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted()
    await next_millisecond(redis)
    await worker.parked(max_age=3600.0)
    await worker.parked(max_age=0.0)
    await next_millisecond(redis)

    turn = await worker.finish(call, ANSWERED, 5)

    assert [second.requests for second in turn.calls] == [2]


async def test_when_the_running_call_dies_what_waits_behind_it_gets_in_line(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted(id="op-1")
    await worker.parked(id="op-2")

    (second,) = (await worker.finish(call, DEAD, 5)).calls

    assert second.operations == ("op-2",)
    assert await state(redis, "op-1") == "ERROR"


async def test_a_request_behind_a_call_that_is_repeated_waits_for_the_retry(worker: Worker) -> None:
    call = await worker.granted(id="op-1")
    await worker.parked(id="op-2")

    (second,) = (await worker.limiter.retry(call, again_in(0.0), 5)).calls

    assert set(second.operations) == {"op-1", "op-2"}


async def test_a_request_that_nobody_wants_any_more_is_not_taken(
    worker: Worker, redis: Redis
) -> None:
    past = await redis_us(redis) / 1_000_000 - 1

    assert await worker.ended(id="op-1", expires_at=past) is State.CANCELLED
    assert await counted(redis, "CANCELLED", "calls") == (1, 0)


async def test_a_request_that_expires_while_it_waits_is_cancelled_without_a_call(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    soon = time.time() + 600
    await busy.parked("N001", id="op-1", expires_at=soon)
    await busy.parked("N002", expires_at=soon)
    await busy.parked("N003", expires_at=soon)
    await busy.parked("N003", id="op-3")
    await busy.parked("N004", expires_at=soon)
    await busy.parked("N004")  # joined by one that never expires

    await they_expire(redis)
    calls = (await free.take()).calls

    assert [(call.request.number, call.requests) for call in calls] == [("N003", 1), ("N004", 2)]
    assert await state(redis, "op-1") == "CANCELLED"
    assert await counted(redis, "CANCELLED") == (3,)


async def test_a_request_is_not_cancelled_before_it_expires(worker: Worker, redis: Redis) -> None:
    await redis.set(KEYS.calls_paused, "x", px=60_000)
    await worker.parked("N001", id="op-1", expires_at=time.time() + 3600)
    await redis.delete(KEYS.calls_paused)

    assert (await worker.taken()).operations == ("op-1",)
