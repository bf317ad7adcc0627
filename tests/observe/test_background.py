"""What runs in the background: begun again when it ends, and seen when it keeps ending."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from service.observe import background as module
from service.observe.background import ENDS_MOST, ROUND_SECONDS, Background, rest, wake_at
from service.worker.wiring import worker as worker_module
from service.worker.wiring.process import UNFIT

Written = Callable[[], list[dict[str, Any]]]


class Stumbling:
    """A task that ends `ends` times, and then runs for ever."""

    def __init__(self, ends: int, end: Callable[[], Awaitable[None]]) -> None:
        self.left = ends
        self.end = end
        self.runs = asyncio.Event()

    async def run(self) -> None:
        if self.left:
            self.left -= 1
            await self.end()
            return
        self.runs.set()
        await asyncio.Event().wait()


async def breaks() -> None:
    raise KeyError("hunter22-secret")


async def returns() -> None: ...


async def awaits_what_is_cancelled() -> None:
    awaited = asyncio.get_running_loop().create_future()
    awaited.cancel()
    await awaited


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT_SECONDS", 0.0)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
async def background(told: list[str]) -> AsyncIterator[Background]:
    made = Background(told.append)
    yield made
    await made.stop()


@pytest.mark.parametrize("end", [breaks, returns, awaits_what_is_cancelled])
async def test_a_task_that_ends_is_logged_and_begun_again(
    background: Background, written: Written, end: Callable[[], Awaitable[None]]
) -> None:
    task = Stumbling(2, end)
    background.start("sweeper", task.run)

    await asyncio.wait_for(task.runs.wait(), 5)

    lines = [line for line in written() if line["event"] == "background task ended"]
    assert [(line["task"], line["ends"]) for line in lines] == [("sweeper", 1), ("sweeper", 2)]
    assert all(line["traceback"] and line["error"] for line in lines)
    assert not background.unfit.is_set()


@pytest.mark.usefixtures("unread_log")
async def test_people_are_told_which_task_ended_and_of_what_kind_of_error(
    background: Background, told: list[str]
) -> None:
    task = Stumbling(1, breaks)
    background.start("sweeper", task.run)

    await asyncio.wait_for(task.runs.wait(), 5)

    (text,) = told
    assert text.startswith("sweeper ended 1x in a row, last at 20")
    assert text.endswith("(KeyError)")
    assert "secret" not in text


async def test_a_task_that_keeps_ending_makes_the_process_unfit(
    background: Background, written: Written
) -> None:
    task = Stumbling(ENDS_MOST + 1, breaks)
    background.start("drainer", task.run)

    await asyncio.wait_for(task.runs.wait(), 5)

    assert background.unfit.is_set()
    (line,) = [line for line in written() if line["event"] == "process is unfit"]
    assert (line["task"], line["ends"]) == ("drainer", ENDS_MOST)


@pytest.mark.usefixtures("unread_log")
async def test_a_task_that_ends_now_and_then_leaves_the_process_fit(
    background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEALTHY_SECONDS", 0.0)
    task = Stumbling(3 * ENDS_MOST, breaks)
    background.start("drainer", task.run)

    await asyncio.wait_for(task.runs.wait(), 5)

    assert not background.unfit.is_set()


async def test_a_task_that_was_asked_to_return_has_ended_well(
    background: Background, written: Written
) -> None:
    background.retire()

    await asyncio.wait_for(background.start("drainer", returns), 5)

    assert written() == []


async def test_an_unfit_process_stops_in_good_order_and_ends_with_1(background: Background) -> None:
    stopped: list[float] = []

    async def stop(grace: float) -> int:
        stopped.append(grace)
        return 0

    worker: Any = SimpleNamespace(background=background, stop=stop)
    background.unfit.set()
    code = await worker_module.work(worker, asyncio.create_task(asyncio.Event().wait()), 3.0)

    assert (code, stopped) == (UNFIT, [3.0])


@pytest.mark.parametrize("seconds", [ROUND_SECONDS, 12.0, 600.0])
def test_what_rests_from_different_instants_wakes_at_rounds(seconds: float) -> None:
    wakes = [wake_at(now / 10, seconds) for now in range(1_000)]
    rounds = {round((wake - wakes[0]) / ROUND_SECONDS, 6) for wake in wakes}

    assert all(each == int(each) for each in rounds)
    assert all(
        abs(wake - now / 10 - seconds) <= ROUND_SECONDS / 2 + 1e-6 for now, wake in enumerate(wakes)
    )


@pytest.mark.parametrize("seconds", [0.0, 0.01, ROUND_SECONDS - 0.1])
def test_what_rests_for_less_than_a_round_wakes_exactly_then(seconds: float) -> None:
    assert wake_at(70.0, seconds) == 70.0 + seconds


async def test_two_that_rest_wake_in_the_same_turn_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop: Any = asyncio.get_running_loop()
    monkeypatch.setattr(module, "ROUND_SECONDS", 0.2)
    monkeypatch.setattr(module, "_FIRST_ROUND_AT", loop.time() + 0.3)
    asked = count()
    select = loop._selector.select  # noqa: SLF001 - the loop sleeps there once in each turn
    monkeypatch.setattr(loop._selector, "select", lambda *args: (next(asked), select(*args))[1])  # noqa: SLF001

    async def look(later: float) -> int:
        await asyncio.sleep(later)
        await rest(0.3)
        return next(asked)

    first, second = await asyncio.gather(look(0.0), look(0.01))

    assert abs(second - first) == 1
