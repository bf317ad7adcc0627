"""Each end stands in the stream once, in order; who waits for one hears of it at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest
from limits_bench import DEAD, NO_PLACES, Worker, forget, status
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as NoConnection

from limits import ends as ends_module
from limits.admin.forget import Forgetter
from limits.archive import ToArchive
from limits.connect import RedisAddress, open_redis
from limits.ends import NO_EVENT, Ends, EndStream, EventId, hearing, parse_event_id
from limits.keys import EVENTS, STATUS
from limits.pipeline import unconfirmed
from service.observe.background import Background
from tracking.errors import LimitsBroken

SOON = 5.0
HOUR_MS = 3_600_000
MOST = 10
BYTES_MOST = 60


@pytest.fixture
async def ends(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ends]:
    """Looks at all keys so seldom that only the stream, or beginning to wait, can tell."""
    monkeypatch.setattr(ends_module, "LOOK_SECONDS", 60.0)
    monkeypatch.setattr(ends_module, "AGAIN_SECONDS", 0.01)
    client = open_redis(RedisAddress(redis_url))
    async with hearing(client, client, Background().beside) as made:
        yield made
    await client.aclose()


@pytest.fixture
async def looking(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ends]:
    """Looks often."""
    monkeypatch.setattr(ends_module, "LOOK_SECONDS", 0.05)
    client = open_redis(RedisAddress(redis_url))
    async with hearing(client, client, Background().beside) as made:
        yield made
    await client.aclose()


def waiting(
    ends: Ends, *ids: str, gone: Callable[[], bool] = lambda: False
) -> asyncio.Future[list[bool]]:
    return asyncio.gather(*(ends.ended(each, SOON, gone) for each in ids))


async def readers(redis: Redis) -> list[str]:
    """The connections that wait for an end."""
    return [str(each["id"]) for each in await redis.client_list() if "b" in each["flags"]]


async def reading(redis: Redis) -> str:
    """Wait until somebody waits for an end; tells over which connection."""
    deadline = time.monotonic() + SOON
    while not (found := await readers(redis)):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)
    return found[0]


async def test_an_end_is_told_to_all_who_wait_for_it_and_to_nobody_else(
    ends: Ends, worker: Worker, redis: Redis
) -> None:
    call = await worker.granted("N001", id="a")
    await worker.granted("N002", id="b")
    both, other = waiting(ends, "a", "a"), waiting(ends, "b")
    await reading(redis)

    await worker.finish(call)

    assert await asyncio.wait_for(both, SOON) == [True, True]
    await asyncio.sleep(0)
    assert not other.done()
    other.cancel()


async def test_every_way_to_end_is_told(ends: Ends, busy: Worker, redis: Redis) -> None:
    await busy.parked("N001", id="a")
    await busy.parked("N002", job="j")
    anonymous = "usps:N002:j"
    both = waiting(ends, "a", anonymous)
    await reading(redis)

    await busy.raw("cancel", "N001", "a", NO_PLACES)
    await busy.raw("cancel", "N002", anonymous, NO_PLACES)

    assert await asyncio.wait_for(both, SOON) == [True, True]


async def test_an_id_that_is_not_known_yet_may_be_waited_for(
    ends: Ends, worker: Worker, redis: Redis
) -> None:
    early = waiting(ends, "later")
    await reading(redis)

    await worker.finish(await worker.granted("N001", id="later"))

    assert await asyncio.wait_for(early, SOON) == [True]


async def test_what_ended_before_the_reader_began_is_read(ends: Ends, worker: Worker) -> None:
    await worker.finish(await worker.granted("N001", id="a"))

    assert await asyncio.wait_for(waiting(ends, "a"), SOON) == [True]


async def test_what_ended_before_somebody_came_who_waits_beside_others_is_read(
    ends: Ends, redis: Redis
) -> None:
    other = waiting(ends, "other")
    await reading(redis)
    await redis.set(f"{STATUS}a", '{"status":"SUCCESS"}')

    assert await asyncio.wait_for(waiting(ends, "a"), SOON) == [True]
    other.cancel()


async def test_what_ends_while_the_connection_is_cut_is_read_over_the_next_one(
    ends: Ends, worker: Worker, redis: Redis
) -> None:
    calls = [await worker.granted(f"N00{each}", id=each) for each in "12"]
    both = waiting(ends, "1", "2")
    pipeline = redis.pipeline(transaction=True)
    pipeline.client_kill_filter(_id=await reading(redis))
    pipeline.xadd(EVENTS, {"SUCCESS": "1"})

    await pipeline.execute()
    await worker.finish(calls[1])

    assert await asyncio.wait_for(both, SOON) == [True, True]


async def test_where_ends_may_be_lost_all_who_wait_are_looked_for(
    ends: Ends, worker: Worker, redis: Redis
) -> None:
    await worker.finish(await worker.granted("N001", id="before"))
    await redis.set(f"{STATUS}b", '{"status":"SUCCESS"}')
    held, found = waiting(ends, "a"), waiting(ends, "b")
    assert await found == [True], "both were looked for when the reader began"
    await reading(redis)
    pipeline = redis.pipeline(transaction=True)
    pipeline.flushdb()
    pipeline.set(f"{STATUS}a", '{"status":"SUCCESS"}')
    pipeline.xadd(EVENTS, {"SUCCESS": "another"})

    await pipeline.execute()

    assert await asyncio.wait_for(held, SOON) == [True]


async def test_what_the_stream_swallowed_is_found_by_looking(looking: Ends, redis: Redis) -> None:
    held = waiting(looking, "a")
    await reading(redis)

    await redis.set(f"{STATUS}a", '{"status":"ERROR"}')

    assert await asyncio.wait_for(held, SOON) == [True]


async def test_a_look_that_failed_is_made_again(
    redis_url: str, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends_module, "LOOK_SECONDS", 60.0)
    monkeypatch.setattr(ends_module, "AGAIN_SECONDS", 0.01)
    await redis.set(f"{STATUS}a", '{"status":"SUCCESS"}')
    client = open_redis(RedisAddress(redis_url))
    mget, failures = client.mget, [NoConnection()]

    async def failing(names: list[str]) -> object:
        if failures:
            raise failures.pop()
        return await mget(names)

    monkeypatch.setattr(client, "mget", failing)
    async with hearing(client, client, Background().beside) as made:
        assert await asyncio.wait_for(waiting(made, "a"), SOON) == [True]
    await client.aclose()


async def test_a_stream_of_another_type_is_said_and_waiters_are_looked_for(
    redis_url: str, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends_module, "LOOK_SECONDS", 0.05)
    await redis.set(EVENTS, "by hand")
    said = list[LimitsBroken]()
    client = open_redis(RedisAddress(redis_url))
    async with hearing(client, client, Background().beside, said.append) as made:
        held = waiting(made, "a")
        await asyncio.sleep(0.1)
        await redis.set(f"{STATUS}a", '{"status":"ERROR"}')

        assert await asyncio.wait_for(held, SOON) == [True]
    await client.aclose()
    assert said


async def test_nobody_is_held_longer_than_asked_or_after_having_gone(
    looking: Ends, redis: Redis
) -> None:
    assert await looking.ended("a", 0.01, lambda: False) is False
    left = await asyncio.wait_for(waiting(looking, "b", gone=lambda: True), SOON)
    held = waiting(looking, "c")
    await reading(redis)
    looking.release()

    assert left == [False]
    assert await asyncio.wait_for(held, SOON) == [False]


async def test_nothing_is_read_while_nobody_waits(
    ends: Ends, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends_module, "BLOCK_SECONDS", 0.02)
    assert await ends.ended("a", 0.05, lambda: False) is False
    await asyncio.sleep(0.2)
    before = (await redis.info("commandstats"))["cmdstat_xread"]["calls"]

    await asyncio.sleep(0.2)

    assert (await redis.info("commandstats"))["cmdstat_xread"]["calls"] == before


async def test_a_busy_stream_is_read_so_many_times_a_second_and_to_its_end(
    ends: Ends, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends_module, "READS_PER_SECOND", 20.0)
    monkeypatch.setattr(ends_module, "BURST_SECONDS", 0.1)
    held = waiting(ends, "last")
    await reading(redis)
    before, began = (await redis.info("commandstats"))["cmdstat_xread"]["calls"], time.monotonic()

    for each in range(200):
        await redis.xadd(EVENTS, {"SUCCESS": f"op-{each}"})
        await asyncio.sleep(0.002)
    await redis.xadd(EVENTS, {"SUCCESS": "last"})

    assert await asyncio.wait_for(held, SOON) == [True]
    reads = (await redis.info("commandstats"))["cmdstat_xread"]["calls"] - before
    assert reads < 10 + 20 * (time.monotonic() - began)


async def test_it_stops_whatever_it_is_doing(redis_url: str) -> None:
    client = open_redis(RedisAddress(redis_url))
    for turns in range(60):
        async with asyncio.timeout(SOON), hearing(client, client, Background().beside) as ends:
            held = waiting(ends, "a")
            for _ in range(turns):
                await asyncio.sleep(0)
            held.cancel()
    await client.aclose()


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

    await ToArchive(unconfirmed(redis), "first").ask((), MOST)

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
