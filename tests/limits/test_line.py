"""Who is next: the order of the lists, and numbers that were pushed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from limits_bench import (
    ANSWERED,
    FAST,
    KEYS,
    USPS,
    Hire,
    Worker,
    again_in,
    counted,
    failed,
    retries_are_due,
    sent,
)
from redis.asyncio import Redis

from limits.rules import Rules
from tracking.call import Full, Granted, TakeResult
from tracking.request import Origin

ONE = replace(FAST, concurrent=1)
AUTOMATIC = Origin.AUTOMATIC


def numbers(result: TakeResult) -> list[str]:
    return [str(call.request.number) for call in result.calls]


async def test_who_came_first_is_called_first(busy: Worker, free: Worker) -> None:
    for number in ("N003", "N001", "N002"):
        await busy.parked(number)

    assert numbers(await free.take()) == ["N003", "N001", "N002"]


async def test_a_request_that_finds_somebody_waiting_goes_behind_them(
    busy: Worker, free: Worker
) -> None:
    await busy.parked("N001")

    assert (await free.parked("N002")).why == "queue"
    assert numbers(await free.take()) == ["N001", "N002"]


async def test_a_retry_that_is_not_due_keeps_nobody_waiting(worker: Worker) -> None:
    await worker.limiter.retry(await worker.granted("N001"), again_in(60.0), 0)

    assert isinstance(await worker.admit("N002"), Granted)


async def test_a_retry_that_is_due_goes_to_the_tail(worker: Worker, redis: Redis) -> None:
    await worker.limiter.retry(await worker.granted("N001"), again_in(60.0), 0)
    await redis.rpush(KEYS.wait_list, "N002")

    await retries_are_due(redis)
    assert (await worker.parked("N003")).why == "queue"

    assert numbers(await worker.take()) == ["N002", "N001", "N003"]


async def test_a_call_handed_back_is_next_again(busy: Worker, free: Worker) -> None:
    await busy.parked("N001")
    await busy.parked("N002")
    (first,) = (await free.take(1)).calls

    result = await free.limiter.hand_back(first, 2)

    assert numbers(result) == ["N001", "N002"]


async def test_one_in_four_is_automatic_while_both_wait(busy: Worker, free: Worker) -> None:
    for n in range(6):
        await busy.parked(f"AUTO{n}", origin=AUTOMATIC)
    for n in range(6):
        await busy.parked(f"HAND{n}")

    order = numbers(await free.take(20))

    assert order == [
        *("HAND0", "HAND1", "HAND2", "AUTO0"),
        *("HAND3", "HAND4", "HAND5", "AUTO1"),
        *("AUTO2", "AUTO3", "AUTO4", "AUTO5"),
    ]


async def test_an_automatic_request_that_somebody_wants_too_moves_to_the_manual_list(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await busy.parked("N001", origin=AUTOMATIC)
    await busy.parked("N002")

    await busy.parked("N001")

    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N002", "N001"]
    assert await redis.llen(KEYS.wait_list_automatic) == 0
    (_, promoted) = (await free.take()).calls
    assert (promoted.request.origin, promoted.requests) == (Origin.MANUAL, 2)


async def test_an_automatic_request_does_not_move_a_manual_one(busy: Worker, redis: Redis) -> None:
    await busy.parked("N001")

    await busy.parked("N001", origin=AUTOMATIC)

    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N001"]
    assert await redis.llen(KEYS.wait_list_automatic) == 0


async def test_an_automatic_retry_that_somebody_wants_too_is_manual_when_due(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted("N001", origin=AUTOMATIC)
    await worker.limiter.retry(call, again_in(60.0), 0)

    await worker.parked("N001")
    await retries_are_due(redis)

    assert (await worker.taken()).request.origin is Origin.MANUAL


async def test_a_full_list_takes_no_new_operation_but_more_requests_without_an_id(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(replace(ONE, max_waiting=2))
    await worker.granted("BUSY")
    await worker.parked("N001")
    await worker.parked("N002")

    assert await worker.admit("N003") == Full(2)
    await worker.parked("N001")
    assert not await redis.hexists(KEYS.wait_requests, "N003")


async def test_operations_of_one_number_count_against_the_most_that_may_wait(hire: Hire) -> None:
    worker = await hire(replace(ONE, max_waiting=3))
    await worker.granted("BUSY")
    for n in range(3):
        await worker.parked("N001", id=f"op-{n}")

    assert await worker.admit("N001", id="op-3") == Full(3)
    assert await worker.admit("N002", id="op-4") == Full(3)
    await worker.parked("N001", id="op-2")


async def test_a_number_pushed_by_hand_is_a_plain_manual_request(
    worker: Worker, redis: Redis
) -> None:
    await redis.rpush(KEYS.wait_list, "N001")

    call = await worker.taken()
    await worker.finish(call)

    assert (call.request.number, call.request.origin) == ("N001", Origin.MANUAL)
    assert call.requests == 1
    assert call.operations[0].startswith("usps:N001:hand-")
    assert await counted(redis, "SUCCESS") == (1,)


async def test_a_new_request_finds_a_number_pushed_by_hand_waiting(
    worker: Worker, redis: Redis
) -> None:
    await redis.rpush(KEYS.wait_list, "N001")

    assert (await worker.parked("N002")).why == "queue"


async def test_a_number_pushed_by_hand_while_it_runs_waits_for_its_own_call(
    worker: Worker, redis: Redis
) -> None:
    running = await worker.granted("N001")
    await redis.rpush(KEYS.wait_list, "N001")

    assert (await worker.take()).calls == ()
    await worker.finish(running, ANSWERED, 5)

    assert await redis.exists(KEYS.wait_list, KEYS.wait_requests, KEYS.wait_inflight) == 0
    assert await counted(redis, "SUCCESS") == (2,)


async def test_a_number_pushed_by_hand_that_waits_already_never_runs_twice_at_once(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await busy.parked("N001", id="op-1")
    await redis.lpush(KEYS.wait_list, "N001")

    (call,) = (await free.take()).calls
    result = await free.finish(call, ANSWERED, 5)

    assert (call.operations, result.calls) == (("op-1",), ())
    assert await redis.exists(KEYS.wait_list, KEYS.wait_requests) == 0


async def test_a_number_pushed_by_hand_and_asked_for_as_well_is_called_once(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await redis.rpush(KEYS.wait_list, "N001")
    await busy.parked("N001", id="op-1")

    call, *others = (await free.take(1)).calls
    result = await free.finish(call, ANSWERED, 5)

    assert (others, result.calls) == ([], ())
    assert call.operations == ("op-1",)
    assert await counted(redis, "SUCCESS") == (2,)
    assert await redis.exists(KEYS.wait_list, KEYS.wait_requests) == 0


async def test_a_number_pushed_by_hand_before_its_retry_is_due_is_called_now(
    worker: Worker, redis: Redis
) -> None:
    await worker.limiter.retry(
        await worker.granted("N001", id="op-1"), failed(delay=3600.0, charged=True), 0
    )

    await redis.rpush(KEYS.wait_list, "N001")
    call = await worker.taken()

    assert (call.operations, call.attempts) == (("op-1",), 1)
    assert await redis.exists(KEYS.wait_list, KEYS.wait_later) == 0


@pytest.mark.parametrize("text", [b"\xff\xfe\x00", b"!relist", b"#op-1", b"=N001", b" ", b"{}"])
async def test_garbage_pushed_by_hand_is_a_call_that_can_end_and_holds_up_nobody(
    worker: Worker, redis: Redis, text: bytes
) -> None:
    await redis.rpush(KEYS.wait_list, text, "N001")

    garbage, after = (await worker.take()).calls
    for call in (garbage, after):
        await worker.finish(call)

    assert after.request.number == "N001"
    assert await counted(redis, "SUCCESS") == (2,)
    assert await redis.exists(KEYS.wait_list, KEYS.wait_inflight, KEYS.wait_requests) == 0


async def test_requests_for_one_courier_never_wait_for_another(busy: Worker, redis: Redis) -> None:
    await busy.parked("N001")

    assert isinstance(await busy.admit("N001", slug="dpd-uk"), Granted)
    assert await redis.smembers(KEYS.lines) == {USPS, "dpd-uk"}


async def test_after_a_pause_another_one_than_failed_is_the_first_to_try(hire: Hire) -> None:
    worker = await hire(Rules())
    call = await sent(await worker.granted("N001"))
    await worker.limiter.retry(call, failed("rate_limited", named=0.05), 0)
    await worker.parked("N002")

    await worker.clock.settled()
    taken: list[str] = []
    while len(taken) < 1:
        taken += numbers(await worker.take(1))

    assert taken == ["N002"]
