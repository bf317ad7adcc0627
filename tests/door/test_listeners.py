"""What a listener of `/v1/events` may ask for, and when its stream ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from door_ground import Client, FixedKeys, refused
from events_ground import SOON, STREAM, add, all_of, end, hearing
from limits_bench import Worker, until
from operations_ground import serving_all
from redis.asyncio import Redis

from limits.ends import NO_EVENT, End, EventId, parse_event_id
from limits.ends import hearing as hearing_ends
from service.api.callers import Callers
from service.client import listeners
from service.client.keys import Scope
from service.client.listeners import Kind, Listener, Told, listening
from service.client.operation_view import OperationView
from service.observe.background import Background
from tracking.account import MAIN


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
