"""What lua/forget.lua answers, and what ended operations still tell of a forgotten parcel."""

from __future__ import annotations

import asyncio

from limits_bench import (
    ANSWERED,
    KEYS,
    NO_PLACES,
    Hire,
    Worker,
    a_millisecond_goes_by,
    forget,
    status,
)
from redis.asyncio import Redis

from limits.forgetting import Forgetter
from limits.rules import Rules
from tracking.call import IdConflict, Verdict
from tracking.operation import State

STORED = Verdict(State.SUCCESS, {"tag": "Delivered"})


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
