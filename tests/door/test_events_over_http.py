"""`/v1/events`: each end once and in order, for its account alone, across cuts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from door_ground import Client, FixedKeys, refused
from events_ground import SOON, STREAM, add, end, hearing, opened, sealed
from limits_bench import Worker, until
from operations_ground import ARCHIVED, serving_all
from pymongo import MongoClient
from redis.asyncio import Redis

from devstack.stack import Stack
from limits import ends
from service.api import events as api_events
from service.api.callers import Callers
from service.client import listeners
from service.client.keys import Scope
from tracking.call import Verdict
from tracking.operation import State

DELIVERED = {"tag": "Delivered", "subtag": "Delivered_001", "delivered": True, "checkpoints": 3}


async def test_an_end_is_told_as_the_operation_tells_it(api: Client, worker: Worker) -> None:
    async with hearing(api) as heard:
        call = await worker.granted("N001", id="a")
        await worker.finish(call, Verdict(State.SUCCESS, DELIVERED))

        told = await heard.next()

    asked = await (await api.get("/v1/operations/a")).json()
    assert told == {
        name: asked[name] for name in ("id", "slug", "number", "status", "finishedAt", "output")
    }
    assert told["output"] == DELIVERED


async def test_all_who_listen_hear_of_each_end_in_order(
    api: Client, worker: Worker, redis: Redis
) -> None:
    async with hearing(api) as one, hearing(api) as other:
        await end(worker, "a", "b", "c")

        assert await one.ids(3) == await other.ids(3) == ["a", "b", "c"]
        assert one.last != other.last
        assert await opened(redis, one.last) == await opened(redis, other.last)


async def test_who_was_cut_off_hears_what_it_missed_and_then_goes_on(
    api: Client, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "AT_ONCE", 2)
    async with hearing(api) as heard:
        await end(worker, "a")
        await heard.ids(1)
    await end(worker, *"bcdef")

    async with hearing(api, last=heard.last) as again:
        assert await again.ids(5) == [*"bcdef"]
        await end(worker, "g")
        assert await again.ids(1) == ["g"]


async def test_whenever_somebody_begins_nothing_is_skipped_or_told_twice(
    api: Client, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "AT_ONCE", 3)
    sent = [f"op-{n}" for n in range(60)]
    await redis.mset({f"tracking:status:{each}": '{"status":"SUCCESS"}' for each in sent})
    begin = await sealed(redis, await redis.xadd(STREAM, {"SUCCESS": "begin"}))
    adding = asyncio.create_task(one_by_one(redis, sent))

    async def follow(turns: int) -> list[str]:
        await until(lambda: reached(redis, turns))
        async with hearing(api, last=begin) as heard:
            return await heard.ids(len(sent))

    followed = await asyncio.gather(*(follow(turns) for turns in range(0, 60, 10)))

    await adding
    assert followed == [sent] * len(followed)


async def one_by_one(redis: Redis, ids: list[str]) -> None:
    for each in ids:
        await add(redis, each)


async def reached(redis: Redis, count: int) -> bool:
    return await redis.xlen(STREAM) >= count


async def test_who_heard_of_nothing_before_it_was_cut_off_misses_nothing(
    api: Client, worker: Worker
) -> None:
    await end(worker, "before")
    async with hearing(api) as heard:
        pass
    await end(worker, "a")

    async with hearing(api, last=heard.last) as again:
        assert await again.ids(1) == ["a"]


@pytest.mark.parametrize("last", ["5-0", "9999999999999-0", "0-0"])
async def test_who_may_miss_ends_hears_that_first(
    api: Client, worker: Worker, redis: Redis, last: str
) -> None:
    await end(worker, "lost")

    async with hearing(api, last=await sealed(redis, last)) as heard:
        assert "ask for the operations" in (await heard.next("reset"))["detail"]
        resumed = heard.last
        await heard.begun()
        await end(worker, "a")
        assert await heard.ids(1) == ["a"]

    async with hearing(api, last=resumed) as again:
        assert await again.ids(1) == ["a"]


async def test_what_nothing_was_missed_of_is_no_reset(
    api: Client, worker: Worker, redis: Redis
) -> None:
    async with hearing(api) as heard:
        assert await opened(redis, heard.last) == "0-0"
    async with hearing(api, last=heard.last) as again:
        await again.begun()
        await end(worker, "a")
        assert await again.ids(1) == ["a"]


@pytest.mark.parametrize("text", ["soon", "é", "====", "1777881601700-0", "A" * 60])
async def test_who_comes_with_an_id_of_nothing_hears_that_it_may_miss_ends(
    api: Client, text: str
) -> None:
    async with hearing(api, last=text) as heard:
        await heard.next("reset")


async def test_an_id_of_before_redis_lost_its_state_is_no_id(
    api: Client, redis: Redis, worker: Worker
) -> None:
    async with hearing(api) as heard:
        await end(worker, "a")
        await heard.ids(1)
    await redis.flushdb()

    async with hearing(api, last=heard.last) as again:
        await again.next("reset")


async def test_what_a_client_reads_tells_nothing_of_others_ends(
    api: Client, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_events, "HEARTBEAT_SECONDS", 0.02)
    async with hearing(api) as heard:
        quiet = [heard.last]
        for _ in range(3):
            await heard.begun()
            quiet.append(heard.last)
        await redis.xadd(STREAM, {"SUCCESS": "shop/a"})
        await heard.begun()

    assert len({*quiet, heard.last}) == 5  # another text each time, whatever ends
    assert {len(each) for each in (*quiet, heard.last)} == {60}
    assert {await opened(redis, each) for each in quiet} == {"0-0"}


async def test_two_accounts_never_hear_of_each_other(
    disk: Path, settings: dict[str, str], worker: Worker
) -> None:
    keys = FixedKeys()
    shop, main = (keys.make(name, Scope.READ) for name in ("shop", "main"))
    callers = Callers(keys, 1_000.0)
    async with (
        serving_all(disk / "spool.sqlite", settings, callers=callers) as api,
        hearing(api, as_api_key=shop) as of_shop,
        hearing(api, as_api_key=main) as of_main,
    ):
        await end(worker, "shop/a", "b", "shop/c", "shopping/d", "e")

        assert await of_shop.ids(2) == ["a", "c"]
        assert await of_main.ids(2) == ["b", "e"]
        await refused(await api.get("/v1/events"), 401)
        named = await api.get("/v1/events?id=shop%2Fa", headers={"as-api-key": main})
        await refused(named, 404)


async def test_while_redis_is_away_listeners_stay_and_miss_nothing_later(
    api: Client, redis: Redis, stack: Stack
) -> None:
    async with hearing(api) as heard:
        await add(redis, "a")
        assert await heard.ids(1) == ["a"]
        stack.redis.kill()
        await refused(await api.get("/v1/events"), 503)
        stack.redis.start()
        await redis.connection_pool.disconnect()
        await add(redis, "b", "c")

        assert await heard.ids(2) == ["b", "c"]


async def test_listeners_hear_of_it_when_another_redis_comes_back(
    api: Client, redis: Redis
) -> None:
    async with hearing(api) as heard:
        await add(redis, "a")
        assert await heard.ids(1) == ["a"]
        await redis.flushdb()
        await redis.xadd(STREAM, {"SUCCESS": "another"})

        await heard.next("reset")
        await add(redis, "b")
        assert await heard.ids(1) == ["b"]


async def test_an_hour_without_ends_is_no_reset(
    api: Client, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "BLOCK_SECONDS", 0.02)
    monkeypatch.setattr(api_events, "HEARTBEAT_SECONDS", 0.02)
    async with hearing(api) as heard:
        await add(redis, "a")
        assert await heard.ids(1) == ["a"]
        await redis.delete(STREAM)
        async with asyncio.timeout(SOON):
            while await opened(redis, heard.last) != "0-0":
                await heard.begun()
        await add(redis, "b")

        assert await heard.ids(1) == ["b"]


async def test_who_listens_without_ends_learns_how_far_all_is_told(
    api: Client, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_events, "HEARTBEAT_SECONDS", 0.02)
    async with hearing(api) as heard:
        at = await redis.xadd(STREAM, {"SUCCESS": "shop/a"})

        async with asyncio.timeout(SOON):
            while await opened(redis, heard.last) != at:
                await heard.begun()


async def test_an_end_of_which_only_the_archive_knows_is_told_out_of_it(
    api: Client, redis: Redis, mongo_uri: str, database: str
) -> None:
    with MongoClient[dict[str, Any]](mongo_uri) as client:
        before = {"_id": "order-1@1777000000000", "output": {"tag": "Pending"}}
        client[database].operations.insert_many([{**ARCHIVED}, {**ARCHIVED, **before}])
    async with hearing(api) as heard:
        await add(redis, "order-1", "unknown")

        archived, unknown = await heard.next(), await heard.next()

    assert (archived["output"], archived["finishedAt"]) == (
        {"tag": "InTransit"},
        "2026-05-04T08:00:01.700Z",
    )
    assert unknown == {
        "id": "unknown",
        "slug": None,
        "number": None,
        "status": "SUCCESS",
        "finishedAt": None,
        "output": None,
    }
