"""What `api` and `ingest` do unasked goes on after a defect; one that stays ends the process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from devstack.servers import free_port
from limits import violations
from limits.ends import Ends
from service.api import serve as module
from service.client.door import Door
from service.client.keyring import Keyring
from service.client.listeners import Listeners, Progress
from service.config.load import load
from service.observe import background
from service.observe.background import ENDS_MOST

Written = Callable[[], list[dict[str, Any]]]
Serve = Callable[[], Awaitable[bool]]

TASKS = (
    ("ends", Ends, "read"),
    ("looks", Ends, "look"),
    ("events", Listeners, "run"),
    ("progress", Progress, "run"),
    ("violations", violations, "_judge_on"),
    ("spool", Door, "empty_spool"),
    ("keys", Keyring, "keep_fresh"),
)
SOON = 10.0


class Broken:
    """Breaks so many times, and then runs for ever."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.runs = asyncio.Event()

    async def __call__(self, *_: object) -> None:
        if self.left:
            self.left -= 1
            raise KeyError("no such member")
        self.runs.set()
        await asyncio.Event().wait()


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Stands for a signal."""
    event = asyncio.Event()
    monkeypatch.setattr(module, "_on_signals", lambda: event)
    monkeypatch.setattr(background, "FIRST_WAIT_SECONDS", 0.0)
    return event


@pytest.fixture
def serve(disk: Path, settings: dict[str, str]) -> Serve:
    def begin() -> Awaitable[bool]:
        config = load(None, settings, Path("/")).config
        return module.until_stopped(config, f"127.0.0.1:{free_port()}", disk, door_alone=False)

    return begin


async def test_what_api_does_unasked_is_logged_when_it_ends_and_begun_again(
    monkeypatch: pytest.MonkeyPatch, serve: Serve, stopped: asyncio.Event, written: Written
) -> None:
    broken = {name: Broken(1) for name, _, _ in TASKS}
    for name, where, run in TASKS:
        monkeypatch.setattr(where, run, broken[name])

    async with asyncio.timeout(SOON):
        serving = asyncio.ensure_future(serve())
        for each in broken.values():
            await each.runs.wait()
        stopped.set()
        fit = await serving

    told = [line for line in written() if line["event"] == "background task ended"]
    assert {(line["task"], line["ends"]) for line in told} == {(name, 1) for name in broken}
    assert fit


async def test_what_keeps_ending_ends_the_process_in_good_order(
    monkeypatch: pytest.MonkeyPatch, serve: Serve, stopped: asyncio.Event, written: Written
) -> None:
    monkeypatch.setattr(Keyring, "keep_fresh", Broken(ENDS_MOST))

    async with asyncio.timeout(SOON):
        fit = await serve()

    events = [line["event"] for line in written()]
    assert (fit, stopped.is_set()) == (False, False)
    assert "process is unfit" in events
    assert events[-1] == "door is closed"
