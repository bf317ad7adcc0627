"""A call ends whose slot nobody lacked: those who wait are left to the drainer."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from limits_bench import ANSWERED, KEYS, USPS, Hire, Worker, redis_us, sent
from redis.asyncio import Redis

from limits.keys import write_verdict
from limits.rules import Rules
from tracking.call import Call

NAMED = [0, [], "named", 0, 0]


async def finished(worker: Worker, call: Call, room: int = 5) -> list[object]:
    """What the script answers, but for the time."""
    verdict = write_verdict(ANSWERED, call.granted_us // 1000)
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
