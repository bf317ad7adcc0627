"""Every script may be sent twice, because its reply was lost: nothing happens a second time.

The second reply carries the same grants and the same duties, or the worker would never hear of
them; Redis holds the same after it.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from held import look, since
from limits_bench import (
    ANSWERED,
    DEAD,
    FAST,
    KEYS,
    NO_PLACES,
    USPS,
    Hire,
    Worker,
    a_second_goes_by,
    again_in,
    asked,
    counted,
    failed,
    raw,
    read,
    redis_us,
    retries_are_due,
    sent,
    the_lease_ends,
    verdict,
)
from redis.asyncio import Redis

from limits.keys import write_answer, write_request
from limits.limiter import Policy
from limits.rules import Rules
from tracking.call import Dying

AT = re.compile(r" \d+$")


def without_time(held: dict[str, Any]) -> dict[str, Any]:
    """When the drainer asks again may move, who it is may not."""
    drainer = held.get(KEYS.wait_drainer)
    return held | {KEYS.wait_drainer: drainer and AT.sub("", drainer)}


async def twice(worker: Worker, redis: Redis, script: str, *args: Any) -> list[Any]:
    """Send a script twice; returns both replies after having compared what Redis holds."""
    first = await worker.raw(script, *args)
    held = await look(redis)
    second = await worker.raw(script, *args)
    after_first, after_second = await since(redis, held)
    assert without_time(after_second) == without_time(after_first)
    return [read(first), read(second)]


def admission(call_id: str, number: str = "N001", job: str = "job-1", **fields: Any) -> list[Any]:
    return [call_id, write_request(asked(number, **fields), job), b""]


@pytest.mark.parametrize("operation", [None, "op-1"], ids=["without id", "with id"])
async def test_an_admission_that_was_granted_is_granted_once(
    worker: Worker, redis: Redis, operation: str | None
) -> None:
    first, second = await twice(worker, redis, "admit", *admission("c", id=operation))

    assert first[1:] == second[1:]
    assert first[1] == "granted"


@pytest.mark.parametrize("operation", [None, "op-2"], ids=["without id", "with id"])
@pytest.mark.parametrize("number", ["NEW1", "N001", "BUSY"], ids=["new", "joins", "runs"])
async def test_an_admission_that_was_parked_waits_once_with_the_same_duty(
    busy: Worker, redis: Redis, number: str, operation: str | None
) -> None:
    if number == "N001":
        await busy.parked("N001")
        await redis.delete(KEYS.wait_drainer)
    args = admission("c", number, "job-2", id=operation)

    first, second = await twice(busy, redis, "admit", *args)

    assert first[1] == second[1] == "parked"
    assert first[3] == second[3] == (0 if number == "BUSY" else 1)


async def test_a_parked_admission_that_was_answered_meanwhile_still_has_its_duty(
    busy: Worker, redis: Redis
) -> None:
    """Its job came again when there was an answer; before, it had called a drainer."""
    await busy.parked("N002")
    await redis.delete(KEYS.wait_drainer)
    args = admission("c", "N001", "job-1", id="op-1")

    first = await busy.raw("admit", *args)
    answer = write_answer(ANSWERED._replace(observed_ms=await redis_us(redis) // 1000))
    await redis.set(f"{KEYS.answer}N001", answer, px=30_000)
    other = await busy.raw("admit", *admission("d", "N001", "job-1", id="op-1"))
    second = await busy.raw("admit", *args)

    assert (first[1], other[1], second[1]) == ("parked", "ended", "parked")
    assert (first[3], second[3]) == (1, 1)


async def test_a_request_that_ends_at_once_ends_once(worker: Worker, redis: Redis) -> None:
    await worker.finish(await worker.granted())
    past = await redis_us(redis) / 1_000_000 - 1

    for fields in ({"id": "op-1"}, {"id": "op-2", "expires_at": past}):
        first, second = await twice(worker, redis, "admit", *admission("c", job="j", **fields))
        assert first[1:] == second[1:]
        assert first[1] == "ended"


async def test_a_job_that_comes_again_takes_its_call_over_once(
    worker: Worker, redis: Redis
) -> None:
    await worker.granted(job="job-1")

    first, second = await twice(worker, redis, "admit", *admission("c"))

    assert first[1:] == second[1:]
    assert (first[1], first[2][0]) == ("granted", "c")


async def test_a_job_that_comes_again_and_finds_no_slot_waits_once(
    busy: Worker, redis: Redis
) -> None:
    first, second = await twice(busy, redis, "admit", *admission("c", "BUSY", "job-of-busy"))

    assert (first[1], second[1]) == ("parked", "parked")
    assert (first[3], second[3]) == (1, 1)
    assert await counted(redis, "lost") == (1,)


async def test_a_job_that_kills_workers_is_counted_once(hire: Hire, redis: Redis) -> None:
    worker = await hire(policy=Policy(deaths=0))
    await worker.granted(job="job-1")

    first, second = await twice(worker, redis, "admit", *admission("c"))

    assert first[1:] == second[1:]
    assert first[1] == "dying"


@pytest.mark.parametrize(
    ("room", "grants", "put"), [(-1, 0, 0), (0, 0, 1), (1, 1, 0), (2, 2, 0), (3, 3, 0), (9, 3, 0)]
)
async def test_a_take_grants_the_same_calls_with_the_same_duty(
    worker: Worker, redis: Redis, room: int, grants: int, put: int
) -> None:
    await redis.rpush(KEYS.wait_list, "N001", "N002", "N003")

    first, second = await twice(worker, redis, "take", "b", room, 1)

    assert first[1] == second[1]
    assert len(first[1]) == grants
    assert (first[4], second[4]) == (put, put)


async def test_a_take_that_the_rate_binds_asks_again_at_the_same_time(
    usps: Worker, redis: Redis
) -> None:
    await redis.rpush(KEYS.wait_list, "N001", "N002", "N003")

    first, second = await twice(usps, redis, "take", "b", 9, 1)

    assert first[1] == second[1]
    assert first[2] == second[2] == "rate"
    assert abs(int(first[3]) - int(second[3])) < 1_000_000


async def test_a_second_process_does_not_take_a_duty_over_by_a_repeated_take(
    hire: Hire, redis: Redis
) -> None:
    one, other = await hire(Rules()), await hire(Rules())
    await redis.rpush(KEYS.wait_list, "N001", "N002", "N003", "N004", "N005")
    await one.raw("take", "a", 9, 1)
    await a_second_goes_by(redis)

    first, second = await twice(other, redis, "take", "b", 9, 0)

    assert len(first[1]) == 2
    assert first[1] == second[1]
    assert (first[3], second[3]) == (0, 0)


@pytest.mark.parametrize(
    ("script", "args"),
    [
        ("finish", (verdict(1), "N001")),
        ("retry", (raw(again_in(60.0)),)),
        ("retry", (raw(failed("courier_down")),)),
        ("retry", (raw(failed("auth_failed")),)),
        ("retry", (raw(failed("rate_limited", named=30.0)),)),
        ("retry", (raw(failed("no_credentials"), unsent=True),)),
        ("hand_back", (0,)),
        ("hand_back", (1,)),
    ],
)
@pytest.mark.parametrize("room", [0, 1, 5])
async def test_a_call_ends_once_and_the_same_ones_are_taken(
    worker: Worker, redis: Redis, script: str, args: tuple[Any, ...], room: int
) -> None:
    call = await worker.granted("N001", id="op-1")
    await worker.parked("N001", id="op-2", max_age=0.0)
    await redis.rpush(KEYS.wait_list, "N002", "N003")

    first, second = await twice(worker, redis, script, call.id, *args, "b", room)

    assert first[-4] == second[-4]  # grants
    assert first[-1] == second[-1]  # put


async def test_the_steps_of_a_finish_may_each_be_repeated(busy: Worker, redis: Redis) -> None:
    await busy.raw("finish", "none", verdict(1), "N999", "x", 0)
    for n in range(120):
        await busy.parked("N001", id=f"op-{n}")
    running = next(iter(await redis.zrange(KEYS.calls_leases, 0, -1)))
    _, _, (grant,), *_ = await busy.raw("finish", running, verdict(1), "BUSY", "b", 1)
    args = ("finish", grant[0], verdict(int(grant[2]) // 1000), "N001", "b2", 1)

    for _ in range(4):
        await busy.raw(*args)

    assert await counted(redis, "SUCCESS") == (121,)
    assert await redis.exists(KEYS.wait_requests, KEYS.calls_leases) == 0


async def test_a_further_request_takes_one_lane(usps: Worker, redis: Redis) -> None:
    await usps.raw_admit("c")

    first, second = await twice(usps, redis, "again", "c#2", "c")

    assert first[1:] == second[1:]


async def test_a_sweep_puts_a_lost_call_back_once(worker: Worker, redis: Redis) -> None:
    await the_lease_ends(redis, await worker.granted("N001"), await worker.granted("N002"))

    first, second = await twice(worker, redis, "sweep", "s")

    assert (first[1], second[1]) == (2, 0)
    assert first[3] == second[3] == 1


async def test_a_sweep_that_gives_others_up_when_it_is_sent_again_keeps_the_first(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted("N001", id="op-1")
    await worker.limiter.retry(call, failed("rate_limited", delay=0.0, patience=0.0), 0)
    await retries_are_due(redis)

    await worker.raw("sweep", "s")
    await worker.parked("N002", id="op-2")
    await worker.raw("sweep", "s")

    held = await redis.hgetall(KEYS.wait_inflight)
    records = [json.loads(text) for call, text in held.items() if not call.startswith("=")]
    assert sorted(each["n"] for each in records) == ["N001", "N002"]
    assert {held[f"={each['n']}"] for each in records} <= held.keys()


async def test_a_sweep_counts_the_last_death_once(hire: Hire, redis: Redis) -> None:
    worker = await hire(policy=Policy(deaths=0))
    await the_lease_ends(redis, await worker.granted("N001"))

    first, second = await twice(worker, redis, "sweep", "s")

    assert first[1:] == second[1:]
    assert len(first[2]) == 1


@pytest.mark.parametrize("operation", ["", "op-1"])
async def test_a_cancel_counts_once(busy: Worker, redis: Redis, operation: str) -> None:
    await busy.parked("N001", id="op-1")

    await twice(busy, redis, "cancel", "N001", operation, NO_PLACES)

    assert await counted(redis, "CANCELLED") == (1,)


async def test_reports_may_arrive_twice_and_late(usps: Worker, redis: Redis) -> None:
    call = await sent(await usps.granted())
    send_us = await redis_us(redis)

    for _ in range(2):
        await usps.raw("started", reports=[call.id, send_us])
    lanes = await redis.zrange(KEYS.call_starts, 0, -1, withscores=True)

    assert [(name, int(free)) for name, free in lanes] == [(call.id, send_us + 1_020_000)]


@pytest.mark.parametrize("end", ["finish", "retry", "hand_back"])
async def test_what_the_end_of_a_call_took_comes_again_after_a_lost_reply(
    hire: Hire, redis: Redis, end: str
) -> None:
    """Nobody else asks for it: it would wait for the end of its lease, and be charged a death."""
    worker = await hire(replace(FAST, concurrent=2))
    call, other = await worker.granted("N001"), await worker.granted("N002")
    await redis.rpush(KEYS.wait_list, "N003", "N004", "N005")
    step = {
        "finish": lambda: worker.limiter.finish([(call, ANSWERED)], 2),
        "retry": lambda: worker.limiter.retry(call, again_in(60.0), 2),
        "hand_back": lambda: worker.limiter.hand_back([call], 2),
    }[end]

    lost, again = await step(), await step()
    next_one = await worker.finish(other, room=1)

    assert [each.id for each in again.calls] == [each.id for each in lost.calls]
    assert len({each.id for turn in (again, next_one) for each in turn.calls}) == 2
    assert await redis.zcard(KEYS.calls_leases) == 2


async def test_a_call_that_is_answered_and_recorded_as_dead_at_once_takes_twice(
    hire: Hire, redis: Redis
) -> None:
    """Its job came again, to the process that asks already: each of the two ends takes."""
    worker = await hire(policy=Policy(deaths=0))
    call = await worker.granted("N001", job="job-1")
    await redis.rpush(KEYS.wait_list, "N002", "N003")
    dying = await worker.admit("N001", job="job-1")
    assert isinstance(dying, Dying)

    turns = [
        await worker.limiter.finish([(call, ANSWERED)], 1),
        await worker.limiter.finish([(dying.call, DEAD)], 1),
    ]

    assert [each.request.number for turn in turns for each in turn.calls] == ["N002", "N003"]


async def test_a_call_that_a_job_and_the_sweep_give_one_process_to_record_takes_twice(
    hire: Hire, redis: Redis
) -> None:
    """Each of them is told that it is dying, and each of the two ends takes."""
    worker = await hire(policy=Policy(deaths=0))
    await worker.granted("N001", job="job-1")
    await redis.rpush(KEYS.wait_list, "N002", "N003")
    again = await worker.admit("N001", job="job-1")
    await redis.delete(KEYS.calls_leases)
    (swept,) = await worker.limiter.sweep([USPS])
    assert isinstance(again, Dying)

    ends = [*swept.dying, again.call]
    turns = [await worker.limiter.finish([(call, DEAD)], 1) for call in ends]

    assert {call.id for call in ends} == {again.call.id}
    assert [each.request.number for turn in turns for each in turn.calls] == ["N002", "N003"]
