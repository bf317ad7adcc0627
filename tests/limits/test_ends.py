"""Who waits for the end of an operation hears of it at once, whatever Redis forgot meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest
from limits_bench import NO_PLACES, Hire, Worker, state
from redis.asyncio import Redis

from limits import ends as ends_module
from limits.connect import open_redis
from limits.ends import Ends, hearing
from limits.keys import STATUS
from limits.server import RedisAddress
from service.observe.background import Background

SOON = 5.0


@pytest.fixture
async def ends(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ends]:
    """Looks so seldom that only what is published or subscribed to can tell."""
    monkeypatch.setattr(ends_module, "LOOK_SECONDS", 60.0)
    monkeypatch.setattr(ends_module, "SILENCE_SECONDS", 60.0)
    monkeypatch.setattr(ends_module, "AGAIN_SECONDS", 0.01)
    client = open_redis(RedisAddress(redis_url))
    async with hearing(client, Background().beside) as made:
        yield made
    await client.aclose()


@pytest.fixture
async def looking(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ends]:
    """Looks often."""
    monkeypatch.setattr(ends_module, "LOOK_SECONDS", 0.05)
    client = open_redis(RedisAddress(redis_url))
    async with hearing(client, Background().beside) as made:
        yield made
    await client.aclose()


def waiting(
    ends: Ends, *ids: str, gone: Callable[[], bool] = lambda: False
) -> asyncio.Future[list[bool]]:
    return asyncio.gather(*(ends.ended(each, SOON, gone) for each in ids))


async def subscribed(redis: Redis, *ids: str, count: int = 1) -> None:
    names = [f"{STATUS}{each}" for each in ids]
    deadline = time.monotonic() + SOON
    while {n for _, n in await redis.pubsub_numsub(*names)} != {count}:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def listening(redis: Redis) -> list[str]:
    return [str(each["id"]) for each in await redis.client_list() if int(each["sub"]) > 0]


async def test_an_end_is_told_to_all_who_wait_for_it_and_to_nobody_else(
    ends: Ends, worker: Worker, redis: Redis
) -> None:
    call = await worker.granted("N001", id="a")
    await worker.granted("N002", id="b")
    both, other = waiting(ends, "a", "a"), waiting(ends, "b")
    await subscribed(redis, "a", "b")

    await worker.finish(call)

    assert await asyncio.wait_for(both, SOON) == [True, True]
    await subscribed(redis, "a", count=0)
    assert not other.done()
    other.cancel()


async def test_every_way_to_end_is_told(ends: Ends, busy: Worker, redis: Redis) -> None:
    await busy.parked("N001", id="a")
    await busy.parked("N002", job="j")
    anonymous = "usps:N002:j"
    both = waiting(ends, "a", anonymous)
    await subscribed(redis, "a", anonymous)

    await busy.raw("cancel", "N001", "a", NO_PLACES)
    await busy.raw("cancel", "N002", anonymous, NO_PLACES)

    assert await asyncio.wait_for(both, SOON) == [True, True]


async def test_an_id_that_is_not_known_yet_may_be_waited_for(
    ends: Ends, worker: Worker, redis: Redis
) -> None:
    early = waiting(ends, "later")
    await subscribed(redis, "later")

    await worker.finish(await worker.granted("N001", id="later"))

    assert await asyncio.wait_for(early, SOON) == [True]


async def test_what_ended_before_the_subscription_is_read(ends: Ends, worker: Worker) -> None:
    await worker.finish(await worker.granted("N001", id="a"))

    assert await asyncio.wait_for(waiting(ends, "a"), SOON) == [True]


async def test_what_ends_while_the_connection_is_cut_is_read_over_the_next_one(
    ends: Ends, worker: Worker, redis: Redis
) -> None:
    calls = [await worker.granted(f"N00{each}", id=each) for each in "123"]
    all_three = waiting(ends, "1", "2", "3")
    await subscribed(redis, "1", "2", "3")
    [first] = await listening(redis)
    pipeline = redis.pipeline(transaction=True)
    pipeline.client_kill_filter(_id=first)
    for each in "12":  # behind the connection's back
        pipeline.set(f"{STATUS}{each}", '{"status":"SUCCESS"}')

    await pipeline.execute()
    await subscribed(redis, "3")
    await worker.finish(calls[2])

    assert await asyncio.wait_for(all_three, SOON) == [True, True, True]


async def test_what_pubsub_swallowed_is_found_by_looking(looking: Ends, redis: Redis) -> None:
    held = waiting(looking, "a")
    await subscribed(redis, "a")

    await redis.set(f"{STATUS}a", '{"status":"ERROR"}')

    assert await asyncio.wait_for(held, SOON) == [True]


async def test_a_connection_that_says_nothing_is_given_up(
    ends: Ends, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends_module, "SILENCE_SECONDS", 0.05)
    held = waiting(ends, "a")
    seen = set(await listening(redis))

    deadline = time.monotonic() + SOON
    while len(seen) < 2:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
        seen.update(await listening(redis))

    held.cancel()


async def test_nobody_is_held_longer_than_asked_or_after_having_gone(
    looking: Ends, redis: Redis
) -> None:
    assert await looking.ended("a", 0.01, lambda: False) is False
    left = await asyncio.wait_for(waiting(looking, "b", gone=lambda: True), SOON)
    held = waiting(looking, "c")
    await subscribed(redis, "c")
    looking.release()

    assert left == [False]
    assert await asyncio.wait_for(held, SOON) == [False]
    await subscribed(redis, "a", "b", "c", count=0)


async def test_it_stops_whatever_it_is_doing(redis_url: str) -> None:
    client = open_redis(RedisAddress(redis_url))
    for turns in range(60):
        async with asyncio.timeout(SOON), hearing(client, Background().beside):
            for _ in range(turns):
                await asyncio.sleep(0)
    await client.aclose()


async def test_a_user_without_channels_ends_operations_all_the_same(
    worker: Worker, hire: Hire, redis: Redis, redis_url: str
) -> None:
    call = await worker.granted("N001", id="a")
    await redis.execute_command(
        "ACL", "SETUSER", "mute", "on", ">pw", "~*", "+@all", "resetchannels"
    )
    try:
        host = redis_url.removeprefix("redis://")
        login = RedisAddress(f"redis://mute:pw@{host}")
        await (await hire(address=login)).finish(call)
    finally:
        await redis.acl_deluser("mute")

    assert await state(redis, "a") == "SUCCESS"
