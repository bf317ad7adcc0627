"""Many callers, one call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from service.results.connection import BATCH_SIZE, Batches
from tracking.errors import ResultsDown, TrackingError, UnreadableAnswer


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


async def test_what_one_turn_of_the_loop_brings_is_one_batch() -> None:
    work = Worked()
    batches: Batches[int, int] = Batches(work)

    results = await asyncio.gather(*(batches.submit(item) for item in range(5)))

    assert results == [0, 10, 20, 30, 40]
    assert work.batches == [[0, 1, 2, 3, 4]]


async def test_what_comes_while_a_batch_runs_makes_up_the_next() -> None:
    work = Worked()
    work.go.clear()
    batches: Batches[int, int] = Batches(work)

    first = asyncio.ensure_future(batches.submit(1))
    await work.began.wait()
    later = [asyncio.ensure_future(batches.submit(item)) for item in (2, 3)]
    await asyncio.sleep(0)
    work.go.set()
    await asyncio.gather(first, *later)

    assert work.batches == [[1], [2, 3]]


async def test_items_may_count_for_more_than_one() -> None:
    work = Worked()
    batches: Batches[int, int] = Batches(work, most=5, size=lambda item: item)

    await asyncio.gather(*(batches.submit(item) for item in (2, 2, 2, 9, 1, 4, 1)))

    assert work.batches == [[2, 2, 2], [9], [1, 4], [1]]


async def test_a_batch_has_a_greatest_length() -> None:
    work = Worked()
    batches: Batches[int, int] = Batches(work)

    await asyncio.gather(*(batches.submit(item) for item in range(BATCH_SIZE + 1)))

    assert [len(batch) for batch in work.batches] == [BATCH_SIZE, 1]


async def test_an_error_of_one_item_is_raised_for_that_item_only() -> None:
    batches: Batches[int, int] = Batches(Worked())

    good, bad = await asyncio.gather(batches.submit(1), batches.submit(-1), return_exceptions=True)

    assert good == 10
    assert isinstance(bad, UnreadableAnswer)


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


async def test_a_caller_that_is_cancelled_disturbs_nobody() -> None:
    work = Worked()
    work.go.clear()
    batches: Batches[int, int] = Batches(work)

    cancelled, other = (asyncio.ensure_future(batches.submit(item)) for item in (1, 2))
    await work.began.wait()
    cancelled.cancel()
    await asyncio.sleep(0)
    work.go.set()

    assert await other == 20
    with pytest.raises(asyncio.CancelledError):
        await cancelled
