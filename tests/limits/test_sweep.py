"""What lua/sweep.lua takes back of vanished workers: calls, slots, requests, the duty to ask."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest
from limits_bench import (
    ANSWERED,
    DEAD,
    KEYS,
    USPS,
    Hire,
    Worker,
    again_in,
    counted,
    everything,
    redis_us,
    retries_are_due,
    sent,
    state,
    the_lease_ends,
)
from redis.asyncio import Redis

from limits.keys import WORKERS
from limits.limiter import Policy
from limits.workers import LIVES_SECONDS, WorkerInfo, is_gone, process_space
from tracking.call import Dying, Ended, Held, Parked, Verdict
from tracking.operation import State
from tracking.request import Origin


async def waiting(redis: Redis) -> list[str]:
    return list(await redis.lrange(KEYS.wait_list, 0, -1))


async def test_a_job_that_comes_again_has_a_new_permit_at_once(
    worker: Worker, hire: Hire, redis: Redis
) -> None:
    dead = await worker.granted("N001", job="job-1", id="op-1")

    again = await (await hire()).granted("N001", job="job-1", id="op-1")

    assert again.id != dead.id
    assert (again.deaths, again.operations) == (1, ("op-1",))
    assert await counted(redis, "lost", "calls") == (1, 2)


async def test_the_lease_of_the_dead_worker_stays_because_its_call_may_still_run(
    worker: Worker, redis: Redis
) -> None:
    dead = await worker.granted("N001", job="job-1")
    again = await worker.granted("N001", job="job-1")

    assert set(await redis.zrange(KEYS.calls_leases, 0, -1)) == {dead.id, again.id}
    assert await redis.get(KEYS.calls_number) == "2"

    await worker.finish(again)
    assert await redis.zrange(KEYS.calls_leases, 0, -1) == [dead.id]


HERE = WorkerInfo("here", os.getpid(), "1", 0.0)


async def test_a_job_that_comes_again_while_its_worker_lives_waits_for_the_call_of_that_one(
    hire: Hire, redis: Redis
) -> None:
    living, other = await hire(policy=Policy(who=HERE)), await hire()
    runs = await living.granted("N001", job="job-1", id="op-1")

    held = [await one.admit("N001", job="job-1", id="op-1") for one in (other, living)]
    await living.finish(runs)

    assert held == [Held(), Held()]
    assert await other.ended("N001", job="job-1", id="op-1") is State.SUCCESS
    assert await counted(redis, "lost", "calls") == (0, 1)


@pytest.mark.parametrize("what", ["its process was not heard of", "its lease is over"])
async def test_a_call_whose_worker_was_silent_or_has_lost_it_is_taken_over(
    hire: Hire, redis: Redis, what: str
) -> None:
    silent, other = await hire(policy=Policy(who=HERE)), await hire()
    call = await silent.granted("N001", job="job-1")
    assert await other.admit("N001", job="job-1") == Held()

    if what == "its lease is over":
        await the_lease_ends(redis, call)
    else:
        for told in await redis.zrange(WORKERS, 0, -1):
            await redis.zincrby(WORKERS, -LIVES_SECONDS * 1000, told)

    assert (await other.granted("N001", job="job-1")).deaths == 1


def ended_pid() -> int:
    with subprocess.Popen(["true"]) as process:
        return process.pid


async def test_a_call_whose_process_ended_on_this_machine_is_taken_over_at_once(
    hire: Hire, redis: Redis
) -> None:
    killed, other = await hire(policy=Policy(who=HERE)), await hire()
    await killed.granted("N001", job="job-1")
    (told,) = await redis.zrange(WORKERS, 0, -1)
    score = await redis.zscore(WORKERS, told)
    await redis.delete(WORKERS)
    pid = ended_pid()
    await redis.zadd(
        WORKERS, {json.dumps({**json.loads(told), "pid": pid}, separators=(",", ":")): score}
    )

    assert (await other.granted("N001", job="job-1")).deaths == 1
    assert await redis.exists(WORKERS) == 0


NOBODY = 2**22 + 1
"""More than a pid can be."""


@pytest.mark.parametrize(
    "who",
    [
        {"space": process_space(), "pid": os.getpid()},
        {"space": process_space(), "pid": 1},
        {"space": "of another machine", "pid": NOBODY},
        {"pid": NOBODY},
    ],
)
def test_a_process_that_may_live_is_not_known_to_be_gone(who: dict[str, Any]) -> None:
    assert not is_gone(json.dumps(who))


def test_a_process_that_ended_is_gone_before_its_parent_has_looked() -> None:
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_gone(json.dumps({"space": process_space(), "pid": process.pid}))


async def test_a_job_that_comes_again_and_finds_no_slot_is_the_first_to_have_one(
    busy: Worker, redis: Redis
) -> None:
    await busy.parked("N001")

    parked = await busy.parked("BUSY", job="job-of-busy")

    assert parked.why == "concurrency"
    assert await waiting(redis) == ["BUSY", "N001"]


async def test_a_job_whose_request_waits_already_is_known(busy: Worker, redis: Redis) -> None:
    await busy.parked("N001", job="job-1")
    await busy.parked("N001", job="job-2")

    for job in ("job-1", "job-2"):
        assert isinstance(await busy.admit("N001", job=job), Parked)

    assert await waiting(redis) == ["N001"]
    assert (await redis.hget(KEYS.wait_requests, "N001")).count('"count":2') == 1


async def test_a_job_whose_request_was_taken_from_the_list_is_known(
    busy: Worker, free: Worker
) -> None:
    await busy.parked("N001", job="job-1")
    await busy.parked("N001", job="job-2")
    call = await free.taken()

    for job in ("job-1", "job-2"):
        assert await free.admit("N001", job=job) == Parked("known")

    assert (await free.finish(call, ANSWERED, 5)).calls == ()


async def test_a_job_that_comes_again_after_its_end_is_told_the_end(worker: Worker) -> None:
    await worker.finish(await worker.granted("N001", job="job-1", max_age=0.0))

    assert await worker.admit("N001", job="job-1", max_age=0.0) == Ended(State.SUCCESS)


async def stored(redis: Redis) -> Verdict:
    """What the worker of a call stored before it could finish that."""
    return Verdict(State.SUCCESS, {"tag": "InTransit"}, observed_ms=await redis_us(redis) // 1000)


@pytest.mark.parametrize("what", ["swept", "finished"])
async def test_a_job_that_comes_again_during_its_call_and_finds_the_answer_ends_once(
    worker: Worker, redis: Redis, what: str
) -> None:
    call = await worker.granted("N001", job="job-1")

    assert await worker.admit_with(await stored(redis), job="job-1") == Ended(State.SUCCESS)
    if what == "swept":
        await the_lease_ends(redis, call)
        _, swept, dying, *_ = await worker.raw("sweep", "s")
        assert (swept, dying) == (0, [])
    else:
        await worker.finish(call)

    assert await worker.ended("N001", job="job-1") is State.SUCCESS
    assert (await worker.take()).calls == ()
    assert await counted(redis, "SUCCESS") == (1,)
    assert await redis.exists(KEYS.wait_list, KEYS.wait_requests, KEYS.wait_inflight) == 0


async def test_a_job_that_comes_again_while_it_waits_and_finds_the_answer_ends_once(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await busy.parked("N001", job="job-1")

    assert await busy.admit_with(await stored(redis), job="job-1") == Ended(State.SUCCESS)

    assert (await free.take()).calls == ()
    assert await counted(redis, "SUCCESS") == (1,)
    assert await redis.exists(KEYS.wait_list, KEYS.wait_requests, KEYS.wait_list_activated) == 0


@pytest.mark.parametrize("runs", [True, False])
async def test_a_job_that_comes_again_and_finds_the_answer_ends_with_those_who_wait_with_it(
    busy: Worker, free: Worker, redis: Redis, *, runs: bool
) -> None:
    """Without ids they are one operation, and the answer may be too old for the others."""
    await busy.parked("N001", job="job-1")
    await busy.parked("N001", job="job-2", max_age=0.0)
    before = (await free.take()).calls if runs else ()

    for job in ("job-1", "job-2"):
        assert isinstance(await busy.admit_with(await stored(redis), job=job), Parked)

    for call in before or (await free.take()).calls:
        await free.finish(call)
    assert await counted(redis, "SUCCESS", "merged") == (1, 1)


@pytest.mark.parametrize("what", ["taken over", "swept", "lease over"])
async def test_a_late_answer_ends_those_who_wait_exactly_once(
    worker: Worker, redis: Redis, what: str
) -> None:
    late = await worker.granted("N001", job="job-1", id="op-1")
    match what:
        case "taken over":
            again = await worker.granted("N001", job="job-1", id="op-1")
            assert again.id != late.id
        case "swept":
            await the_lease_ends(redis, late)
            await worker.raw("sweep", "s")
        case "lease over":
            await the_lease_ends(redis, late)

    turn = await worker.finish(late, ANSWERED, 5)
    for call in turn.calls:
        await worker.finish(call, ANSWERED, 5)
    if what == "taken over":
        assert await state(redis, "op-1") == "RUNNING"  # until its own call ends
        await worker.finish(again)

    assert turn.calls == ()
    assert await state(redis, "op-1") == "SUCCESS"
    assert await counted(redis, "SUCCESS") == (1,)
    assert await redis.exists(KEYS.wait_list, KEYS.wait_requests, KEYS.wait_inflight) == 0


async def test_a_late_answer_does_not_replace_a_newer_one(worker: Worker, redis: Redis) -> None:
    late = await worker.granted("N001", job="job-1")
    again = await worker.granted("N001", job="job-1")
    await worker.finish(again)
    newer = await redis.get(f"{KEYS.answer}N001")

    await worker.finish(late, ANSWERED._replace(output={"tag": "of before"}))

    assert await redis.get(f"{KEYS.answer}N001") == newer


async def test_a_late_failure_of_a_call_that_was_swept_changes_nothing(
    worker: Worker, redis: Redis
) -> None:
    late = await sent(await worker.granted("N001", id="op-1"))
    await the_lease_ends(redis, late)
    await worker.raw("sweep", "s")
    before = (await everything(redis))[KEYS.wait_requests]

    await worker.limiter.retry(late, again_in(60.0), 0)
    await worker.limiter.hand_back([late], 0)
    await worker.finish(late, DEAD)

    assert (await everything(redis))[KEYS.wait_requests] == before
    assert await waiting(redis) == ["N001"]


async def test_what_lost_its_worker_is_first_in_line_again_the_oldest_first(
    worker: Worker, redis: Redis
) -> None:
    calls = [await worker.granted(number) for number in ("N001", "N002", "N003")]
    await redis.rpush(KEYS.wait_list, "N004")

    await the_lease_ends(redis, *calls)
    (swept,) = await worker.limiter.sweep([USPS])

    assert (swept.swept, swept.put_drain) == (3, True)
    assert await waiting(redis) == ["N001", "N002", "N003", "N004"]
    assert await redis.exists(KEYS.wait_inflight, KEYS.calls_leases, KEYS.calls_number) == 0


async def test_what_lost_its_worker_meets_later_requests_in_one_entry(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted("N001", id="op-1", origin=Origin.AUTOMATIC)
    await worker.parked("N001", id="op-2")
    await worker.parked("N001")

    await the_lease_ends(redis, call)
    await worker.raw("sweep", "s")

    assert await waiting(redis) == ["N001"]
    again = await worker.taken()
    assert (set(again.operations[:2]), again.requests) == ({"op-1", "op-2"}, 3)
    assert (again.deaths, again.request.origin) == (1, Origin.MANUAL)
    assert again.waiting_since == call.waiting_since


async def test_an_operation_whose_worker_vanished_waits_again(worker: Worker, redis: Redis) -> None:
    call = await worker.granted("N001", id="op-1")
    assert await state(redis, "op-1") == "RUNNING"

    await the_lease_ends(redis, call)
    await worker.raw("sweep", "s")

    assert await state(redis, "op-1") == "WAITING"


async def test_a_call_whose_worker_lives_is_not_swept(worker: Worker, redis: Redis) -> None:
    await worker.granted("N001")

    assert await worker.limiter.sweep([USPS]) == []
    assert (await worker.raw("sweep", "s"))[1:3] == [0, []]
    assert await counted(redis, "lost") == (0,)


async def test_a_request_over_which_too_many_workers_vanished_is_dying(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(policy=Policy(deaths=2))
    await worker.limiter.retry(await worker.granted("N001", id="op-1"), again_in(0.0), 0)
    for _ in range(2):
        await the_lease_ends(redis, await worker.taken())
        assert [swept.swept for swept in await worker.limiter.sweep([USPS])] == [1]

    last = await worker.taken()
    await the_lease_ends(redis, last)
    for _ in range(2):  # until somebody has recorded and finished it
        (swept,) = await worker.limiter.sweep([USPS])
        (dying,) = swept.dying
        assert (swept.swept, dying.id, dying.deaths) == (0, last.id, 3)

    await worker.finish(dying, DEAD)
    assert await state(redis, "op-1") == "ERROR"
    (swept,) = await worker.limiter.sweep([USPS])
    assert swept.dying == ()


async def test_a_job_that_kills_its_workers_is_dying(hire: Hire, redis: Redis) -> None:
    worker = await hire(policy=Policy(deaths=2))
    await worker.granted("N001", job="job-1", id="op-1")
    for _ in range(2):
        await worker.granted("N001", job="job-1", id="op-1")

    dying = await worker.admit("N001", job="job-1", id="op-1")
    assert isinstance(dying, Dying)
    await worker.finish(dying.call, DEAD)

    assert await counted(redis, "ERROR", "calls") == (1, 3)
    assert await worker.admit("N001", job="job-1", id="op-1") == Ended(State.ERROR)


async def test_a_request_behind_a_dying_call_is_called_after_it(hire: Hire, redis: Redis) -> None:
    worker = await hire(policy=Policy(deaths=0))
    call = await worker.granted("N001", id="op-1")
    await worker.parked("N001", id="op-2")
    await the_lease_ends(redis, call)

    (swept,) = await worker.limiter.sweep([USPS])
    (next_call,) = (await worker.finish(swept.dying[0], DEAD, 5)).calls

    assert (next_call.operations, next_call.deaths) == (("op-2",), 0)


async def test_a_list_that_somebody_deleted_is_written_again(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    for number in ("N001", "N002"):
        await busy.parked(number, id=f"op-{number}")
    await redis.delete(KEYS.wait_list)

    await free.raw("sweep", "s")

    assert set(await waiting(redis)) == {"N001", "N002"}
    assert {call.request.number for call in (await free.take()).calls} == {"N001", "N002"}


async def test_the_sweep_lists_nobody_who_waits_elsewhere(worker: Worker, redis: Redis) -> None:
    await worker.limiter.retry(await worker.granted("N001"), again_in(60.0), 0)
    await worker.granted("N002")
    await worker.parked("N002")  # behind the call

    await worker.raw("sweep", "s")
    assert await waiting(redis) == []

    await retries_are_due(redis)
    await worker.raw("sweep", "s")
    await worker.raw("sweep", "s2")
    assert await waiting(redis) == ["N001"]


async def test_a_slug_where_all_is_done_is_not_looked_at_any_more(
    worker: Worker, redis: Redis
) -> None:
    await worker.finish(await worker.granted("N001"))
    assert await redis.exists(KEYS.lines)

    await worker.raw("sweep", "s")

    assert not await redis.exists(KEYS.lines)
    assert await worker.limiter.sweep([USPS]) == []
