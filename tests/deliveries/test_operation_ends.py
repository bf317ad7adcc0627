"""A service that a request named hears once how that ended, whatever dies on the way."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from followers import NOW, Known, Lines, service
from portion import TIMES
from pymongo.errors import AutoReconnect
from redis.asyncio import Redis

from limits.archive import ToArchive
from limits.ends import EndStream
from limits.keys import EVENTS, STATUS, TO_ARCHIVE
from limits.pipeline import unconfirmed
from service.worker.deliveries.delivery import Delivery
from service.worker.deliveries.operation_ends import Drains, OperationEnds
from service.worker.deliveries.service import ServiceState, Wanted
from service.worker.results.change import EventName
from service.worker.results.connection import Store
from service.worker.upkeep import archiver as module
from service.worker.upkeep.archiver import Archiver, Ears, Telling
from tracking.call import DeadLetter
from tracking.errors import ResultsDown, TubesDown
from tracking.line import Line
from tracking.request import Account

AT_MS = 1_772_366_400_000

WOKEN_SECONDS = 1.0 if TIMES else 3.5
"""What is promised; on a busy machine at least sooner than the archiver looks by itself."""


@pytest.fixture
def known() -> Known:
    never = Wanted(events=frozenset({EventName.PARCEL_EXPIRED}))
    return Known(learns=[service("shop", wanted=never), service("shop", Account("acme"))])


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def ends(store: Store, known: Known, lines: Lines) -> OperationEnds:
    return OperationEnds(store, known, lines.bring)  # type: ignore[arg-type]


async def end(redis: Redis, name: str = "order-1", **other: Any) -> None:
    status = {
        "status": "SUCCESS",
        "tracking": "usps:94000001",
        "at": AT_MS,
        "startedAt": "2026-03-01T12:00:00.000Z",
        "finishedAt": "2026-03-01T12:00:02.500Z",
        "output": {"tag": "Delivered", "checkpoints": 3},
        **other,
    }
    await redis.set(f"{STATUS}{name}", json.dumps(status))
    await redis.zadd(TO_ARCHIVE, {name: AT_MS + 2_500})
    await redis.xadd(EVENTS, {"SUCCESS": name})


def archiving(redis: Redis, store: Store, ends: OperationEnds, who: str = "first") -> Archiver:
    async def has_services() -> bool:
        return True

    return Archiver(
        ToArchive(unconfirmed(redis), who),
        store,
        Telling(ends, Ears(EndStream(redis), has_services)),
    )


def told(store: Store) -> list[dict[str, Any]]:
    return [
        json.loads(each["bodies"]["standard"])["data"] for each in store.events.find().sort("at")
    ]


async def test_the_service_that_a_request_names_hears_of_its_end_whatever_else_it_wants(
    redis: Redis, store: Store, ends: OperationEnds, lines: Lines
) -> None:
    await end(redis, webhook="shop")
    await end(redis, "order-2")
    await end(redis, "order-3", webhook="nobody")

    await archiving(redis, store, ends).step()

    [event] = store.events.find()
    assert (event["type"], event["operation"]) == ("operation.ended", "order-1")
    assert event["parcel"] == "usps:94000001"
    assert event["at"] == dt.datetime.fromtimestamp((AT_MS + 2_500) / 1000, dt.UTC)
    [data] = told(store)
    assert (data["id"], data["status"]) == ("order-1", "SUCCESS")
    assert data["output"] == {"tag": "Delivered", "checkpoints": 3}
    [brought] = lines.brought
    assert (brought.service, brought.account) == (service("shop").id, "main")
    assert (brought.event, brought.operation) == (event["_id"], "order-1")
    assert store.deliveries.count_documents({}) == 1


async def test_a_name_means_the_service_of_the_requests_own_account(
    redis: Redis, store: Store, ends: OperationEnds, lines: Lines
) -> None:
    await end(redis, "acme/order-1", webhook="shop")

    await archiving(redis, store, ends).step()

    assert [each.account for each in lines.brought] == ["acme"]
    assert [each["id"] for each in told(store)] == ["order-1"]


@pytest.mark.parametrize("lost", ["operations", "events", "deliveries", "report"])
async def test_an_archiver_that_vanishes_leaves_ends_that_are_told_once(
    redis: Redis,
    store: Store,
    ends: OperationEnds,
    monkeypatch: pytest.MonkeyPatch,
    lost: str,
) -> None:
    await end(redis, webhook="shop")
    first = archiving(redis, store, ends)

    with monkeypatch.context() as patched:
        if lost != "report":
            home = store.named(lost)
            real = home.insert_many

            def insert(*args: Any, **more: Any) -> None:
                real(*args, **more)
                raise AutoReconnect("it vanished here")

            patched.setattr(home, "insert_many", insert)
            with pytest.raises(ResultsDown):
                await first.step()
        else:
            await first.step()
    assert await redis.zcard(TO_ARCHIVE) == 1

    await store.available()
    again = archiving(redis, store, ends)
    await again.step()
    await again.step()

    assert await redis.zcard(TO_ARCHIVE) == 0
    assert store.operations.count_documents({}) == 1
    assert store.events.count_documents({}) == 1
    assert store.deliveries.count_documents({}) == 1


async def test_redis_keeps_what_no_service_has_heard_of_yet(
    redis: Redis, store: Store, ends: OperationEnds, monkeypatch: pytest.MonkeyPatch
) -> None:
    await end(redis, webhook="shop")
    one = archiving(redis, store, ends)

    async def away() -> None:
        raise ResultsDown("MongoDB is away")

    with monkeypatch.context() as patched:
        patched.setattr(Known, "learn", lambda _: away())
        for _ in range(2):
            with pytest.raises(ResultsDown):
                await one.step()
    assert await redis.zcard(TO_ARCHIVE) == 1

    await one.step()
    await one.step()

    assert await redis.zcard(TO_ARCHIVE) == 0
    assert store.deliveries.count_documents({}) == 1


async def test_what_a_disabled_service_is_to_hear_is_held(
    redis: Redis, store: Store, known: Known, ends: OperationEnds, lines: Lines
) -> None:
    known.learns = [service("shop", state=ServiceState.DISABLED)]
    await end(redis, webhook="shop")

    await archiving(redis, store, ends).step()

    assert store.deliveries.distinct("state") == ["held"]
    assert lines.brought == []


@pytest.fixture
async def running(
    redis: Redis, store: Store, ends: OperationEnds
) -> AsyncIterator[asyncio.Task[None]]:
    await store.prepare()
    one = archiving(redis, store, ends)
    task = asyncio.create_task(one.run())
    async with asyncio.timeout(10):
        while not one.works:  # noqa: ASYNC110 - nobody says so
            await asyncio.sleep(0.01)
    # It has nothing to do now, and would look again in five seconds.
    await asyncio.sleep(0.5)
    yield task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.usefixtures("running")
async def test_an_end_is_told_within_a_second(redis: Redis, lines: Lines) -> None:
    for count in range(3):
        began = time.monotonic()
        await end(redis, f"order-{count}", webhook="shop")

        async with asyncio.timeout(10):
            while len(lines.brought) <= count:  # noqa: ASYNC110 - nobody says so
                await asyncio.sleep(0.005)

        assert time.monotonic() - began < WOKEN_SECONDS
        await asyncio.sleep(0.3)


async def test_without_services_the_archiver_keeps_its_pace(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    async def has_services() -> bool:
        asked.append(True)
        return False

    reads: list[object] = []
    monkeypatch.setattr(EndStream, "next", lambda *args: reads.append(args))
    ears = Ears(EndStream(redis), has_services)
    await redis.xadd(EVENTS, {"SUCCESS": "order-1"})

    began = time.monotonic()
    await ears.mark()
    await ears.rest(0.3)

    assert time.monotonic() - began >= 0.3
    assert (asked, reads) == ([True], [])


async def test_what_ended_before_the_rest_began_ends_it(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GATHER_SECONDS", 0.0)

    async def has_services() -> bool:
        return True

    ears = Ears(EndStream(redis), has_services)
    await redis.xadd(EVENTS, {"SUCCESS": "order-0"})
    await ears.rest(0.01)
    await ears.mark()
    await redis.xadd(EVENTS, {"SUCCESS": "order-1"})

    began = time.monotonic()
    await ears.rest(5.0)

    assert time.monotonic() - began < WOKEN_SECONDS


async def test_a_request_that_is_not_taken_is_told_as_an_error(
    store: Store, ends: OperationEnds, lines: Lines
) -> None:
    letter = DeadLetter(
        "job-1", "too_late", "it could not start", b"{}", "usps", "94000001", ("acme/order-1",)
    )
    await ends.refused(letter, "shop")
    await ends.refused(letter, "shop")

    [data] = told(store)
    assert (data["id"], data["status"]) == ("order-1", "ERROR")
    assert data["output"] == {"code": "too_late", "message": "it could not start"}
    assert (data["slug"], data["number"], data["startedAt"]) == ("usps", "94000001", None)
    [delivery] = store.deliveries.find()
    assert (delivery["account"], delivery["operation"]) == ("acme", "acme/order-1")
    assert [each.id for each in lines.brought] == [delivery["_id"]]


async def test_a_malformed_request_is_told_with_what_it_names(
    store: Store, ends: OperationEnds
) -> None:
    letter = DeadLetter("job-1", "bad_number", "no number", b"{}", operations=("order-1",))
    await ends.refused(letter, "shop")

    [event] = store.events.find()
    assert (event["parcel"], event["slug"], event["number"]) == ("", "", "")


async def test_a_process_that_brings_nothing_in_puts_a_job_for_each_line() -> None:
    put: list[Line] = []

    async def put_drain(line: Line) -> None:
        put.append(line)
        raise TubesDown("nobody is there")

    def delivery(of: str) -> Delivery:
        event = EventName.OPERATION_ENDED
        return Delivery(f"D{of}", of, Account("main"), "E", event, NOW, NOW)

    some: Sequence[Delivery] = [delivery("a" * 16), delivery("b" * 16), delivery("a" * 16)]
    Drains(put_drain).ask(some)
    await asyncio.sleep(0.01)

    assert put == [f"~{'a' * 16}", f"~{'b' * 16}"]
