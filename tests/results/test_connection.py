"""A store whose MongoDB is killed, frozen and started again, and batches of many callers."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import pytest
from pymongo.errors import ConnectionFailure, InvalidOperation
from store_parcels import FIRST, answered, call, delivered, hours, on_its_way, recheck_of

from devstack.stack import Stack
from service.worker.results.connection import BATCH_SIZE, Batches, Store
from service.worker.results.trackings import Trackings
from tracking.call import Call
from tracking.checkpoint import Tracking
from tracking.errors import ResultsDown, TrackingError, UnreadableAnswer

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
        await answered(trackings, of, on_its_way(FIRST))

    began = time.monotonic()
    for _ in range(1000):
        with pytest.raises(ResultsDown):
            await answered(trackings, of, on_its_way(FIRST))
    refused_at_once = time.monotonic() - began
    assert not trackings.is_available
    waiting = asyncio.create_task(trackings.available())
    await asyncio.sleep(0)
    assert not waiting.done()

    await asyncio.to_thread(stack.mongodb.start)
    await asyncio.wait_for(waiting, SOON)
    await answered(trackings, of, on_its_way(FIRST))

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
        await until_done(lambda: answered(trackings, of, answer), refused)

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
    await answered(trackings, call(), on_its_way(FIRST))
    later = call(hours(1))
    stack.mongodb.pause()
    try:
        saving = asyncio.ensure_future(answered(trackings, later, on_its_way(FIRST)))
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
    await answered(trackings, later, on_its_way(FIRST))


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


async def test_a_write_of_which_nobody_hears_any_more_may_fail(hasty: Store) -> None:
    leave, told = threading.Event(), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, about: told.append(about))

    def fail() -> None:
        leave.wait(5.0)
        raise InvalidOperation

    writing = asyncio.create_task(hasty.write(fail, lambda _: True))
    await asyncio.sleep(0.05)
    writing.cancel()
    with suppress(asyncio.CancelledError):
        await writing
    leave.set()
    with suppress(ResultsDown):
        await hasty.on_writer(lambda: None)  # behind it
    await asyncio.sleep(0)
    gc.collect()

    assert told == []


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
        await answered(trackings, of, on_its_way(FIRST))


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


class Worked:
    """Remembers its batches; each waits for `go`."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.began = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self, items: Sequence[int]) -> list[int | TrackingError]:
        self.batches.append(list(items))
        self.began.set()
        await self.go.wait()
        return [UnreadableAnswer("odd") if item < 0 else item * 10 for item in items]


@pytest.fixture
def work() -> Worked:
    return Worked()


@pytest.fixture
async def batches(work: Worked) -> Batches[int, int]:
    return Batches(work)


async def test_what_one_turn_of_the_loop_brings_is_one_batch(
    work: Worked, batches: Batches[int, int]
) -> None:
    results = await asyncio.gather(*(batches.submit(item) for item in range(5)))

    assert results == [0, 10, 20, 30, 40]
    assert work.batches == [[0, 1, 2, 3, 4]]


async def test_what_comes_while_a_batch_runs_makes_up_the_next(
    work: Worked, batches: Batches[int, int]
) -> None:
    work.go.clear()

    first = asyncio.ensure_future(batches.submit(1))
    await work.began.wait()
    later = [asyncio.ensure_future(batches.submit(item)) for item in (2, 3)]
    await asyncio.sleep(0)
    work.go.set()
    await asyncio.gather(first, *later)

    assert work.batches == [[1], [2, 3]]


async def test_what_comes_while_batches_rest_is_gathered_and_the_first_is_done_at_once() -> None:
    work = Worked()
    batches: Batches[int, int] = Batches(work, rest_seconds=0.05)

    assert await asyncio.wait_for(batches.submit(1), 0.04) == 10
    later = []
    for item in (2, 3, 4):
        later.append(batches.submit(item))
        await asyncio.sleep(0)
    assert await asyncio.gather(*later) == [20, 30, 40]

    assert work.batches == [[1], [2, 3, 4]]


async def test_items_may_count_for_more_than_one() -> None:
    work = Worked()
    batches: Batches[int, int] = Batches(work, most=5, size=lambda item: item)

    await asyncio.gather(*(batches.submit(item) for item in (2, 2, 2, 9, 1, 4, 1)))

    assert work.batches == [[2, 2, 2], [9], [1, 4], [1]]


async def test_a_batch_has_a_greatest_length(work: Worked, batches: Batches[int, int]) -> None:
    await asyncio.gather(*(batches.submit(item) for item in range(BATCH_SIZE + 1)))

    assert [len(batch) for batch in work.batches] == [BATCH_SIZE, 1]


async def test_an_error_of_one_item_is_raised_for_that_item_only() -> None:
    batches: Batches[int, int] = Batches(Worked())

    good, bad = await asyncio.gather(batches.submit(1), batches.submit(-1), return_exceptions=True)

    assert good == 10
    assert isinstance(bad, UnreadableAnswer)


async def test_several_items_of_one_caller_are_one_wait_in_the_batch_of_the_others(
    work: Worked, batches: Batches[int, int]
) -> None:
    before, several, after = await asyncio.gather(
        batches.submit(1), batches.submit_all([2, -3, 4]), batches.submit(5)
    )

    assert work.batches == [[1, 2, -3, 4, 5]]
    assert (before, after) == (10, 50)
    assert [several[0], type(several[1]), several[2]] == [20, UnreadableAnswer, 40]


async def test_an_error_of_the_batch_is_the_error_of_each_of_several_items() -> None:
    async def work(_: Sequence[int]) -> list[int | TrackingError]:
        raise ResultsDown("away")

    batches: Batches[int, int] = Batches(work)

    assert [type(each) for each in await batches.submit_all([1, 2])] == [ResultsDown, ResultsDown]


async def test_an_error_of_the_batch_is_raised_for_all_and_the_next_batch_runs() -> None:
    failing = True

    async def work(items: Sequence[int]) -> list[int | TrackingError]:
        if failing:
            raise ResultsDown("away")
        return list(items)

    batches: Batches[int, int] = Batches(work)
    errors = await asyncio.gather(batches.submit(1), batches.submit(2), return_exceptions=True)
    failing = False

    assert [type(error) for error in errors] == [ResultsDown, ResultsDown]
    assert errors[0] is not errors[1]  # each raise adds to its own traceback
    assert await batches.submit(3) == 3


@pytest.mark.usefixtures("unread_log")
async def test_a_defect_over_one_batch_keeps_nobody_of_the_next_waiting() -> None:
    """Nobody else may come for a while, and who waits holds a call."""
    began, go = asyncio.Event(), asyncio.Event()

    async def work(items: Sequence[int]) -> list[int | TrackingError]:
        began.set()
        await go.wait()
        if items == [1]:
            raise KeyError("no such member")
        return list(items)

    batches: Batches[int, int] = Batches(work)
    first = batches.submit(1)
    await began.wait()
    second = batches.submit(2)
    go.set()

    with pytest.raises(ResultsDown):
        await first
    assert await asyncio.wait_for(second, 5) == 2


async def test_a_caller_that_is_cancelled_disturbs_nobody(
    work: Worked, batches: Batches[int, int]
) -> None:
    work.go.clear()

    cancelled, other = (asyncio.ensure_future(batches.submit(item)) for item in (1, 2))
    await work.began.wait()
    cancelled.cancel()
    await asyncio.sleep(0)
    work.go.set()

    assert await other == 20
    with pytest.raises(asyncio.CancelledError):
        await cancelled
