"""Draining and sweeping: the duty to look again is somebody's at every moment."""

from __future__ import annotations

import time

import pytest
from flow_ports import USPS, Job, Scene, away, call

from service.flow import receive
from tracking.call import Swept, Turn
from tracking.errors import LimitsDown, MalformedJob, UnknownLine
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
    scene.limits.turn = Turn(ask_again=time.monotonic() + 60.0)

    scene.receiver.on_drains([Job(scene.journal)])

    assert await scene.all_ended() == ["take"]
    assert [slug for slug, _ in scene.again] == [USPS]


async def test_a_full_process_hands_its_drain_job_to_others() -> None:
    scene = Scene()
    scene.limits.turn = Turn(put_drain=True)

    scene.receiver.on_drains([Job(scene.journal)])

    assert await scene.all_ended() == ["take", "release"]


async def test_a_drain_job_for_a_line_that_is_not_known_is_deleted_and_recorded_nowhere() -> None:
    """What waits there stays in Redis; a worker that knows the line puts the job again."""
    scene = Scene()

    def refuse(_: object) -> Slug:
        raise UnknownLine("usps@acme")

    scene.drains = refuse
    scene.receiver.on_drains([Job(scene.journal)])

    assert await scene.all_ended() == ["delete"]


async def test_a_drain_job_that_cannot_be_read_is_recorded_and_buried() -> None:
    scene = Scene()

    def refuse(_: object) -> Slug:
        raise MalformedJob("bad_json", "no JSON")

    scene.drains = refuse
    scene.receiver.on_drains([Job(scene.journal)])

    assert await scene.all_ended() == ["record 1", "bury"]


async def test_a_drain_job_over_which_a_defect_comes_up_goes_back_however_often() -> None:
    scene = Scene()
    scene.defects.too_many = True
    scene.journal.fail("take", ZeroDivisionError())

    scene.receiver.on_drains([Job(scene.journal)])

    assert await scene.all_ended() == ["take", "release"]


async def test_calls_that_were_taken_are_all_asked_for() -> None:
    scene = Scene()

    await scene.dispatcher.go_on(USPS, Turn(calls=(call(id="c1"), call(id="c2"))))

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
