"""A job over which a defect of the worker comes up goes back, but not for ever."""

from __future__ import annotations

import pytest
from flow_ports import REQUEST, Job, Scene

from service.worker.flow import receive
from tracking.errors import LimitsDown
from tracking.request import Origin, TrackingRequest

pytestmark = pytest.mark.usefixtures("unread_log")


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive, "AFTER_DEFECT_SECONDS", 0.0)


@pytest.fixture
async def scene() -> Scene:
    """A worker that cannot read its jobs."""

    def breaks(_: object) -> TrackingRequest:
        raise KeyError("no such member, apikey=hunter22")

    made = Scene()
    made.decode = breaks
    return made


async def steps(scene: Scene) -> list[str]:
    scene.receiver.on_requests([Job(scene.journal)])
    return await scene.all_ended()


async def test_it_goes_back(scene: Scene) -> None:
    assert await steps(scene) == ["count a defect", "release"]


async def test_after_too_many_it_is_recorded_and_then_buried(scene: Scene) -> None:
    scene.defects.too_many = True

    assert await steps(scene) == ["count a defect", "record 1", "bury"]

    (letter,) = scene.dead.letters
    assert (letter.reason, letter.id, letter.job) == ("defect", "key-of-the-job", 7)
    assert letter.detail.startswith("KeyError: 'no such member, apikey=***")
    assert "(test_defects_over_a_job.py:" in letter.detail


@pytest.mark.parametrize(
    ("origin", "ends"), [(Origin.AUTOMATIC, ["end checks"]), (Origin.MANUAL, [])]
)
async def test_a_recheck_that_breaks_its_worker_is_the_last_of_its_parcel(
    origin: Origin, ends: list[str]
) -> None:
    """Else one more job would be buried every hour."""
    scene = Scene()
    scene.decode = lambda _: REQUEST._replace(origin=origin)
    scene.journal.fail("admit", KeyError("no such member"))
    scene.defects.too_many = True

    assert (await steps(scene))[-3 - len(ends) :] == ["count a defect", "record 1", *ends, "bury"]


async def test_where_redis_cannot_count_it_goes_back(scene: Scene) -> None:
    scene.defects.too_many = True
    scene.journal.fail("count a defect", LimitsDown("away"))

    assert await steps(scene) == ["count a defect", "release"]


async def test_a_defect_while_it_is_given_up_does_not_keep_it(scene: Scene) -> None:
    scene.defects.too_many = True
    scene.journal.fail("record 1", ZeroDivisionError())

    assert await steps(scene) == ["count a defect", "record 1", "release"]
