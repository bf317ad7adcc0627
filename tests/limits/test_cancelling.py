"""What waits is cancelled by number, by id or by the line, at any moment (lua/cancel.lua)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from held import look, since
from limits_bench import (
    DEAD,
    KEYS,
    NO_PLACES,
    USPS,
    Worker,
    again_in,
    counted,
    retries_are_due,
    state,
    status,
    verdict,
)
from redis.asyncio import Redis

from limits.admin import cancel as cancelling
from limits.admin.cancel import Cancelled, Canceller, CancelTarget, NotCancelled
from tracking.call import Granted
from tracking.operation import State
from tracking.request import Number, Origin, Slug

LONG_CHAIN = 250
CANCELLED = {"code": "cancelled", "message": "cancelled by hand"}


async def cancel_number(worker: Worker, number: str = "N001") -> int:
    _, word, cancelled, more = await worker.raw("cancel", number, "", NO_PLACES)
    assert word == "cancelled"
    return int(cancelled) + (await cancel_number(worker, number) if more else 0)


async def cancel_id(worker: Worker, operation: str, number: str = "N001") -> list[Any]:
    _, *reply = await worker.raw("cancel", number, operation, NO_PLACES)
    return reply


ONE = ["cancelled", 1, 0]


async def test_all_that_wait_for_a_number_end_cancelled(busy: Worker, redis: Redis) -> None:
    await busy.parked("N001", id="op-1")
    await busy.parked("N001", id="op-2")
    await busy.parked("N001", job="job-3")

    assert await cancel_number(busy) == 3

    assert await state(redis, "op-1") == await state(redis, "op-2") == "CANCELLED"
    assert await state(redis, "usps:N001:job-3") == "CANCELLED"
    assert await counted(redis, "CANCELLED") == (3,)
    assert await redis.exists(KEYS.wait_list, KEYS.wait_requests) == 0


async def test_what_was_cancelled_before_has_ended(busy: Worker, redis: Redis) -> None:
    await busy.parked("N001", id="op-1")
    await busy.parked("N001", id="op-2")
    await cancel_id(busy, "op-1")

    assert await cancel_id(busy, "op-1") == ["ended", "CANCELLED"]

    assert await counted(redis, "CANCELLED") == (1,)


async def test_a_cancelled_operation_says_why(busy: Worker, redis: Redis) -> None:
    await busy.parked("N001", id="op-1")
    await cancel_id(busy, "op-1")

    found = await status(redis, "op-1")

    assert found is not None
    assert (found["status"], found["output"]) == ("CANCELLED", CANCELLED)
    assert found["finishedAt"] is not None


async def test_people_cancel_by_number_or_by_id_whatever_the_length_of_the_chain(
    busy: Worker, redis: Redis
) -> None:
    canceller = Canceller(redis, lambda _: busy.rules)
    await chain(busy)
    await busy.parked("N002", id="one")
    await busy.parked("N002", id="other")

    assert await canceller.cancel(USPS, Number("N001")) == Cancelled(LONG_CHAIN)
    assert await canceller.cancel(USPS, Number("N002"), "one") == Cancelled(1)
    assert await canceller.cancel(USPS, Number("N009")) == Cancelled(0)

    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N002"]
    assert await counted(redis, "CANCELLED") == (LONG_CHAIN + 1,)


async def test_when_the_last_one_is_cancelled_flag_and_drainer_go(
    busy: Worker, redis: Redis
) -> None:
    await busy.parked("N001", id="op-1")

    await cancel_id(busy, "op-1")

    left = (KEYS.wait_list, KEYS.wait_requests, KEYS.wait_drainer, KEYS.wait_list_activated)
    assert await redis.exists(*left) == 0


async def test_one_of_several_is_cancelled_by_its_id(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    for operation in ("op-1", "op-2", "op-3"):
        await busy.parked("N001", id=operation)

    assert await cancel_id(busy, "op-2") == ONE
    call = await free.taken()
    await free.finish(call)

    assert call.requests == 2
    assert await counted(redis, "SUCCESS", "CANCELLED") == (2, 1)
    assert await state(redis, "op-2") == "CANCELLED"
    assert await redis.exists(KEYS.wait_requests) == 0


async def test_a_number_that_a_request_without_an_id_wants_too_stays_in_line(
    busy: Worker, free: Worker
) -> None:
    await busy.parked("N001", id="op-1")
    await busy.parked("N001")

    assert await cancel_id(busy, "op-1") == ONE

    assert (await free.taken()).requests == 1


async def test_an_id_that_nobody_has_seen_is_unknown_and_can_still_be_put(
    worker: Worker, redis: Redis
) -> None:
    assert await cancel_id(worker, "op-1") == ["unknown"]

    assert isinstance(await worker.admit("N001", id="op-1"), Granted)
    assert await counted(redis, "CANCELLED") == (0,)


@pytest.mark.parametrize("elsewhere", ["waits", "runs"])
async def test_an_id_of_another_number_is_left_alone_and_its_number_named(
    worker: Worker, redis: Redis, elsewhere: str
) -> None:
    await worker.granted("N001", id="runs")
    await worker.parked("N001", id="waits")
    held = await look(redis)

    assert await cancel_id(worker, elsewhere, "N002") == ["elsewhere", "usps:N001"]

    before, after = await since(redis, held)
    assert after == before


async def test_an_id_of_another_courier_is_left_alone_and_its_parcel_named(
    busy: Worker, redis: Redis
) -> None:
    canceller = Canceller(redis, lambda _: busy.rules)
    await busy.parked("N001", id="op-1")
    held = await look(redis)

    found = await canceller.cancel(Slug("dpd-uk"), Number("N001"), "op-1")

    assert found == Cancelled(kept=NotCancelled.ELSEWHERE, detail="usps N001")
    before, after = await since(redis, held)
    assert after == before


async def test_what_ended_stays_as_it_ended(worker: Worker, redis: Redis) -> None:
    await worker.finish(await worker.granted("N001", id="op-1"))

    assert await cancel_id(worker, "op-1") == ["ended", "SUCCESS"]
    assert await cancel_number(worker) == 0
    assert await state(redis, "op-1") == "SUCCESS"


async def test_what_runs_is_not_touched(worker: Worker, redis: Redis) -> None:
    call = await worker.granted("N001", id="op-1")

    assert await cancel_id(worker, "op-1") == ["running"]
    assert await cancel_number(worker) == 0
    await worker.finish(call)

    assert await state(redis, "op-1") == "SUCCESS"
    assert await counted(redis, "SUCCESS", "CANCELLED") == (1, 0)


async def test_a_request_behind_a_running_call_can_be_cancelled(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted("N001", id="op-1")
    await worker.parked("N001", id="op-2")

    assert await cancel_number(worker) == 1
    await worker.finish(call)

    assert await state(redis, "op-1") == "SUCCESS"
    assert await state(redis, "op-2") == "CANCELLED"


async def test_a_retry_is_cancelled_wherever_it_waits(worker: Worker, redis: Redis) -> None:
    await worker.repeat(await worker.granted("N001", id="op-1"))

    assert await cancel_number(worker) == 1
    await retries_are_due(redis)

    assert (await worker.take()).calls == ()
    assert await redis.exists(KEYS.wait_later, KEYS.wait_requests) == 0


async def test_an_automatic_request_is_cancelled_in_its_own_list(
    busy: Worker, redis: Redis
) -> None:
    await busy.parked("N001", id="op-1", origin=Origin.AUTOMATIC)
    await busy.parked("N002", id="op-2", origin=Origin.AUTOMATIC)

    assert await cancel_number(busy) == 1

    assert await redis.lrange(KEYS.wait_list_automatic, 0, -1) == ["N002"]


async def test_a_number_pushed_by_hand_is_cancelled(worker: Worker, redis: Redis) -> None:
    await redis.rpush(KEYS.wait_list, "N001", "N002")

    canceller = Canceller(redis, lambda _: worker.rules)
    assert await canceller.cancel(USPS, Number("N001")) == Cancelled(1)
    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N002"]
    assert await counted(redis, "CANCELLED") == (1,)


async def chain(worker: Worker) -> list[str]:
    operations = [f"op-{n}" for n in range(LONG_CHAIN)]
    for operation in operations:
        await worker.parked("N001", id=operation)
    return operations


async def test_a_long_chain_ends_in_several_calls_each_once(busy: Worker, redis: Redis) -> None:
    await chain(busy)

    assert await cancel_number(busy) == LONG_CHAIN

    assert await counted(redis, "CANCELLED") == (LONG_CHAIN,)
    assert await redis.exists(KEYS.wait_list, KEYS.wait_requests) == 0


async def test_a_long_chain_cancelled_one_by_one_is_gone_without_a_call(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    for operation in await chain(busy):
        assert await cancel_id(busy, operation) == ONE

    while await redis.exists(KEYS.wait_list):
        assert (await free.take()).calls == ()

    assert await counted(redis, "CANCELLED") == (LONG_CHAIN,)
    assert await redis.exists(KEYS.wait_requests) == 0


@pytest.mark.parametrize("which", ["op-0", f"op-{LONG_CHAIN - 1}"], ids=["oldest", "newest"])
async def test_of_a_long_chain_that_runs_none_is_touched(
    busy: Worker, free: Worker, redis: Redis, which: str
) -> None:
    await chain(busy)
    call = await free.taken()

    assert await cancel_id(busy, which) == ["running"]
    await free.finish(call)

    assert await counted(redis, "SUCCESS", "CANCELLED") == (LONG_CHAIN, 0)


async def test_a_cancel_between_two_steps_of_a_finish_loses_nobody(
    worker: Worker, redis: Redis
) -> None:
    """The first step has looked at 100 of those behind and kept the ones it does not serve."""
    now, *_ = await worker.raw_admit("c")
    for n in range(LONG_CHAIN):
        await worker.parked("N001", id=f"op-{n}", max_age=0.0)
    _, left, *_ = await worker.raw("finish", "c", verdict(now // 1000 - 1), "N001", "b", 0)
    assert left == ["c"]

    await cancel_number(worker)

    assert await counted(redis, "CANCELLED") == (LONG_CHAIN,)
    assert await redis.hlen(KEYS.wait_requests) == 0


async def test_a_cancelled_id_stays_cancelled_and_its_number_can_be_asked_for(
    worker: Worker,
) -> None:
    call = await worker.granted("N001")
    await worker.parked("N001", id="op-1")
    await cancel_number(worker)
    await worker.finish(call, DEAD)

    assert await worker.ended("N001", id="op-1") is State.CANCELLED
    assert isinstance(await worker.admit("N001", id="op-2"), Granted)


MANY = 3 * cancelling.AT_ONCE + 7


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


async def test_who_came_in_the_millisecond_of_a_grant_and_after_it_waits_and_can_be_cancelled(
    worker: Worker, redis: Redis
) -> None:
    _, _, call = await worker.raw_admit("b")
    await worker.raw_admit("c", id="op-1")
    waiting = json.loads(str(await redis.get(f"{KEYS.status}op-1")))
    waiting["at"] = int(call[2]) // 1000
    await redis.set(f"{KEYS.status}op-1", json.dumps(waiting))

    _, word, *_ = await worker.raw("cancel", "N001", "op-1", NO_PLACES)

    assert word == "cancelled"
