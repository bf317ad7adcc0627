"""What people push into the lists, take out of them, or delete."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from limits_bench import KEYS, USPS, Worker, again_in, status
from redis.asyncio import Redis

from limits.admin.cancel import Cancelled, Canceller
from limits.admin.view import View
from limits.connect import open_redis
from limits.keys import TO_ARCHIVE
from limits.server import RedisAddress
from tracking.line import courier_line
from tracking.request import Number, Origin


async def test_a_long_deleted_list_is_written_again_in_steps(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    asks = (busy.parked(f"N{n:04}", id=None if n % 3 else f"op-{n}") for n in range(1_200))
    await asyncio.gather(*asks)
    await redis.hset(KEYS.wait_requests, "!relist", "0")  # one that was interrupted
    await redis.delete(KEYS.wait_list)
    await redis.config_resetstat()

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
