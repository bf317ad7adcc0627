"""`/v1/events`: each end once and in order, for its account alone, across cuts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from door_ground import Client, FixedKeys, refused
from limits_bench import Worker, until
from operations_ground import (
    ARCHIVED,
    SOON,
    STREAM,
    add,
    all_of,
    end,
    hearing,
    opened,
    sealed,
    serving_all,
)
from pymongo import MongoClient
from redis.asyncio import Redis

from devstack.stack import Stack
from limits import ends
from limits.ends import NO_EVENT, End, EventId, parse_event_id
from limits.ends import hearing as hearing_ends
from service.http import events as api_events
from service.http.backend import listeners
from service.http.backend.listeners import Kind, Listener, Told, listening
from service.http.backend.operation_view import OperationView
from service.http.callers import Callers
from service.observe.background import Background
from service.operator.keys import Scope
from tracking.call import Verdict
from tracking.operation import State
from tracking.request import MAIN

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


async def test_who_names_operations_hears_of_these_only(api: Client, worker: Worker) -> None:
    async with hearing(api, "?id=b&id=d") as heard:
        await end(worker, *"abcd")

        assert await heard.ids(2) == ["b", "d"]


async def test_a_key_that_ends_ends_what_it_began(
    disk: Path, settings: dict[str, str], worker: Worker
) -> None:
    keys = FixedKeys()
    shop = keys.make("shop", Scope.READ)
    callers = Callers(keys, 1_000.0, always=True)
    async with (
        serving_all(disk / "spool.sqlite", settings, callers=callers) as api,
        hearing(api, as_api_key=shop) as heard,
    ):
        keys.keys = type(keys.keys)()
        await end(worker, "shop/a")

        with pytest.raises(EOFError):
            await heard.next()


async def test_who_begins_while_others_hear_of_ends_reads_them_by_itself(redis: Redis) -> None:
    telling, goes_on = asyncio.Event(), asyncio.Event()

    async def read(ends: Sequence[End]) -> list[OperationView]:
        telling.set()
        await goes_on.wait()
        return [OperationView(each.operation, None, None, {"status": each.state}) for each in ends]

    begin = parse_event_id(await redis.xadd(STREAM, {"SUCCESS": "begin"}))
    first, second = Listener(MAIN, frozenset()), Listener(MAIN, frozenset())
    beside = Background().beside
    async with (
        hearing_ends(redis, redis, beside) as ends,
        listening(ends, read, beside) as all_of_them,
    ):
        assert [each async for each in all_of_them.missed(first, begin)] == [[]]
        missed = all_of_them.missed(second, begin)
        assert await anext(missed) == []  # nothing yet, and the reader does not know of it
        await add(redis, "a")
        await telling.wait()
        goes_on.set()

        told = [each.operation.id async for some in missed for each in some if each.operation]

    assert told == ["a"]


def test_a_heartbeat_names_no_id_while_something_is_kept_for_the_listener() -> None:
    listener = Listener(MAIN, frozenset())
    assert listener.told_until == NO_EVENT

    listener.offer(Told(Kind.ENDED, EventId(5, 0)))
    listener.at = EventId(5, 0)

    assert listener.told_until is None  # a cut now, and it would never hear of that end


async def test_a_client_that_does_not_read_is_cut_off_and_goes_on_later(
    api: Client, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "AT_ONCE", 10)
    monkeypatch.setattr(listeners, "PENDING_MOST", 10)
    sent = [f"op-{n}" for n in range(500)]
    large = json.dumps(
        {"status": "SUCCESS", "tracking": "usps:N001", "output": {"message": "x" * 20_000}}
    )
    await redis.mset({f"tracking:status:{each}": large for each in sent})
    async with hearing(api) as heard:
        await add(redis, "first")
        assert await heard.ids(1) == ["first"]
        connection = heard.response.connection
        assert connection is not None
        assert connection.transport is not None
        connection.transport.pause_reading()
        await add(redis, *sent)
        await until(lambda: nobody_is_connected(api))
        connection.transport.resume_reading()
        ids = await all_of(heard)

    assert len(ids) < len(sent)
    async with hearing(api, last=heard.last) as again:
        assert ids + await again.ids(10) == sent[: len(ids) + 10]


async def nobody_is_connected(api: Client) -> bool:
    assert api.server.runner.server is not None
    return not api.server.runner.server.connections


async def test_a_stop_ends_streams_after_what_was_told(api: Client, redis: Redis) -> None:
    async with hearing(api) as heard:
        await add(redis, "a")
        assert await heard.ids(1) == ["a"]

        stopping = asyncio.create_task(api.server.close())

        assert await all_of(heard) == []
        await asyncio.wait_for(stopping, SOON)


async def test_no_more_listen_than_leave_connections_for_others(
    disk: Path, settings: dict[str, str]
) -> None:
    async with serving_all(disk / "spool.sqlite", settings, connections=1) as api, hearing(api):
        assert "are held" in (await refused(await api.get("/v1/events"), 503))["detail"]


async def test_progress_is_told_at_each_change_until_the_end(
    api: Client, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "LOOK_SECONDS", 0.02)
    first = await worker.granted("N001", id="first")
    await worker.parked("N002", id="a")
    async with hearing(api, "?id=a&id=first&progress=1") as heard:
        waits = {each["id"]: each for each in [await heard.next("progress") for _ in range(2)]}
        await worker.finish(first)
        assert (await heard.next())["id"] == "first"
        call = await worker.taken()
        runs = await heard.next("progress")
        await worker.finish(call)

        assert (await heard.next())["id"] == "a"
    assert (waits["first"]["status"], waits["first"]["place"]) == ("RUNNING", None)
    assert (waits["a"]["status"], waits["a"]["place"]["ahead"]) == ("WAITING", 0)
    assert (runs["id"], runs["status"], bool(runs["startedAt"])) == ("a", "RUNNING", True)


async def test_many_that_wait_are_placed_in_turn(
    api: Client, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(listeners, "PLACES_MOST", 1)
    monkeypatch.setattr(listeners, "WATCHED_MOST", 3)
    await worker.granted("BUSY")
    for each in "abc":
        await worker.parked(f"N-{each}", id=each)
    async with hearing(api, "?id=a&id=b&id=c&id=unknown&progress=1") as heard:
        told = [await heard.next("progress") for _ in range(3)]

        assert {each["id"]: each["place"]["ahead"] for each in told} == {"a": 0, "b": 1, "c": 2}
        await refused(await api.get("/v1/events?id=a&progress=1"), 503)


@pytest.mark.parametrize(
    ("query", "says"), [("progress=1", "goes with id"), ("id=a&" * 101, "name 100")]
)
async def test_what_cannot_be_told_is_refused(api: Client, query: str, says: str) -> None:
    assert says in (await refused(await api.get(f"/v1/events?{query}"), 400))["detail"]
