"""Whose fault a failed call was, its number's or its courier's: the answers of others tell."""

from __future__ import annotations

import asyncio
from typing import Any

from limits_bench import (
    DEAD,
    KEYS,
    Worker,
    a_millisecond_goes_by,
    counted,
    everything,
    failed,
    retries_are_due,
    state,
)
from redis.asyncio import Redis

from tracking.call import Call, TakeResult


async def fail(worker: Worker, call: Call, **more: Any) -> TakeResult:
    """As the policy has it: charged where others are answered."""
    setback = failed("courier_down", **({"charged": True, "spares": True} | more))
    return await worker.limiter.retry(call, setback, 0)


async def answered(worker: Worker, redis: Redis, number: str = "GOOD") -> None:
    await worker.finish(await worker.granted(number, max_age=0))
    await a_millisecond_goes_by(redis)


async def tried_again(worker: Worker, redis: Redis) -> Call:
    await retries_are_due(redis)
    return await worker.taken()


async def test_a_failure_is_charged_once_another_number_was_answered_since_the_last_one(
    worker: Worker, redis: Redis
) -> None:
    await fail(worker, await worker.granted("BAD"))
    await answered(worker, redis)

    second = await tried_again(worker, redis)
    await fail(worker, second)
    third = await tried_again(worker, redis)
    await fail(worker, third)
    fourth = await tried_again(worker, redis)

    assert [(each.attempts, each.tries) for each in (second, third, fourth)] == [
        (0, 1),
        (1, 2),
        (1, 3),
    ]
    assert third.failing_since == second.failing_since is not None


async def test_a_first_failure_is_charged_to_nobody(worker: Worker, redis: Redis) -> None:
    await fail(worker, await worker.granted("FIRST"))
    bad = await worker.granted("BAD")
    await answered(worker, redis)
    await redis.zrem(KEYS.wait_later, "FIRST")

    await fail(worker, bad)

    assert (await tried_again(worker, redis)).attempts == 0


async def test_a_number_that_fails_is_charged_although_its_calls_run_in_step_with_anothers(
    worker: Worker, redis: Redis
) -> None:
    """Each of its calls was granted before the other's answer came: so nobody was ever charged."""
    charged, bad = [], await worker.granted("BAD")
    for _ in range(4):
        await answered(worker, redis)
        await fail(worker, bad)
        bad = await tried_again(worker, redis)
        charged.append(bad.attempts)

    assert charged == [0, 1, 2, 3]


async def test_an_answer_from_before_it_failed_is_held_against_nobody(
    worker: Worker, redis: Redis
) -> None:
    await fail(worker, await worker.granted("FIRST"))
    await answered(worker, redis)
    await fail(worker, await worker.granted("BAD"))
    await redis.zrem(KEYS.wait_later, "FIRST")

    await fail(worker, await tried_again(worker, redis))

    assert (await tried_again(worker, redis)).attempts == 0


async def test_an_answer_that_follows_within_the_millisecond_counts(
    worker: Worker, redis: Redis
) -> None:
    bad, good = await worker.granted("BAD"), await worker.granted("GOOD")
    await asyncio.gather(fail(worker, bad), worker.finish(good))  # one script, one time

    await fail(worker, await tried_again(worker, redis))

    assert (await tried_again(worker, redis)).attempts == 1


async def test_an_answer_that_went_before_within_the_millisecond_does_not(
    worker: Worker, redis: Redis
) -> None:
    await fail(worker, await worker.granted("FIRST"))
    good, bad = await worker.granted("GOOD"), await worker.granted("BAD")
    await asyncio.gather(worker.finish(good), fail(worker, bad))
    await redis.zrem(KEYS.wait_later, "FIRST")

    await fail(worker, await tried_again(worker, redis))

    assert (await tried_again(worker, redis)).attempts == 0


async def test_a_kind_that_spares_nobody_charges_every_failure(
    worker: Worker, redis: Redis
) -> None:
    bad = await worker.granted("BAD")

    await fail(worker, bad, spares=False)

    assert (await tried_again(worker, redis)).attempts == 1


async def test_the_last_attempt_changes_nothing_until_its_call_is_recorded_as_dead(
    worker: Worker, redis: Redis
) -> None:
    await fail(worker, await worker.granted("BAD", id="op-1"), attempts=1)
    await answered(worker, redis)
    last = await tried_again(worker, redis)
    before = await everything(redis)

    turns = [await fail(worker, last, attempts=1) for _ in range(2)]

    assert turns == [TakeResult(used_up=True)] * 2
    assert await everything(redis) == before
    await worker.finish(last, DEAD)
    assert (await state(redis, "op-1"), await counted(redis, "ERROR")) == ("ERROR", (1,))
    assert not await redis.exists(KEYS.calls_leases, KEYS.wait_inflight)


async def test_a_number_that_fails_alone_has_no_last_attempt(worker: Worker, redis: Redis) -> None:
    bad = await worker.granted("BAD")

    for _ in range(3):
        assert not (await fail(worker, bad, attempts=1)).used_up
        bad = await tried_again(worker, redis)
