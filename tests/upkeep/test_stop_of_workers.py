"""A worker's stop ends with its grace, whatever the servers do; more than that its parent kills."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from service.config.schema import Config
from service.worker.wiring import worker as module
from service.worker.wiring.worker import Worker, assemble
from tracking.request import Slug

GRACE = 0.5
LAST = 0.2
SOON = 10.0


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Worker]:
    """Builds a worker on doubles, with short times for its last steps."""
    monkeypatch.setattr(module, "LAST_ANSWERS_SECONDS", LAST)
    monkeypatch.setattr(module, "LAST_COUNTS_SECONDS", LAST)

    def made() -> Worker:
        registry = SimpleNamespace(slugs=(Slug("usps"),), named=None)
        limiter = MagicMock(sweep=AsyncMock(return_value=()))
        parts: Any = MagicMock(registry=registry, secret=b"", limiter=limiter)
        return assemble(Config(), parts)

    return made


async def lasted(worker: Worker, grace: float) -> float:
    """How long a stop takes."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.timeout(SOON):
        await worker.stop(grace)
    return loop.time() - began


async def for_ever(*_: object) -> None:
    await asyncio.Event().wait()


async def test_a_server_that_does_not_answer_the_last_deletes_holds_no_stop_up_beyond_its_grace(
    built: Callable[[], Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.Intake, "all_answered", for_ever)

    assert await lasted(built(), GRACE) >= GRACE
    assert await lasted(built(), 0.0) >= LAST


async def test_counts_that_mongodb_does_not_take_hold_no_stop_up(
    built: Callable[[], Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.CodeCounts, "write", for_ever)
    written = AsyncMock()
    monkeypatch.setattr(module.Tallying, "write", written)

    await lasted(built(), GRACE)

    written.assert_awaited_once()


async def test_the_grace_begins_with_the_stop_and_not_once_a_silent_server_was_waited_for(
    built: Callable[[], Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(_: object) -> None:
        await asyncio.sleep(GRACE)

    monkeypatch.setattr(module.Intake, "stop", slow)
    worker = built()
    worker.tasks.start(for_ever())

    assert await lasted(worker, 2 * GRACE) < 3 * GRACE
