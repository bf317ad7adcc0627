"""A request that a full Redis refuses keeps its job, holds up nobody, and is asked for again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from flow_ports import Job, Scene, call

from service.worker.flow import handle
from tracking.call import Granted, NoMemory

FULL = NoMemory("Raise it.")
Written = Callable[[], list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handle, "ASK_AGAIN_SECONDS", 0.001)


async def admitted(scene: Scene, times: int) -> None:
    async with asyncio.timeout(5):
        while scene.journal.steps.count("admit") < times:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)


@pytest.mark.usefixtures("unread_log")
async def test_a_refused_request_keeps_its_job_and_no_place_for_a_call() -> None:
    """Else a process with few places would have none left to work off what waits."""
    scene = Scene(FULL)
    handling = asyncio.create_task(scene.handler.handle(Job(scene.journal)))
    await admitted(scene, 3)

    assert scene.slots.taken == 0
    assert "delete" not in scene.journal.steps

    scene.limits.admission = Granted(call())
    await handling
    assert scene.journal.steps[-4:] == ["ask", "save", "finish", "delete"]
    assert len(set(scene.limits.names)) == 1


@pytest.mark.usefixtures("unread_log")
async def test_of_many_refused_requests_one_asks_again_and_the_others_follow_at_once() -> None:
    scene = Scene(FULL)
    jobs = [asyncio.create_task(scene.handler.handle(Job(scene.journal))) for _ in range(20)]
    await admitted(scene, 40)
    asking = set(scene.limits.names[-10:])

    handle.ASK_AGAIN_SECONDS = 60.0  # who follows must not wait for it
    scene.limits.admission = Granted(call())
    async with asyncio.timeout(5):
        await asyncio.gather(*jobs)

    assert len(asking) == 1


async def test_a_full_redis_is_logged_once(written: Written) -> None:
    scene = Scene(FULL)
    jobs = [asyncio.create_task(scene.handler.handle(Job(scene.journal))) for _ in range(5)]
    await admitted(scene, 20)
    scene.limits.admission = Granted(call())
    await asyncio.gather(*jobs)

    told = [each for each in written() if each["event"] == "redis is full"]
    assert [(each["server"], each["fix"]) for each in told] == [("redis", "Raise it.")]
