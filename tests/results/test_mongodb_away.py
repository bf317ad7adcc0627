"""MongoDB killed, frozen and started again under the store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
from pymongo.errors import ConnectionFailure
from store_parcels import attempt, call, delivered, hours, on_its_way, recheck_of, scan

from devstack.stack import Stack
from service.results.connection import Store
from service.results.trackings import Trackings
from tracking.call import Call
from tracking.checkpoint import Tracking
from tracking.errors import ResultsDown

FIRST = scan("2026-02-27T08:00:00", "Accepted")
SOON = 10.0


async def until_done(step: Callable[[], Awaitable[None]], refused: asyncio.Event) -> None:
    """Repeat while MongoDB is away, as the flow does; `refused` is set when it was."""
    deadline = time.monotonic() + 3 * SOON
    while True:
        try:
            return await step()
        except ResultsDown:
            refused.set()
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)


async def test_a_killed_mongodb_is_down_at_once_and_back_by_itself(
    stack: Stack, hasty: Store, notices: list[Exception | None]
) -> None:
    trackings, told = Trackings(hasty, recheck_of), list[bool]()
    hasty.returned = lambda: told.append(trackings.is_available)
    of = call()
    stack.mongodb.kill()
    with pytest.raises(ResultsDown):
        await trackings.save(of, on_its_way(FIRST), attempt(of))

    began = time.monotonic()
    for _ in range(1000):
        with pytest.raises(ResultsDown):
            await trackings.save(of, on_its_way(FIRST), attempt(of))
    refused_at_once = time.monotonic() - began
    assert not trackings.is_available
    waiting = asyncio.create_task(trackings.available())
    await asyncio.sleep(0)
    assert not waiting.done()

    await asyncio.to_thread(stack.mongodb.start)
    await asyncio.wait_for(waiting, SOON)
    await trackings.save(of, on_its_way(FIRST), attempt(of))

    assert refused_at_once < SOON  # one by one, each with its time-out, they would take minutes
    assert hasty.tracking.count_documents({}) == 1
    assert isinstance(notices[0], Exception)
    assert notices[1:] == [None]
    assert told == [True]


async def test_a_process_that_writes_nothing_sees_that_mongodb_is_away_and_back(
    stack: Stack, hasty: Store, notices: list[Exception | None]
) -> None:
    await hasty.prepare()
    returned = asyncio.Event()
    hasty.returned = returned.set
    assert hasty.is_available

    stack.mongodb.kill()
    async with asyncio.timeout(SOON):
        while hasty.is_available:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)
    await asyncio.to_thread(stack.mongodb.start)
    await asyncio.wait_for(returned.wait(), SOON)

    assert hasty.is_available
    assert [type(each) for each in notices] == [ConnectionFailure, type(None)]


async def test_nothing_that_was_confirmed_is_lost_when_mongodb_is_killed_between_writes(
    stack: Stack, hasty: Store
) -> None:
    trackings = Trackings(hasty, recheck_of)
    numbers = [f"NUMBER{index}" for index in range(400)]
    confirmed: set[str] = set()
    refused = asyncio.Event()

    async def save(of: Call, answer: Tracking) -> None:
        await until_done(lambda: trackings.save(of, answer, attempt(of)), refused)

    async def store_one(number: str) -> None:
        await save(call(number=number), on_its_way(FIRST))
        confirmed.add(f"usps:{number}")
        await save(call(hours(1), number), delivered(FIRST))

    async with asyncio.TaskGroup() as group:
        for number in numbers[:200]:
            group.create_task(store_one(number))
            await asyncio.sleep(0)
        stack.mongodb.kill()
        known = set(confirmed)
        for number in numbers[200:]:
            group.create_task(store_one(number))
        await asyncio.wait_for(refused.wait(), SOON)
        await asyncio.to_thread(stack.mongodb.start)
        assert known <= {each["_id"] for each in hasty.tracking.find({}, {"_id": 1})}

    documents = list(hasty.tracking.find())
    assert len(documents) == len(numbers)
    assert {each["tag"] for each in documents} == {"Delivered"}
    assert {each["tracked_count"] for each in documents} == {2}


async def test_a_frozen_mongodb_does_not_stop_the_event_loop(stack: Stack, hasty: Store) -> None:
    trackings = Trackings(hasty, recheck_of)
    of = call()
    await trackings.save(of, on_its_way(FIRST), attempt(of))
    later = call(hours(1))
    stack.mongodb.pause()
    try:
        saving = asyncio.ensure_future(trackings.save(later, on_its_way(FIRST), attempt(later)))
        turns = 0
        while not saving.done():
            await asyncio.sleep(0.01)
            turns += 1
        with pytest.raises(ResultsDown):
            await saving
    finally:
        stack.mongodb.resume()

    assert turns > 10  # one per 10 ms, for the second that the write was waited for
    await asyncio.wait_for(trackings.available(), SOON)
    await trackings.save(later, on_its_way(FIRST), attempt(later))


async def test_a_reader_does_not_wait_for_a_write_that_hangs(hasty: Store) -> None:
    release = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang() -> None:
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result()

    writing = asyncio.create_task(hasty.on_writer(hang))
    found = await asyncio.wait_for(hasty.on_reader(hasty.tracking.find_one, {}), SOON)
    release.set()
    await writing

    assert found is None


async def test_closing_ends_the_look_for_a_mongodb_that_is_away(stack: Stack, hasty: Store) -> None:
    stack.mongodb.kill()
    with pytest.raises(ResultsDown):
        await hasty.prepare()

    await asyncio.wait_for(hasty.close(), SOON)

    stack.mongodb.start()


async def test_a_write_after_the_end_is_refused(hasty: Store) -> None:
    trackings = Trackings(hasty, recheck_of)
    of = call()
    await hasty.close()

    with pytest.raises(ResultsDown, match="closed"):
        await trackings.save(of, on_its_way(FIRST), attempt(of))


async def test_closing_does_not_wait_for_a_frozen_mongodb(stack: Stack, hasty: Store) -> None:
    await hasty.prepare()
    stack.mongodb.pause()
    try:
        await asyncio.wait_for(hasty.close(), SOON)
    finally:
        stack.mongodb.resume()


@pytest.mark.usefixtures("unread_log")
async def test_a_defect_in_the_look_for_it_does_not_end_the_look(
    hasty: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks = [KeyError("a defect")]

    def look() -> None:
        if breaks:
            raise breaks.pop()

    monkeypatch.setattr(hasty, "_look_once", look)
    hasty.failed(ConnectionFailure("takes no writes"))

    await asyncio.wait_for(hasty.available(), SOON)

    assert not breaks
