"""Each end stands in the stream once, in order, for an hour."""

from __future__ import annotations

import pytest
from limits_bench import DEAD, Worker, forget, status
from redis.asyncio import Redis

from limits.admin.forget import Forgetter
from limits.archive import ToArchive
from limits.events import NO_EVENT, EndStream, EventId, parse_event_id
from limits.keys import EVENTS

HOUR_MS = 3_600_000
MOST = 10
BYTES_MOST = 60


@pytest.fixture
def stream(redis: Redis) -> EndStream:
    return EndStream(redis)


async def ended(stream: EndStream, at: EventId = NO_EVENT) -> list[tuple[str, str]]:
    found = await stream.after(at, MOST)
    assert found is not None
    return [(each.operation, each.state) for each in found]


async def test_every_end_stands_there_once_whatever_it_comes_from(
    worker: Worker, stream: EndStream, forgetter: Forgetter
) -> None:
    await worker.finish(await worker.granted("N002", id="a"))
    await worker.finish(await worker.granted("N003", id="shop/b"), DEAD)
    await worker.ended("N002", id="c")
    await worker.ended("N002", id="a")
    await worker.granted("N001", id="d")
    await forget(forgetter)
    await forget(forgetter)
    await worker.finish(await worker.granted("N004", job="j"))

    assert await ended(stream) == [
        ("a", "SUCCESS"),
        ("shop/b", "ERROR"),
        ("c", "SUCCESS"),
        ("d", "CANCELLED"),
        ("usps:N004:j", "SUCCESS"),
    ]


async def test_it_is_read_behind_any_end_and_lost_ends_are_noticed(
    worker: Worker, stream: EndStream, redis: Redis
) -> None:
    for each in "abc":
        await worker.finish(await worker.granted(f"N-{each}", id=each))
    first, _, last = (await stream.after(NO_EVENT, MOST)) or ()

    assert await ended(stream, first.at) == [("b", "SUCCESS"), ("c", "SUCCESS")]
    assert [each.operation for each in (await stream.after(first.at, 1)) or ()] == ["b"]
    assert await ended(stream, last.at) == []
    assert await stream.newest() == last.at == parse_event_id(str(last.at))
    await redis.xdel(EVENTS, str(first.at))
    assert await stream.after(first.at, MOST) is None
    assert await stream.after(EventId(last.at.ms + 1, 0), MOST) is None


@pytest.mark.parametrize("text", ["", "1", "1-", "-1-1", "1-1 ", f"{'9' * 20}-0", "a-0"])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no id of an event"):
        parse_event_id(text)


async def test_it_ends_an_hour_after_the_newest_end(worker: Worker, redis: Redis) -> None:
    call = await worker.granted("N001", id="a")
    assert await redis.exists(EVENTS) == 0

    await worker.finish(call)
    assert HOUR_MS - 5_000 < await redis.pttl(EVENTS) <= HOUR_MS
    await redis.pexpire(EVENTS, 1_000)
    await worker.finish(await worker.granted("N002", id="b"))

    assert HOUR_MS - 5_000 < await redis.pttl(EVENTS) <= HOUR_MS


async def test_it_never_holds_more_than_100000_ends_in_some_megabytes(
    worker: Worker, redis: Redis
) -> None:
    fill = (
        "for i = 1, 100200 do redis.call('XADD', KEYS[1], i .. '-0', 'SUCCESS', 'order-' .. i) end"
    )
    await redis.eval(fill, 1, EVENTS)

    await worker.finish(await worker.granted("N001", id="a"))

    assert 99_900 <= await redis.xlen(EVENTS) <= 100_000
    assert await redis.memory_usage(EVENTS, samples=0) < 100_000 * BYTES_MOST


async def test_who_archives_drops_what_ended_more_than_an_hour_ago(
    worker: Worker, redis: Redis, stream: EndStream
) -> None:
    for each in range(250):
        await redis.xadd(EVENTS, {"SUCCESS": f"old-{each}"}, id=f"{each + 1}-0")
    await worker.finish(await worker.granted("N001", id="a"))

    await ToArchive(redis, "first").ask((), MOST)

    assert await redis.xlen(EVENTS) <= 51  # whole blocks go
    assert (await stream.newest()).ms > HOUR_MS


async def test_a_full_redis_ends_operations_and_says_so(
    worker: Worker, redis: Redis, stream: EndStream
) -> None:
    call = await worker.granted("N001", id="a")
    await redis.config_set("maxmemory", 1)
    try:
        await worker.finish(call)
    finally:
        await redis.config_set("maxmemory", 0)

    assert ((await status(redis, "a")) or {})["status"] == "SUCCESS"
    assert await ended(stream) == [("a", "SUCCESS")]
