"""Whatever somebody pushes to a list by hand, bytes that are no text as well, harms nobody else."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from limits_bench import KEYS, USPS, Worker, status
from redis.asyncio import Redis

from limits.admin.cancel import Cancelled, Canceller
from limits.admin.view import View
from limits.connect import open_redis
from limits.keys import TO_ARCHIVE
from limits.server import RedisAddress
from tracking.line import courier_line
from tracking.request import Number


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
