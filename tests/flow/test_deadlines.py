"""Calls end by their deadlines, and only by their own."""

from __future__ import annotations

import asyncio
import time

import pytest

from service.worker.flow.tasks import Deadlines


async def after(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "answer"


async def test_work_that_ends_in_time_gives_its_result() -> None:
    assert await Deadlines().hold(time.monotonic() + 5, after(0.0)) == "answer"


async def test_work_beyond_its_deadline_ends_with_a_timeout() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        await Deadlines().hold(began + 0.2, after(60.0))

    assert 0.2 <= time.monotonic() - began < 5


async def test_each_call_has_its_own_deadline() -> None:
    deadlines, now = Deadlines(), time.monotonic()
    ends = await asyncio.gather(
        deadlines.hold(now + 0.1, after(60.0)),
        deadlines.hold(now + 60, after(0.5)),
        deadlines.hold(now + 0.3, after(60.0)),
        return_exceptions=True,
    )

    assert [type(end) for end in ends] == [TimeoutError, str, TimeoutError]


async def test_a_task_that_was_ended_by_its_deadline_goes_on() -> None:
    deadlines = Deadlines()
    with pytest.raises(TimeoutError):
        await deadlines.hold(time.monotonic(), after(60.0))

    assert await deadlines.hold(time.monotonic() + 5, after(0.3)) == "answer"


async def test_a_task_that_is_cancelled_is_cancelled() -> None:
    deadlines = Deadlines()
    task = asyncio.create_task(deadlines.hold(time.monotonic() + 60, after(60.0)))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_task_that_is_cancelled_at_its_deadline_ends() -> None:
    deadlines = Deadlines()

    async def stubborn() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()  # the worker stops in this very moment
            raise

    task = asyncio.create_task(deadlines.hold(time.monotonic(), stubborn()))
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_the_work_raises_comes_through() -> None:
    async def broken() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await Deadlines().hold(time.monotonic() + 5, broken())
