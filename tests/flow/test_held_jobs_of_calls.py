"""A job that comes back while a process that lives makes its call is kept until its end."""

from __future__ import annotations

import asyncio

import pytest
from flow_ports import ENDED, Job, Scene

from service.worker.flow import handle
from tracking.call import Held


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handle, "HELD_FIRST", 0.001)
    monkeypatch.setattr(handle, "HELD_MOST", 0.001)


async def asked(scene: Scene, times: int) -> None:
    async with asyncio.timeout(5):
        while scene.journal.steps.count("admit") < times:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)


@pytest.mark.usefixtures("unread_log")
async def test_its_job_is_kept_outside_the_window_until_the_call_has_ended() -> None:
    scene = Scene(Held())
    handling = asyncio.create_task(scene.handler.handle(Job(scene.journal)))
    await asked(scene, 3)
    assert "delete" not in scene.journal.steps
    assert "leave the window" in scene.journal.steps
    assert scene.slots.taken == 0

    scene.limits.admission = ENDED
    await handling

    assert "ask" not in scene.journal.steps
    assert scene.journal.steps[-1] == "delete"


@pytest.mark.usefixtures("unread_log")
async def test_who_has_lost_such_a_job_leaves_it_to_who_has_it_now() -> None:
    """Else a link that breaks again and again would leave one who asks for each time."""
    scene = Scene(Held())
    job = Job(scene.journal)
    handling = asyncio.create_task(scene.handler.handle(job))
    await asked(scene, 2)

    job.lost = True
    await handling

    assert "delete" not in scene.journal.steps
