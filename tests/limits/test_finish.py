"""The end of a call (lua/finish.lua): thousands of operations end in steps, and who is next.

They end in steps of a hundred, each once, in linear time. When nobody lacked the slot of the call,
those who wait are left to the drainer.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from typing import Any

import pytest
from limits_bench import (
    ANSWERED,
    KEYS,
    USPS,
    Hire,
    Worker,
    counted,
    redis_us,
    sent,
    state,
    the_lease_ends,
    they_expire,
    until,
    verdict,
)
from redis.asyncio import Redis

from limits.keys import write_verdict
from limits.rules import Rules
from tracking.call import Call


async def crowd(
    worker: Worker, count: int, number: str = "N001", prefix: str = "", **fields: Any
) -> None:
    names = (f"{prefix or number}-{n}" for n in range(count))
    asked = (worker.parked(number, id=name, **fields) for name in names)
    await asyncio.gather(*asked)


async def redis_seconds(redis: Redis) -> float:
    """How long Redis has been at work."""
    return float((await redis.info("cpu"))["used_cpu_user"])


async def states(redis: Redis, count: int) -> set[str | None]:
    return {await state(redis, f"N001-{n}") for n in range(count)}


async def test_a_thousand_operations_end_each_once(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await crowd(busy, 1000)
    call = await free.taken()
    assert call.requests == 1000
    assert len(call.operations) == 100

    await free.finish(call)

    assert await states(redis, 1000) == {"SUCCESS"}
    assert await counted(redis, "SUCCESS") == (1000,)
    assert await redis.exists(KEYS.wait_requests) == 0


async def test_a_thousand_operations_end_in_ten_steps(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await crowd(busy, 1000)
    call = await free.taken()
    ends = verdict(call.granted_us // 1000)

    ended = []
    left = [call.id]
    while left:
        _, left, *_ = await free.raw("finish", call.id, ends, "N001", "b", 0)
        ended += await counted(redis, "SUCCESS")

    assert ended[:10] == list(range(100, 1001, 100))
    assert len(ended) <= 11


async def test_the_slot_of_a_call_stays_taken_until_all_its_operations_have_ended(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    """A sweep in between would else take the call for a lost one, and have it made again."""
    await crowd(busy, 150)
    call = await free.taken()
    ends = verdict(call.granted_us // 1000)
    _, left, *_ = await free.raw("finish", call.id, ends, "N001", "b", 0)
    assert left == [call.id]

    _, swept, *_ = await free.raw("sweep", "s")

    assert swept == 0
    await free.raw("finish", call.id, ends, "N001", "b", 0)
    assert await counted(redis, "SUCCESS", "lost") == (150, 0)
    assert await redis.zcard(KEYS.calls_leases) == 1  # of BUSY


async def test_a_worker_that_vanishes_half_way_through_a_finish_leaves_the_rest_to_others(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await crowd(busy, 250)
    call = await free.taken()
    await free.raw("finish", call.id, verdict(call.granted_us // 1000), "N001", "b", 0)

    await the_lease_ends(redis, call)
    await free.raw("sweep", "s")
    again = await free.taken()
    await free.finish(again)

    assert again.requests >= 150
    assert await counted(redis, "SUCCESS") == (250,)
    assert await states(redis, 250) == {"SUCCESS"}


async def test_those_behind_a_call_end_with_it_in_steps_and_the_others_are_called(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted("N001")
    start = await redis_us(redis) // 1000

    async def later() -> bool:
        return await redis_us(redis) // 1000 > start + 1

    await until(later)
    await crowd(worker, 250)
    await asyncio.gather(
        *(worker.parked("N001", id=f"strict-{n}", max_age=0.0) for n in range(150))
    )

    (second,) = (await worker.finish(call, ANSWERED, 5)).calls
    assert second.requests == 150
    assert await states(redis, 250) == {"SUCCESS"}
    await worker.finish(second)

    assert await counted(redis, "SUCCESS") == (401,)
    assert await redis.exists(KEYS.wait_requests) == 0


async def test_hundreds_that_expire_are_looked_at_in_steps(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await crowd(busy, 250, expires_at=time.time() + 600)
    await busy.parked("N001", id="patient")

    await they_expire(redis)
    calls = []
    while await redis.llen(KEYS.wait_list):
        calls += (await free.take()).calls

    assert [call.operations for call in calls] == [("patient",)]
    assert await states(redis, 250) == {"CANCELLED"}


async def test_the_time_for_ids_on_one_number_grows_no_faster_than_their_count(
    worker: Worker, redis: Redis
) -> None:
    """Ten times as many take about ten times as long, and not a hundred times."""
    seconds = []
    for number, count in (("N001", 1_000), ("N002", 10_000)):
        before = await redis_seconds(redis)
        call = await worker.granted(number)
        await crowd(worker, count, number)
        await worker.finish(call)
        seconds.append(await redis_seconds(redis) - before)

    assert await counted(redis, "SUCCESS") == (11_002,)
    assert seconds[1] < 40 * seconds[0]


async def test_a_record_holds_sixteen_ids_and_a_list_the_others(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await crowd(busy, 40)
    waiting = json.loads(str(await redis.hget(KEYS.wait_requests, "N001")))
    assert (len(waiting["newest"]), waiting["listed"], waiting["ids"]) == (16, 24, 40)
    assert await redis.llen(f"{KEYS.operations}N001") == 24

    call = await free.taken()
    await crowd(busy, 20, prefix="late")

    assert len(set(call.operations)) == call.requests == 40
    assert await redis.llen(f"{KEYS.operations}=N001") == 24
    assert await redis.llen(f"{KEYS.operations}N001") == 4


async def test_a_call_that_goes_back_brings_all_its_operations_to_those_that_wait(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await crowd(busy, 40)
    call = await free.taken()
    await crowd(busy, 20, prefix="late")

    await free.limiter.hand_back([call], 0)

    assert await redis.llen(f"{KEYS.operations}N001") == 44
    again = await free.taken()
    assert again.requests == 60
    await free.finish(again)
    assert await counted(redis, "SUCCESS") == (60,)
    assert await redis.keys(f"{KEYS.operations}*") == []


NAMED = [[], [], "named", 0, 0]


async def finished(worker: Worker, call: Call, room: int = 5) -> list[object]:
    """What the script answers, but for the time."""
    verdict = write_verdict(ANSWERED, call.granted_us // 1000, {})
    _, *reply = await worker.raw("finish", call.id, verdict, call.request.number, "f", room)
    return reply


async def somebody_asks_in_a_second(redis: Redis) -> None:
    await redis.set(KEYS.wait_drainer, f"other {await redis_us(redis) + 1_000_000}", px=4_000)


@pytest.fixture
async def calls(usps: Worker) -> list[Call]:
    """Two calls that have just left, with two more waiting for a lane and a drainer."""
    running = [await sent(await usps.granted(f"N00{n}")) for n in (1, 2)]
    await usps.parked("N003")
    await usps.parked("N004")
    assert (await usps.take(5, claims=True)).ask_again is not None
    return running


async def test_finish_leaves_the_line_to_the_named_drainer(
    usps: Worker, calls: list[Call], redis: Redis
) -> None:
    drainer = await redis.get(KEYS.wait_drainer)

    assert await finished(usps, calls[0]) == NAMED

    assert await redis.get(KEYS.wait_drainer) == drainer
    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N003", "N004"]
    assert await redis.get(KEYS.calls_number) == "1"


async def test_the_drainer_that_was_left_alone_takes_in_time(
    usps: Worker, calls: list[Call]
) -> None:
    turn = await usps.take(5)
    for call in calls:
        assert await finished(usps, call) == NAMED
    taken: list[str] = []
    while len(taken) < 2:
        assert turn.ask_again is not None
        await asyncio.sleep(turn.ask_again - asyncio.get_running_loop().time())
        turn = await usps.take(5)
        taken += [call.request.number for call in turn.calls]

    assert taken == ["N003", "N004"]


async def test_the_last_slot_is_given_on_at_once(hire: Hire, redis: Redis) -> None:
    worker = await hire(Rules(concurrent=2, per_second=1000))
    calls = [await sent(await worker.granted(f"N00{n}")) for n in (1, 2)]
    await worker.parked("N003")
    await somebody_asks_in_a_second(redis)

    _, grants, *_ = await finished(worker, calls[0])

    assert isinstance(grants, list)
    assert [str(grant[0]) for grant in grants] == ["f:1"]


async def test_a_drainer_that_is_late_is_not_waited_for(
    usps: Worker, calls: list[Call], redis: Redis
) -> None:
    await redis.set(KEYS.wait_drainer, f"vanished {await redis_us(redis) - 1}", px=3000)

    _, _, why, *_ = await finished(usps, calls[0])

    assert why == "rate"


async def test_without_a_drainer_the_call_that_ends_names_itself(
    usps: Worker, calls: list[Call], redis: Redis
) -> None:
    await redis.delete(KEYS.wait_drainer)

    _, _, why, ask, _ = await finished(usps, calls[0])

    assert (why, await redis.get(KEYS.wait_drainer)) == ("rate", f"{usps.limiter.token} {ask}")


async def test_a_process_without_room_hands_the_slug_over_with_its_call(
    usps: Worker, calls: list[Call]
) -> None:
    _, _, why, _, put = await finished(usps, calls[0], room=0)

    assert (why, put) == ("room", 1)


async def test_the_answer_that_ends_a_brake_lets_others_go_at_once(
    usps: Worker, redis: Redis
) -> None:
    wide = replace(usps, rules=Rules(per_second=1000))
    trial = await sent(await wide.granted())
    await redis.set(KEYS.calls_brake, '{"failed":["N009"],"pauses":1}', px=60_000)
    await wide.parked("N002")
    await somebody_asks_in_a_second(redis)

    _, grants, *_ = await finished(wide, trial)

    assert isinstance(grants, list)
    assert [str(grant[0]) for grant in grants] == ["f:1"]
    assert trial.request.slug == USPS
