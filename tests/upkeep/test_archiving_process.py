"""The process that archives: its tasks are begun again; it stops on a signal, or when unfit."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from service.config.schema import Config
from service.observe import background
from service.observe.background import ENDS_MOST
from service.worker.wiring import process as module
from service.worker.wiring.process import UNFIT

SOON = 10.0
Written = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set in the place of a signal."""
    asked = asyncio.Event()
    monkeypatch.setattr(module, "on_signals", lambda: asked)
    monkeypatch.setattr(background, "FIRST_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(background, "LONGEST_WAIT_SECONDS", 0.0)
    return asked


class Beats:
    """What the process told its parent."""

    def __init__(self) -> None:
        self.works: list[bool] = []

    def __call__(self, *, works: bool = False) -> None:
        self.works.append(works)


def breaking(times: int, runs: asyncio.Event) -> Callable[[object], Any]:
    left = iter(range(times))

    async def run(_: object) -> None:
        if next(left, None) is not None:
            raise KeyError("no such member")
        runs.set()
        await asyncio.Event().wait()

    return run


async def life(beats: Beats) -> int:
    async with asyncio.timeout(SOON):
        return await module.live(Config(), beats)


async def test_a_task_that_a_defect_ends_is_logged_and_begun_again(
    stop: asyncio.Event, monkeypatch: pytest.MonkeyPatch, written: Written
) -> None:
    archives, judges = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(module.Archiver, "run", breaking(1, archives))
    monkeypatch.setattr(module.Judge, "run", breaking(1, judges))
    beats = Beats()

    living = asyncio.create_task(life(beats))
    await asyncio.wait_for(asyncio.gather(archives.wait(), judges.wait()), SOON)
    stop.set()

    assert await living == 0
    assert {line["task"]: line["ends"] for line in written()} == {"archiver": 1, "judge": 1}
    assert beats.works == [False]


@pytest.mark.usefixtures("stop", "unread_log")
async def test_one_whose_task_keeps_ending_ends_with_1_so_that_its_parent_starts_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module.Archiver, "run", breaking(ENDS_MOST, asyncio.Event()))
    assert await life(Beats()) == UNFIT


async def test_a_signal_that_comes_again_finds_a_closing_loop_and_says_nothing() -> None:
    stopped = module.on_signals()
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(stopped.wait(), SOON)
        assert signal.set_wakeup_fd(-1) == -1
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(number)
