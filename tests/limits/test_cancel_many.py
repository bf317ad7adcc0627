"""Cancelling much: all that waits for a courier, or a long list of numbers, holding nobody up."""

from __future__ import annotations

import pytest
from limits_bench import KEYS, USPS, Worker, again_in, counted, state
from redis.asyncio import Redis

from limits.admin import cancel as cancelling
from limits.admin.cancel import Cancelled, Canceller, CancelTarget, NotCancelled
from tracking.request import Number, Origin, Slug

MANY = 3 * cancelling.AT_ONCE + 7


@pytest.fixture
async def canceller(worker: Worker, redis: Redis) -> Canceller:
    return Canceller(redis, lambda _: worker.rules)


async def scripts_run(redis: Redis) -> int:
    return int((await redis.info("commandstats"))["cmdstat_evalsha"]["calls"])


async def test_all_that_waits_for_a_courier_ends_wherever_it_waits(
    busy: Worker, free: Worker, redis: Redis, canceller: Canceller
) -> None:
    await free.limiter.retry(await free.granted("LATER", id="later"), again_in(60.0), 0)
    await busy.parked("BUSY", id="behind")
    for n in range(MANY):
        await busy.parked(f"N{n + 1:03}", id=f"op-{n}")
    await busy.parked("AUTO", id="auto", origin=Origin.AUTOMATIC)
    await redis.rpush(KEYS.wait_list, "HAND", "HAND")

    came = [each async for each in canceller.cancel_courier(USPS)]

    assert sum(each.operations for _, each in came) == MANY + 4
    for operation in ("later", "behind", "op-0", f"op-{MANY - 1}", "auto"):
        assert await state(redis, operation) == "CANCELLED", operation
    assert await counted(redis, "CANCELLED") == (MANY + 4,)
    left = (KEYS.wait_list, KEYS.wait_list_automatic, KEYS.wait_later, KEYS.wait_requests)
    assert await redis.exists(*left) == 0
    assert await redis.exists(KEYS.wait_inflight) == 1


async def test_what_waits_for_another_courier_stays(redis: Redis, canceller: Canceller) -> None:
    await redis.rpush("wait_list:dpd-uk", "N001")

    assert [each async for each in canceller.cancel_courier(USPS)] == []

    assert await canceller.waiting(Slug("dpd-uk")) == 1


async def test_each_of_many_has_its_own_answer_in_their_order(
    busy: Worker, redis: Redis, canceller: Canceller
) -> None:
    await busy.parked("N001", id="op-1")
    await busy.parked("N002", id="op-2")
    await redis.rpush("wait_list:dpd-uk", "N003")
    wanted = [
        CancelTarget(USPS, Number("N001"), "op-1"),
        CancelTarget(Slug("dpd-uk"), Number("N003")),
        CancelTarget(USPS, Number("N001"), "op-2"),
        CancelTarget(USPS, Number("N009")),
        CancelTarget(USPS, Number("N002")),
    ]

    came = [each async for each in canceller.cancel_many(wanted)]

    assert [each for each, _ in came] == wanted
    assert [each for _, each in came] == [
        Cancelled(1),
        Cancelled(1),
        Cancelled(kept=NotCancelled.ELSEWHERE, detail="usps N002"),
        Cancelled(0),
        Cancelled(1),
    ]


async def test_a_script_cancels_no_more_numbers_than_take_a_millisecond(
    busy: Worker, redis: Redis, canceller: Canceller
) -> None:
    for n in range(MANY):
        await busy.parked(f"N{n + 1:03}")
    before = await scripts_run(redis)

    came = [each async for each in canceller.cancel_courier(USPS)]

    assert len(came) == MANY
    assert await scripts_run(redis) - before == 4
