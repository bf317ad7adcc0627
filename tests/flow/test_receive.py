"""Jobs that cannot go on (flow/receive.py): their line is broken, or a defect comes up over them.

What Redis holds of a line is broken: its jobs rest, hold nobody up, and go on afterwards. A job
over which a defect of the worker comes up goes back, but not for ever.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest
from flow_ports import REQUEST, USPS, Job, Scene, call

from service.worker.flow import call as call_module
from service.worker.flow import receive, tasks
from service.worker.flow.tasks import keep_trying
from tracking import errors
from tracking.call import Granted, Swept, TakeResult
from tracking.errors import (
    AWAY,
    LimitsBroken,
    LimitsDown,
    MalformedJob,
    ResultsDown,
    StoreError,
)
from tracking.line import Line
from tracking.request import Origin, TrackingRequest

pytestmark = pytest.mark.usefixtures("unread_log")

BROKEN = LimitsBroken("what Redis holds cannot be worked with (WRONGTYPE)", "Mend it.")

RECHECK = REQUEST._replace(origin=Origin.AUTOMATIC, id="shop/recheck-" + 32 * "a")

TRIED_FOR_EVER = {
    "TubesDown": True,
    "LimitsDown": True,
    "ResultsDown": True,
    "SpoolDown": True,
    "LimitsBroken": False,
    "StoreError": False,
    "TrackingError": False,
    "MalformedJob": False,
    "NotStarted": False,
    "CourierError": False,
    "KeyError": False,
}
"""Which errors a step of the flow is repeated for without end: a closed list."""


@pytest.fixture(autouse=True)
def _short_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive, "REST_SECONDS", 0.01)
    monkeypatch.setattr(call_module, "BROKEN_AGAIN_SECONDS", 0.01)


async def until(scene: Scene, step: str) -> list[str]:
    deadline = time.monotonic() + 10
    while step not in scene.journal.steps:
        assert time.monotonic() < deadline, scene.journal.steps
        await asyncio.sleep(0.005)
    return scene.journal.steps


def of_the_tree() -> Iterator[str]:
    for each in vars(errors).values():
        if isinstance(each, type) and issubclass(each, StoreError):
            yield each.__name__


def test_the_table_knows_every_error_of_our_own_servers() -> None:
    assert set(of_the_tree()) <= set(TRIED_FOR_EVER)


@pytest.mark.parametrize("name", TRIED_FOR_EVER)
async def test_only_what_passes_by_itself_is_tried_for_ever(name: str) -> None:
    kind = getattr(errors, name, KeyError)
    tries = []

    async def step() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise kind(*["said"] * (2 if name == "MalformedJob" else 1))

    if TRIED_FOR_EVER[name]:
        await keep_trying(step)
    else:
        with pytest.raises(kind):
            await keep_trying(step)
    assert len(tries) == (3 if TRIED_FOR_EVER[name] else 1)
    assert issubclass(kind, AWAY) is TRIED_FOR_EVER[name]


async def test_what_is_tried_until_a_deadline_is_tried_at_its_end_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks, "FIRST_WAIT_SECONDS", 60.0)
    until = time.monotonic() + 0.05

    async def step() -> None:
        if time.monotonic() < until:
            raise ResultsDown("it is back in the last moment")

    await keep_trying(step, until)


async def test_a_job_of_a_broken_line_rests_without_a_place_and_goes_on_when_it_is_mended() -> None:
    scene = Scene()
    scene.journal.fail("admit", BROKEN)

    scene.receiver.on_requests([Job(scene.journal)])
    steps = await until(scene, "delete")

    assert [each for each in steps if each != "available"][:3] == [
        "admit",
        "leave the window",
        "admit",
    ]
    assert "count a defect" not in steps
    assert "release" not in steps
    assert scene.slots.taken == 0


async def test_a_resting_job_holds_no_place_for_a_call_and_a_stop_does_not_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receive, "REST_SECONDS", 3600.0)
    scene = Scene(Granted(call()))
    scene.journal.fail("admit", BROKEN)
    scene.receiver.on_requests([Job(scene.journal)])
    await until(scene, "leave the window")
    await asyncio.sleep(0)

    assert (scene.slots.taken, scene.tasks.resting) == (0, 1)
    before = time.monotonic()
    await scene.tasks.stop(3600.0)
    assert time.monotonic() - before < 60
    assert "delete" not in scene.journal.steps


async def test_a_job_that_was_lost_while_it_rested_is_somebody_elses() -> None:
    scene = Scene()
    scene.journal.fail("admit", BROKEN)

    scene.receiver.on_requests([Job(scene.journal, lost=True)])
    await until(scene, "leave the window")
    deadline = time.monotonic() + 10
    while scene.tasks.resting:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)
    await scene.all_ended()

    assert scene.journal.steps.count("admit") == 1


async def test_more_jobs_than_one_process_may_hold_are_recorded_in_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receive, "AT_REST_MOST", 0)
    scene = Scene()
    scene.journal.fail("admit", BROKEN)

    scene.receiver.on_requests([Job(scene.journal)])

    assert (await until(scene, "bury"))[-2:] == ["record 1", "bury"]
    assert scene.decode(object()) == REQUEST


async def test_re_checks_rest_in_half_of_the_room_and_those_beyond_are_no_dead_letters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receive, "AT_REST_MOST", 4)
    monkeypatch.setattr(receive, "REST_SECONDS", 3600.0)
    scene = Scene()
    scene.journal.fail("admit", *[BROKEN] * 7)
    scene.decode = lambda _: RECHECK
    for _ in range(3):
        scene.receiver.on_requests([Job(scene.journal)])
    steps = await until(scene, "delete")
    assert (scene.tasks.resting, "record 1" in steps) == (2, False)

    scene.decode = lambda _: REQUEST._replace(origin=Origin.AUTOMATIC, id="recheck-of-a-producer")
    for _ in range(2):
        scene.receiver.on_requests([Job(scene.journal)])
    deadline = time.monotonic() + 10
    while scene.tasks.resting < 4:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)
    scene.receiver.on_requests([Job(scene.journal)])

    assert (await until(scene, "bury"))[-2:] == ["record 1", "bury"]
    assert scene.journal.steps.count("delete") == 1


async def test_the_end_of_a_call_is_tried_again_over_a_broken_key() -> None:
    scene = Scene(Granted(call()))
    scene.journal.fail("finish", BROKEN)

    steps = await scene.handle()

    assert steps.count("save") == 1
    assert [each for each in steps if each == "finish"] == ["finish"] * 2
    assert steps[-1] == "delete"


async def test_one_dying_call_of_a_broken_line_keeps_no_other_from_its_end() -> None:
    scene = Scene()
    scene.limits.swept = (
        Swept(USPS, dying=(call(deaths=11), call(deaths=11))),
        Swept(Line("ups"), put_drain=True),
    )
    scene.journal.fail("finish", BROKEN)
    scene.journal.fail("record 1", BROKEN)

    await scene.sweeper.sweep()

    assert scene.journal.steps.count("note final failure") == 2
    assert scene.journal.steps[-1] == "put drain ups"


async def test_the_lines_behind_a_broken_one_are_handed_over_too() -> None:
    scene = Scene()
    for line in (USPS, Line("ups")):
        scene.drainer.schedule(line, time.monotonic() + 3600)
    scene.limits.result = TakeResult()
    scene.journal.fail("take", BROKEN)

    await scene.drainer.hand_over()

    assert scene.journal.steps.count("take") == 2


async def test_redis_away_is_no_defect() -> None:
    scene = Scene()
    scene.journal.fail("admit", LimitsDown("away"))

    scene.receiver.on_requests([Job(scene.journal)])

    assert "leave the window" not in await until(scene, "delete")


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
    assert "(test_receive.py:" in letter.detail


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


def take_foreign(scene: Scene, *errors: Exception) -> Callable[[object], Awaitable[None]]:
    """What stores the request of a job, after it failed so."""
    left = list(errors)

    async def take(_: object) -> None:
        scene.journal.note("take a request")
        if left:
            raise left.pop(0)

    return take


async def test_the_job_of_a_foreign_request_goes_once_its_request_is_stored() -> None:
    scene = Scene()

    scene.receiver.on_foreign(take_foreign(scene), [Job(scene.journal)])

    assert await scene.all_ended() == ["take a request", "delete"]


async def test_while_mongodb_is_away_the_job_of_a_foreign_request_stays() -> None:
    scene = Scene()
    away = [ResultsDown("MongoDB is away")] * 2

    scene.receiver.on_foreign(take_foreign(scene, *away), [Job(scene.journal)])

    assert await scene.all_ended() == ["take a request"] * 3 + ["delete"]


async def test_the_job_of_a_malformed_foreign_request_is_recorded_and_buried() -> None:
    scene = Scene()
    malformed = MalformedJob("bad_shape", "no label")

    scene.receiver.on_foreign(take_foreign(scene, malformed), [Job(scene.journal)])

    assert await scene.all_ended() == ["take a request", "record 1", "bury"]
    assert [each.reason for each in scene.dead.letters] == ["bad_shape"]


async def test_a_foreign_request_over_which_a_defect_comes_up_goes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receive, "AFTER_DEFECT_SECONDS", 0.0)
    scene = Scene()

    scene.receiver.on_foreign(take_foreign(scene, KeyError("a")), [Job(scene.journal)])

    assert await scene.all_ended() == ["take a request", "count a defect", "release"]
