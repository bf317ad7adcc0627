"""A parcel that must be forgotten leaves nothing in Redis, and no later answer (lua/forget.lua)."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
from dataclasses import replace

import pytest
from held import look, since
from limits_bench import (
    ANSWERED,
    FAST,
    KEYS,
    NO_PLACES,
    USPS,
    Hire,
    Worker,
    a_millisecond_goes_by,
    again_in,
    counted,
    everything,
    forget,
    retries_are_due,
    state,
    status,
    the_lease_ends,
)
from redis.asyncio import Redis

from limits import keys
from limits.admin.forget import MARK_SECONDS, Forgetter
from limits.rules import Rules
from tracking.call import Call, Ended, Granted, IdConflict, Parked, Verdict
from tracking.operation import State

MARK = KEYS.forgotten + hashlib.sha1(b"usps:N001", usedforsecurity=False).hexdigest()
STORED = Verdict(State.SUCCESS, {"tag": "Delivered"})
LONG_CHAIN = 250


async def test_all_that_wait_for_it_end_cancelled_and_say_why(
    busy: Worker, forgetter: Forgetter, redis: Redis
) -> None:
    await busy.parked("N001", id="op-1")
    await busy.parked("N001", job="job-2")
    await busy.parked("N002", id="op-3")

    found = await forget(forgetter)

    assert (found.ended, found.calls, found.answers) == (2, (), 0)
    operation = await status(redis, "op-1")
    assert operation is not None
    assert (operation["status"], operation["output"]["code"]) == ("CANCELLED", "forgotten")
    assert await state(redis, "usps:N001:job-2") == "CANCELLED"
    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N002"]


async def test_a_number_pushed_by_hand_is_taken_off_its_list(
    forgetter: Forgetter, redis: Redis
) -> None:
    await redis.rpush(KEYS.wait_list, "N001", "N002")

    assert (await forget(forgetter)).ended == 1

    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N002"]


async def test_of_one_that_nobody_knows_only_the_mark_stays_and_for_a_while(
    forgetter: Forgetter, redis: Redis
) -> None:
    held = await look(redis)

    found = await forget(forgetter)

    assert (found.ended, found.calls, found.answers) == (0, (), 0)
    before, after = await since(redis, held)
    assert after == before | {MARK: str(found.at_us)}
    assert 0 < await redis.ttl(MARK) <= MARK_SECONDS


async def test_the_remembered_answer_goes(
    worker: Worker, forgetter: Forgetter, redis: Redis
) -> None:
    await worker.finish(await worker.granted("N001"))

    assert (await forget(forgetter)).answers == 1

    assert await redis.exists(f"{KEYS.answer}N001") == 0
    assert isinstance(await worker.admit("N001"), Granted)


async def test_the_operations_of_a_running_call_end_at_once(
    worker: Worker, forgetter: Forgetter, redis: Redis
) -> None:
    call = await worker.granted("N001", id="op-1", fields={"tracking_postal_code": "SW1A 1AA"})

    found = await forget(forgetter)

    assert (found.calls, found.ended) == ((call.id,), 1)
    assert await state(redis, "op-1") == "CANCELLED"
    assert "SW1A" not in json.dumps(await everything(redis))
    assert await forgetter.runs(USPS, call.id)
    assert await redis.zcard(KEYS.calls_leases) == 1


async def test_a_running_calls_answer_is_nobodys(
    worker: Worker, forgetter: Forgetter, redis: Redis
) -> None:
    call = await worker.granted("N001", id="op-1")
    await forget(forgetter)
    await worker.parked("N001", id="op-2")

    await worker.finish(call, STORED)

    assert not await forgetter.runs(USPS, call.id)
    assert await redis.exists(f"{KEYS.answer}N001") == 0
    assert await state(redis, "op-1") == "CANCELLED"
    assert await state(redis, "op-2") == "WAITING"
    later = await worker.taken()
    await worker.finish(later, STORED)
    assert await state(redis, "op-2") == "SUCCESS"
    assert await counted(redis, "SUCCESS", "CANCELLED") == (1, 1)
    assert await redis.exists(f"{KEYS.answer}N001") == 1


@pytest.mark.parametrize("how", ["retry", "hand_back", "sweep"])
async def test_a_running_call_that_fails_is_not_repeated(
    worker: Worker, forgetter: Forgetter, redis: Redis, how: str
) -> None:
    call = await worker.granted("N001", id="op-1")
    await forget(forgetter)
    await worker.parked("N001", id="op-2")

    match how:
        case "retry":
            await worker.limiter.retry(call, again_in(0.0), 0)
        case "hand_back":
            await worker.limiter.hand_back([call], 0)
        case "sweep":
            await the_lease_ends(redis, call)
            await worker.limiter.sweep([USPS])
    await retries_are_due(redis)

    later = (await worker.take()).calls
    assert [each.operations for each in later] == [("op-2",)]
    await worker.finish(later[0])
    assert await redis.exists(f"{KEYS.answer}N001") == 1
    assert await redis.exists(KEYS.wait_requests, KEYS.wait_inflight, KEYS.wait_list) == 0


@pytest.mark.parametrize("identity", ["op-1", None])
async def test_the_job_of_a_running_call_that_comes_back_is_done(
    worker: Worker, forgetter: Forgetter, redis: Redis, identity: str | None
) -> None:
    await worker.granted("N001", job="job-1", id=identity)
    await forget(forgetter)
    ended = Ended(State.CANCELLED)

    assert await worker.admit("N001", job="job-1", id=identity) == ended

    # However late: the end of an operation without an id is known for minutes only.
    await redis.delete(f"{KEYS.status}usps:N001:job-1", f"{KEYS.status}op-1")
    assert await worker.admit("N001", job="job-1", id=identity) == ended


async def test_a_call_that_was_taken_over_before_answers_nobody_either(
    worker: Worker, forgetter: Forgetter, redis: Redis
) -> None:
    """Its worker hung; another one went on with its job, and that call was forgotten too."""
    old = await worker.granted("N001", job="job-1")
    new = await worker.granted("N001", job="job-1")
    await forget(forgetter)
    await worker.parked("N001", id="op-2", max_age=3600.0)

    await worker.finish(old, STORED)
    await worker.finish(new, STORED)

    assert await redis.exists(f"{KEYS.answer}N001") == 0
    assert await state(redis, "op-2") == "WAITING"
    assert (await worker.taken()).operations == ("op-2",)


async def test_a_late_finish_after_the_forget_answers_nobody(
    worker: Worker, forgetter: Forgetter, redis: Redis
) -> None:
    """It stored its answer, finished, and sends the finish again because the reply was lost."""
    call = await worker.granted("N001", id="op-1")
    await worker.finish(call, STORED)
    await forget(forgetter)

    await worker.finish(call, STORED)

    assert await redis.exists(f"{KEYS.answer}N001") == 0


async def test_a_late_finish_of_a_call_that_was_granted_later_is_remembered(
    worker: Worker, forgetter: Forgetter, redis: Redis
) -> None:
    await forget(forgetter)
    await a_millisecond_goes_by(redis)
    call = await worker.granted("N001", id="op-1")
    await the_lease_ends(redis, call)
    await worker.limiter.sweep([USPS])

    await worker.finish(call, STORED)

    assert await redis.exists(f"{KEYS.answer}N001") == 1
    assert await state(redis, "op-1") == "SUCCESS"


async def test_its_slot_is_held_until_the_call_is_over(hire: Hire, forgetter: Forgetter) -> None:
    worker = await hire(replace(FAST, concurrent=1))
    call = await worker.granted("N001")
    await forget(forgetter)

    assert isinstance(await worker.admit("N001"), Parked)
    assert isinstance(await worker.admit("N002"), Parked)
    assert [each.request.number for each in (await worker.finish(call, room=2)).calls] == ["N002"]


async def test_a_long_chain_that_waits_and_one_that_runs_end_in_several_steps(
    busy: Worker, free: Worker, forgetter: Forgetter, redis: Redis
) -> None:
    for n in range(LONG_CHAIN):
        await busy.parked("N001", id=f"op-{n}")
    call = await free.taken()
    for n in range(LONG_CHAIN):
        await busy.parked("N001", id=f"later-{n}", max_age=0.0)

    found = await forget(forgetter)

    assert (found.ended, found.calls) == (2 * LONG_CHAIN, (call.id,))
    assert await redis.hlen(KEYS.wait_requests) == 0
    await free.finish(call)
    assert await counted(redis, "SUCCESS", "CANCELLED") == (0, 2 * LONG_CHAIN)


async def test_forgetting_again_changes_nothing_but_the_mark(
    worker: Worker, forgetter: Forgetter, redis: Redis
) -> None:
    await worker.granted("N001", id="op-1")
    first = await forget(forgetter)
    held = await look(redis)

    again = await forget(forgetter)

    assert again == replace(first, at_us=again.at_us, ended=0)
    before, after = await since(redis, held)
    assert after == before | {MARK: str(again.at_us)}


async def asked(worker: Worker, where: str, identity: str | None) -> Call | None:
    """A request that waits because another one runs, or runs, or has ended; the call that runs."""
    if where == "waiting":
        await worker.parked("N001", job="job-1", id=identity)
        return None
    call = await worker.granted("N001", job="job-1", id=identity)
    if where == "running":
        return call
    await worker.finish(call, STORED)
    return None


@pytest.mark.parametrize(
    "named", list(itertools.product(["waiting", "running", "ended"], ["op-1", None]))
)
async def test_nothing_in_redis_names_a_forgotten_number(
    busy: Worker, free: Worker, forgetter: Forgetter, redis: Redis, named: tuple[str, str | None]
) -> None:
    where, identity = named
    worker = busy if where == "waiting" else free
    call = await asked(worker, where, identity)

    found = await forget(forgetter)
    if call:
        await worker.finish(call, STORED)
    await forgetter.clear_outputs({"usps:N001": found.at_us})

    assert "N001" not in str(await everything(redis))
    # Its job may come back, and is not asked for again.
    assert await worker.admit("N001", job="job-1", id=identity) == Ended(
        State.SUCCESS if where == "ended" else State.CANCELLED
    )
    if identity is None:
        assert await redis.zcard(keys.TO_ARCHIVE) == 0
        (kept,) = set(await redis.keys(f"{KEYS.status}*")) - {f"{KEYS.status}usps:BUSY:job-of-busy"}
        assert await redis.ttl(kept) > 0


async def test_forget_counts_what_it_ended_names_the_call_and_asks_to_be_sent_again(
    worker: Worker,
) -> None:
    await worker.raw_admit("c", id="op-0")
    for n in range(101):
        await worker.raw_admit(f"c{n}", id=f"op-{n + 1}")

    _, *first = await worker.raw("forget", "N001", 60_000, NO_PLACES)
    _, *second = await worker.raw("forget", "N001", 60_000, NO_PLACES)
    _, *third = await worker.raw("forget", "N001", 60_000, NO_PLACES)

    assert first == [100, 1, "", 0]
    assert second == [2, 0, "c", 0]
    assert third == [0, 0, "c", 0]


async def test_forget_tells_that_an_answer_was_remembered(worker: Worker, redis: Redis) -> None:
    await redis.set(f"{KEYS.answer}N001", "{}", px=1_000)

    _, *reply = await worker.raw("forget", "N001", 60_000, NO_PLACES)

    assert reply == [0, 0, "", 1]


async def test_what_ended_operations_tell_of_it_is_emptied_and_their_ends_stay(
    worker: Worker, forgetter: Forgetter, redis: Redis
) -> None:
    await worker.finish(await worker.granted("N001", id="op-1"), STORED)
    await worker.finish(await worker.granted("N002", id="op-2"), ANSWERED)
    await worker.granted("N003", id="op-3")
    others = [await status(redis, name) for name in ("op-2", "op-3")]
    await redis.pexpire(f"{KEYS.status}op-1", 60_000)
    lives = await redis.pttl(f"{KEYS.status}op-1")
    found = await forget(forgetter)

    cleared, _ = await forgetter.clear_outputs({"usps:N001": found.at_us})

    assert cleared == {"usps:N001": 1}
    told = await status(redis, "op-1")
    assert told is not None
    assert (told["status"], told["tracking"]) == ("SUCCESS", None)
    assert told["output"] == {"code": "forgotten", "message": "its parcel was forgotten"}
    assert lives - 5_000 < await redis.pttl(f"{KEYS.status}op-1") <= lives
    assert [await status(redis, name) for name in ("op-2", "op-3")] == others
    assert await worker.ended("N001", id="op-1") is State.SUCCESS
    assert await forgetter.clear_outputs({"usps:N001": found.at_us}) == ({}, [])


async def test_the_id_of_a_forgotten_parcel_stays_that_of_one_parcel(
    worker: Worker, forgetter: Forgetter, redis: Redis
) -> None:
    await worker.finish(await worker.granted("N001", id="op-1"), STORED)
    found = await forget(forgetter)
    await forgetter.clear_outputs({"usps:N001": found.at_us})

    assert await worker.admit("N002", id="op-1") == IdConflict("")
    assert (await worker.raw("cancel", "N002", "op-1"))[1:] == ["elsewhere", ""]
    assert await worker.ended("N001", id="op-1") is State.SUCCESS
    assert "N001" not in str(await status(redis, "op-1"))


async def test_what_was_asked_since_then_is_still_told(
    worker: Worker, forgetter: Forgetter, redis: Redis
) -> None:
    found = await forget(forgetter)
    await a_millisecond_goes_by(redis)
    await worker.finish(await worker.granted("N001", id="op-1"), STORED)

    assert await forgetter.clear_outputs({"usps:N001": found.at_us}) == ({}, [])

    told = await status(redis, "op-1")
    assert told is not None
    assert told["tracking"] == "usps:N001"


async def test_who_asks_in_the_very_script_that_forgets_is_noted_for_a_day(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(Rules(concurrent=1))
    busy = await worker.granted("BUSY")
    await worker.parked("N001", id="op-1")

    *_, (_, again, _) = await asyncio.gather(
        worker.finish(busy),
        worker.raw("forget", "N001", 60_000, NO_PLACES),
        worker.raw_admit("c", id="op-2"),
    )

    assert again == "granted"
    assert 0 < await redis.pttl(f"{KEYS.history}usps:N001") <= 86_400_000
