"""Ends of calls on lines where an attempt may find nothing to do, or fail by its line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from flow_ports import Permit, Scene, call, runner_of

from service.ports import Done, Outcome
from tracking.call import Attempt, Call, DeadLetter, Decision, Refuse, Repeat, Setback, Verdict
from tracking.errors import CourierDown, CourierError, TrackingError
from tracking.line import DELIVERY
from tracking.operation import State

SETBACK = Setback("destination_down", brake=DELIVERY.brakes["destination_down"])


class Errand:
    """A work that has nothing to do, or fails with `error`."""

    def __init__(self, scene: Scene, error: CourierError | None = None) -> None:
        self._journal, self._error = scene.journal, error
        self.decision: Decision = Refuse(SETBACK)

    async def perform(self, calls: Sequence[Call]) -> Sequence[Outcome]:
        if self._error:
            raise self._error
        return [Done("skipped", {}, "held", None, unsent=True) for _ in calls]

    async def store(self, *_: object) -> None:
        raise AssertionError

    async def store_all(self, _: object) -> Sequence[TrackingError | None]:
        raise AssertionError

    async def fail(self, *_: object, final: bool) -> None:
        self._journal.note("note final failure" if final else "note failure")

    def decide(self, *_: object) -> Decision:
        return self.decision

    def letter(self, *_: object) -> DeadLetter | None:
        return None


async def ended(work: Errand, scene: Scene, **members: object) -> list[Verdict]:
    runner = runner_of(work, scene.stores, scene.tasks, scene.slots)
    await runner.run([call(**members)])
    return scene.limits.verdicts


async def test_a_call_that_had_nothing_to_do_ends_and_tells_nothing() -> None:
    scene = Scene()

    assert await ended(Errand(scene), scene) == [
        Verdict(State.SUCCESS, {}, answered=False, unsent=True)
    ]
    assert scene.journal.steps == ["finish"]


async def test_a_refused_call_may_be_held_against_its_line() -> None:
    scene = Scene()
    (verdict,) = await ended(Errand(scene, CourierDown("down")), scene)

    assert (verdict.answered, verdict.setback) == (False, SETBACK)
    assert scene.journal.steps == ["note final failure", "finish"]


async def test_a_refused_call_that_is_held_against_nobody_tells_that_its_line_works() -> None:
    scene = Scene()
    work = Errand(scene, CourierDown("down"))
    work.decision = Refuse()
    (verdict,) = await ended(work, scene)

    assert (verdict.answered, verdict.setback) == (True, None)


@pytest.mark.parametrize(("counts", "noted"), [(True, 1), (False, 0)])
async def test_a_call_of_which_nothing_left_is_noted_where_its_error_counts(
    counts: bool,  # noqa: FBT001 - a table
    noted: int,
) -> None:
    scene, error = Scene(), CourierDown("no connection")
    error.counts = counts
    work = Errand(scene, error)
    work.decision = Repeat(replace(SETBACK, delay=5.0))
    await ended(work, scene, permit=Permit(started=False))

    assert scene.journal.steps == ["note failure"] * noted + ["retry"]
    assert isinstance(scene.limits.setbacks[0].attempt, Attempt) == counts


async def test_a_call_that_nobody_can_make_leaves_no_record_where_its_own_store_has_it() -> None:
    scene = Scene()
    runner = runner_of(Errand(scene), scene.stores, scene.tasks, scene.slots)

    await runner.give_up(call(deaths=11))

    assert scene.journal.steps == ["note final failure", "finish"]
