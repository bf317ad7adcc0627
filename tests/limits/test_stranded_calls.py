"""What was granted in a reply that was lost for good is granted again to the next try."""

from __future__ import annotations

from dataclasses import replace

import pytest
from limits_bench import ANSWERED, DEAD, FAST, KEYS, Hire, again_in
from redis.asyncio import Redis

from limits.limiter import Policy
from tracking.call import Dying


@pytest.mark.parametrize("end", ["finish", "retry", "hand_back"])
async def test_what_the_end_of_a_call_took_comes_again_after_a_lost_reply(
    hire: Hire, redis: Redis, end: str
) -> None:
    """Nobody else asks for it: it would wait for the end of its lease, and be charged a death."""
    worker = await hire(replace(FAST, concurrent=2))
    call, other = await worker.granted("N001"), await worker.granted("N002")
    await redis.rpush(KEYS.wait_list, "N003", "N004", "N005")
    step = {
        "finish": lambda: worker.limiter.finish(call, ANSWERED, 2),
        "retry": lambda: worker.limiter.retry(call, again_in(60.0), 2),
        "hand_back": lambda: worker.limiter.hand_back(call, 2),
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
        await worker.limiter.finish(call, ANSWERED, 1),
        await worker.limiter.finish(dying.call, DEAD, 1),
    ]

    assert [each.request.number for turn in turns for each in turn.calls] == ["N002", "N003"]
