"""Draining and sweeping: the duty to look again is somebody's at every moment."""

from __future__ import annotations

import asyncio
import time

import pytest
from flow_ports import USPS, Job, Scene, away, call

from service.worker.flow import drain, handle, receive
from service.worker.upkeep import sweeper
from tracking.call import Swept, TakeResult
from tracking.errors import LimitsDown, MalformedJob, UnknownLine
from tracking.line import Line
from tracking.request import Slug

pytestmark = pytest.mark.usefixtures("unread_log")


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive, "AFTER_DEFECT_SECONDS", 0.0)


async def test_a_drain_job_goes_once_somebody_was_asked_who_waits() -> None:
    scene = Scene()
    scene.journal.fail("take", *away(LimitsDown, 2))

    scene.receiver.on_drains([Job(scene.journal)])

    assert await scene.all_ended() == [*["take"] * 3, "delete"]
    assert len(set(scene.limits.names)) == 1, "what a lost answer granted is granted again"


async def test_a_drain_job_is_kept_while_its_slug_is_drained() -> None:
    scene = Scene()
    scene.limits.result = TakeResult(ask_again=time.monotonic() + 60.0)

    scene.receiver.on_drains([Job(scene.journal)])

    assert await scene.all_ended() == ["take"]
    assert [slug for slug, _ in scene.again] == [USPS]


async def test_a_full_process_hands_its_drain_job_to_others() -> None:
    scene = Scene()
    scene.limits.result = TakeResult(put_drain=True)

    scene.receiver.on_drains([Job(scene.journal)])

    assert await scene.all_ended() == ["take", "release"]


@pytest.mark.parametrize(("known", "then"), [("usps@acme", "release"), ("other", "delete")])
async def test_a_drain_job_for_a_line_that_is_not_known_is_left_to_others_or_recorded_nowhere(
    monkeypatch: pytest.MonkeyPatch, known: str, then: str
) -> None:
    """What waits there stays in Redis; a worker that knows the line puts the job again."""
    monkeypatch.setattr(handle, "LEFT_AFTER_SECONDS", 0.0)
    scene = Scene()
    scene.known = frozenset({known})

    def refuse(_: object) -> Slug:
        raise UnknownLine("usps@acme")

    scene.drains = refuse
    scene.receiver.on_drains([Job(scene.journal)])

    assert await scene.all_ended() == ["does anybody know usps@acme", then]


async def test_a_drain_job_that_cannot_be_read_is_recorded_and_buried() -> None:
    scene = Scene()

    def refuse(_: object) -> Slug:
        raise MalformedJob("bad_json", "no JSON")

    scene.drains = refuse
    scene.receiver.on_drains([Job(scene.journal)])

    assert await scene.all_ended() == ["record 1", "bury"]


async def test_a_line_over_which_a_defect_comes_up_is_asked_for_again_and_keeps_one_drain_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Released, its job would come back at once, and for ever."""
    monkeypatch.setattr(drain, "AFTER_DEFECT_SECONDS", 0.01)
    scene = Scene()
    scene.defects.too_many = True
    scene.journal.fail("take", *(ZeroDivisionError() for _ in range(4)))

    scene.receiver.on_drains([Job(scene.journal)])
    first = list(await scene.all_ended())
    scene.receiver.on_drains([Job(scene.journal)])
    second = list(await scene.all_ended())
    draining = asyncio.create_task(scene.drainer.run())
    async with asyncio.timeout(5):
        while "delete" not in scene.journal.steps[3:]:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
    scene.drainer.retire()
    await draining

    assert first == ["take"], "the job is kept"
    assert second == ["take", "take", "delete"], "one is enough"
    assert scene.journal.steps[3:] == ["take", "take", "take", "delete"], "until it is drained"


async def test_calls_that_were_taken_are_all_asked_for() -> None:
    scene = Scene()

    await scene.runner.apply(USPS, TakeResult(groups=((call(id="c1"),), (call(id="c2"),))))

    assert sorted(await scene.all_ended()) == ["ask"] * 2 + ["finish"] * 2 + ["save"] * 2


async def test_the_sweep_records_the_dying_and_asks_for_a_drainer() -> None:
    scene = Scene()
    scene.limits.swept = (Swept(USPS, swept=1, dying=(call(deaths=11),), put_drain=True),)

    await scene.sweeper.sweep()

    assert scene.journal.steps == [
        "sweep 1",
        "note final failure",
        "record 1",
        "finish",
        "put drain usps",
    ]


async def test_a_defect_over_one_line_leaves_the_others_to_be_swept() -> None:
    scene = Scene()
    scene.limits.swept = (Swept(USPS, dying=(call(deaths=11),)), Swept(USPS, put_drain=True))
    scene.journal.fail("record 1", KeyError("a defect"))

    await scene.sweeper.sweep()

    assert scene.journal.steps == ["sweep 1", "note final failure", "record 1", "put drain usps"]


async def test_what_hindered_the_sweep_of_one_line_is_told_and_the_others_are_put_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[object] = []
    monkeypatch.setattr(sweeper, "emit_unexpected", lambda _, slug: told.append(slug))
    scene = Scene()
    scene.limits.swept = (
        Swept(USPS, put_drain=True, error=KeyError("a defect")),
        Swept(Line("ups"), put_drain=True, error=LimitsDown("said elsewhere")),
    )

    await scene.sweeper.sweep()

    assert scene.journal.steps == ["sweep 1", "put drain usps", "put drain ups"]
    assert told == [USPS]
