"""While no answer could be stored no call begins, nothing is charged, and duties stay put.

How many drain jobs that makes in five minutes: tests/simulation/test_outages.py.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NoReturn

import pytest
from flow_ports import TRACKING, USPS, Job, Permit, Scene, away, call, slots_for

from service.worker.flow import call as call_module
from service.worker.flow.tracking_work import DAY_SECONDS
from tracking.call import NO_ROOM, Call, Granted, Swept, TakeResult
from tracking.checkpoint import Tracking
from tracking.errors import CourierDown, InvalidNumber, NotStarted, RateLimited, ResultsDown

FINAL = "note final failure"
DIES = ["retry", "record 1", "finish"]

pytestmark = pytest.mark.usefixtures("unread_log")


def failing(error: Exception) -> Callable[[Call], Tracking]:
    def fail(_: Call) -> NoReturn:
        raise error

    return fail


async def test_nobody_is_given_a_place() -> None:
    slots = slots_for(5, available=False)
    slots.waiting.add(USPS)

    assert (slots.reserve(1, USPS), slots.reserve_for_next(USPS)) == (NO_ROOM, NO_ROOM)
    assert slots.next_waiting_line() is None
    slots.stop()
    assert slots.reserve_for_next(USPS) == 0, "a process that stops hands its lines over"


@pytest.mark.parametrize(
    ("track", "ends"),
    [
        (lambda _: TRACKING, "finish"),
        (failing(InvalidNumber("never")), "finish"),
        (failing(CourierDown("502")), "retry"),
        (failing(RateLimited("429")), "retry"),
        (failing(NotStarted("too late")), "hand back"),
    ],
)
async def test_no_call_follows_one_that_ends(track: Callable[[Call], Tracking], ends: str) -> None:
    scene = Scene(Granted(call()))

    def mongodb_goes(asked: Call) -> Tracking:
        scene.results.is_available = False
        return track(asked)

    scene.track = mongodb_goes
    steps = await scene.handle()

    assert steps[-2:] == [ends, "delete"]
    assert scene.limits.rooms == [NO_ROOM]


@pytest.mark.parametrize("track", [lambda _: TRACKING, failing(InvalidNumber("never"))])
async def test_a_call_whose_outcome_cannot_be_stored_goes_back_uncharged(
    track: Callable[[Call], Tracking],
) -> None:
    scene = Scene(Granted(call(permit=Permit(deadline=time.monotonic() + 0.01))))
    scene.track = track
    scene.results.is_available = False
    for step in ("save", "note final failure"):
        scene.journal.fail(step, *away(ResultsDown, 100))

    steps = await scene.handle()

    assert steps[-2:] == ["hand back", "delete"]
    assert not {"retry", "finish"} & set(steps)


async def test_a_courier_that_wants_a_pause_has_it_before_the_lease_ends() -> None:
    scene = Scene(Granted(call(permit=Permit(deadline=time.monotonic() + 0.01))))
    scene.track = failing(RateLimited("429"))
    scene.results.is_available = False
    scene.journal.fail("note failure", *away(ResultsDown, 100))

    steps = await scene.handle()

    assert steps[-2:] == ["retry", "delete"]
    assert [setback.why for setback in scene.limits.setbacks] == ["rate_limited"]


async def test_who_stops_with_an_outcome_that_is_not_stored_hands_the_request_back() -> None:
    """Its grace ends before the call's deadline, and MongoDB is away."""
    for track, step in ((lambda _: TRACKING, "save"), (failing(InvalidNumber("never")), FINAL)):
        scene = Scene(Granted(call()))
        scene.track = track
        scene.results.is_available = False
        scene.journal.fail(step, *away(ResultsDown, 100_000))
        scene.tasks.start(scene.handler.handle(Job(scene.journal)))

        assert await scene.tasks.stop(0.1) == 1

        assert scene.journal.steps[-2:] == ["hand back", "delete"]
        assert scene.limits.setbacks == []


async def test_an_answer_that_waits_for_a_majority_for_too_long_is_not_charged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_module, "STORED_SECONDS", 0.01)
    scene = Scene(Granted(call(permit=Permit(deadline=time.monotonic()))))

    async def waits(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(scene.results, "save", waits)

    steps = await scene.handle()

    assert steps[-2:] == ["hand back", "delete"]
    assert scene.limits.setbacks == []


@pytest.mark.parametrize(("used_up", "ends"), [(False, ["retry"]), (True, DIES)])
async def test_an_answer_that_a_mongodb_which_is_there_does_not_take_has_an_end(
    *, used_up: bool, ends: list[str]
) -> None:
    scene = Scene(Granted(call(permit=Permit(deadline=time.monotonic() + 0.01))))
    scene.limits.used_up = used_up
    scene.journal.fail("save", *away(ResultsDown, 100))

    steps = await scene.handle()

    assert [each for each in steps if each in {"retry", *DIES}] == ends
    ((setback, *_),) = (scene.limits.setbacks,)
    assert (setback.why, setback.charged, setback.attempts) == ("results_down", True, 5)
    assert [each.reason for each in scene.dead.letters] == ["results_down"] * used_up


async def test_one_that_mongodb_does_not_take_for_days_is_dead() -> None:
    failing_since = time.time() - 8 * DAY_SECONDS
    permit = Permit(deadline=time.monotonic() + 0.01)
    scene = Scene(Granted(call(permit=permit, failing_since=failing_since)))
    scene.journal.fail("save", *away(ResultsDown, 100))

    steps = await scene.handle()

    assert "retry" not in steps
    assert [each.reason for each in scene.dead.letters] == ["results_down"]


async def test_the_sweep_goes_on_and_finds_the_dying_again_when_they_can_be_recorded() -> None:
    scene = Scene()
    scene.limits.swept = (Swept(USPS, dying=(call(deaths=11),), put_drain=True),)
    scene.results.is_available = False

    await scene.sweeper.sweep()
    while_away = list(scene.journal.steps)
    scene.results.is_available = True
    await scene.sweeper.sweep()

    assert while_away == ["sweep 1", "put drain usps"]
    ended = ["note final failure", "record 1", "finish"]
    assert scene.journal.steps[2:] == ["sweep 1", *ended, "put drain usps"]


async def test_a_drain_job_is_kept_by_the_first_who_comes_with_it() -> None:
    scene = Scene()
    scene.results.is_available = False
    scene.limits.result = TakeResult(ask_again=time.monotonic() + 30.0, full=True)

    scene.receiver.on_drains([Job(scene.journal)])

    assert await scene.all_ended() == ["take"], "neither put again nor deleted"
    assert not scene.slots.waiting.add(USPS), "it waits already"


async def test_who_stands_in_line_is_asked_for_once_answers_can_be_stored_again() -> None:
    scene = Scene()
    scene.results.is_available = False
    scene.slots.waiting.add(USPS)
    draining = asyncio.create_task(scene.drainer.run())
    for _ in range(9):
        await asyncio.sleep(0)
    asked_while_away = list(scene.journal.steps)

    scene.results.is_available = True
    scene.slots.waiting.wake()
    async with asyncio.timeout(5):
        while not scene.journal.steps:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
    scene.drainer.retire()
    await draining

    assert asked_while_away == []
    assert scene.journal.steps == ["take"]
