"""What a worker does unasked is logged when a defect ends it, and begun again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from service.config.schema import Config
from service.observe import background
from service.worker.wiring import webhooks
from service.worker.wiring import worker as module
from service.worker.wiring.worker import assemble
from tracking.request import Slug

TASKS = {
    "sweeper": module.Sweeper,
    "code counts": module.CodeCounts,
    "statistics": module.Tallying,
    "drainer": module.Drainer,
    "deliveries": webhooks.Filler,
    "changes": webhooks.Outbox,
}
LOOKS = {"re-checks": module.Recheck, "services": webhooks.Keeping}
SOON = 10.0


class Broken:
    """Breaks once, and then runs for ever."""

    def __init__(self) -> None:
        self.breaks = [KeyError("no such member")]
        self.runs = asyncio.Event()

    async def __call__(self, *_: object) -> None:
        if self.breaks:
            raise self.breaks.pop()
        self.runs.set()
        await asyncio.Event().wait()


async def test_what_a_worker_does_unasked_is_logged_when_it_ends_and_begun_again(
    monkeypatch: pytest.MonkeyPatch, written: Callable[[], list[dict[str, Any]]]
) -> None:
    monkeypatch.setattr(background, "FIRST_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(background, "rest", AsyncMock())
    broken = {name: Broken() for name in (*TASKS, *LOOKS)}
    for name, part in TASKS.items():
        monkeypatch.setattr(part, "run", broken[name])
    for name, part in LOOKS.items():
        monkeypatch.setattr(part, "look", broken[name])
    registry = SimpleNamespace(slugs=(Slug("usps"),), named=None)
    look = AsyncMock(return_value=[])
    parts: Any = MagicMock(registry=registry, secret=b"", look=look)

    worker = assemble(Config(), parts)
    async with asyncio.timeout(SOON):
        for each in broken.values():
            await each.runs.wait()
    await worker.background.stop()

    told = {line["task"]: line["ends"] for line in written()}
    assert told == dict.fromkeys(broken, 1)
    assert parts.who.report.call_count == len(broken)
