"""The lists (lua/lib/waiting.lua): who is next, and what people push in, take out or delete."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
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
    status,
)
from redis.asyncio import Redis

from limits.admin.cancel import Cancelled, Canceller
from limits.admin.view import View
from limits.connect import open_redis
from limits.keys import TO_ARCHIVE
from limits.rules import Rules
from limits.server import RedisAddress
from tracking.call import Full, Granted, TakeResult
from tracking.line import courier_line
from tracking.request import Number, Origin

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

    result = await free.limiter.hand_back([first], 2)

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


async def test_a_long_deleted_list_is_written_again_in_steps(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    asks = (busy.parked(f"N{n:04}", id=None if n % 3 else f"op-{n}") for n in range(1_200))
    await asyncio.gather(*asks)
    await redis.hset(KEYS.wait_requests, "!relist", "0")  # one that was interrupted
    await redis.delete(KEYS.wait_list)
    await redis.config_resetstat()

    # A part of the hash in which all have a place leaves the rest to the next sweep; which parts
    # there are depends on the hash's seed, another one in each Redis.
    for _ in range(5):
        await free.limiter.sweep([USPS])

    scans = (await redis.info("commandstats"))["cmdstat_hscan"]["calls"]
    assert scans > 3
    assert len(set(await redis.lrange(KEYS.wait_list, 0, -1))) == 1_200
    assert await redis.llen(KEYS.wait_list) == 1_200
    assert not await redis.hexists(KEYS.wait_requests, "!relist")


async def test_a_scan_that_gives_all_at_once_is_worked_off_in_steps(
    free: Worker, redis: Redis
) -> None:
    """Redis keeps a small hash of short values as one piece, which HSCAN reads whole."""
    record = json.dumps({"since": 1, "anon": {"id": "j", "at": 1}}, separators=(",", ":"))
    numbers = {f"N{n:03}": record for n in range(400)}
    await redis.hset(KEYS.wait_requests, mapping=numbers)
    assert await redis.object("encoding", KEYS.wait_requests) == "listpack"

    *_, more = await free.raw("sweep", "")
    at_once = await redis.llen(KEYS.wait_list)
    await free.limiter.sweep([USPS])

    assert (more, at_once < 150) == (1, True)
    assert set(await redis.lrange(KEYS.wait_list, 0, -1)) == set(numbers)
    assert not await redis.hexists(KEYS.wait_requests, "!relist")


async def test_a_deleted_list_is_written_again_while_others_wait(
    busy: Worker, redis: Redis
) -> None:
    await busy.parked("OTHER", origin=Origin.AUTOMATIC)
    numbers = {f"N{n:03}" for n in range(30)}
    await asyncio.gather(*(busy.parked(number) for number in numbers))
    await busy.take(1, claims=True)  # the line is drained, so nothing else calls for a sweep
    await redis.delete(KEYS.wait_list)

    await busy.limiter.sweep([USPS])

    assert set(await redis.lrange(KEYS.wait_list, 0, -1)) == numbers


async def test_retries_that_have_no_place_are_put_back_while_others_wait(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    for number in ("LATER1", "LATER2", "LATER3"):
        await free.limiter.retry(await free.granted(number), again_in(60.0), 0)
    await busy.parked("N001")
    await redis.delete(KEYS.wait_later)

    await busy.limiter.sweep([USPS])

    assert set(await redis.lrange(KEYS.wait_list, 0, -1)) == {"N001", "LATER1", "LATER2", "LATER3"}


async def test_what_a_person_took_out_of_a_list_has_its_turn_once_that_is_empty(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await busy.parked("N001")
    await busy.parked("N002", id="op-1")
    await redis.lrem(KEYS.wait_list, 1, "N002")
    await busy.parked("N002", id="op-2")

    await busy.limiter.sweep([USPS])
    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N001"]

    (first,) = (await free.take()).calls
    await free.limiter.sweep([USPS])
    (second,) = (await free.take()).calls
    assert (first.request.number, second.request.number) == ("N001", "N002")
    assert set(second.operations) == {"op-1", "op-2"}


@pytest.mark.parametrize("taken", ["N010 N011", "N000 N001 N030", "the first 100"])
async def test_a_number_that_moved_up_as_a_person_took_others_out_keeps_its_one_place(
    busy: Worker, free: Worker, redis: Redis, taken: str
) -> None:
    everybody = [f"N{n:03}" for n in range(200)]
    for number in everybody:
        await busy.parked(number)
    for number in everybody[:100] if taken == "the first 100" else taken.split():
        await redis.lrem(KEYS.wait_list, 1, number)
    left = await redis.lrange(KEYS.wait_list, 0, -1)

    await free.limiter.sweep([USPS])

    listed = await redis.lrange(KEYS.wait_list, 0, -1)
    assert listed[: len(left)] == left
    assert sorted(listed) == everybody


@pytest.fixture
async def ours(redis_url: str) -> AsyncIterator[Redis]:
    """A connection as all processes have it."""
    client = open_redis(RedisAddress(redis_url))
    yield client
    await client.aclose()


@pytest.mark.parametrize("pushed", [b"AB\xff\xfe", b'AB"CD', b"AB\\CD", b"AB\nCD"])
async def test_cancelled_it_ends_as_an_operation_that_can_be_archived(
    worker: Worker, redis: Redis, ours: Redis, pushed: bytes
) -> None:
    await redis.rpush(KEYS.wait_list, pushed)

    canceller = Canceller(ours, lambda _: worker.rules)
    ((one, came),) = [each async for each in canceller.cancel_courier(USPS)]

    (operation,) = await redis.zrange(TO_ARCHIVE, 0, -1)
    told = await status(redis, operation)
    assert came == Cancelled(1)
    assert operation.startswith(f"usps:{one.number}:hand-")
    assert told is not None
    assert (told["status"], told["tracking"]) == ("CANCELLED", f"usps:{one.number}")


async def test_the_line_and_others_in_it_are_seen_beside_it(
    busy: Worker, redis: Redis, ours: Redis
) -> None:
    await redis.rpush(KEYS.wait_list, b"\xff", "N001")

    view = await View(ours, lambda _: busy.rules).line(courier_line(USPS))
    came = await Canceller(ours, lambda _: busy.rules).cancel(USPS, Number("N001"))

    assert (view.waiting_manual, came) == (2, Cancelled(1))
