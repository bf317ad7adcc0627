"""A group of calls is carried out in one go under one permit, and each call ends for itself."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Sequence

import pytest
from flow_ports import REQUEST, Permit, Scene, call

from service.ports import Done, Outcome
from service.worker.flow.call import CallRunner
from tracking.call import Attempt, Call, DeadLetter, Decision, Repeat, Setback
from tracking.errors import CourierDown, CourierError, NotStarted
from tracking.request import Number


class Echo:
    """A made-up work that answers each number with itself, those that begin with D excepted."""

    def __init__(self, scene: Scene) -> None:
        self.journal = scene.journal
        self.asked: list[list[str]] = []
        self.hangs = self.unsent = False

    async def perform(self, calls: Sequence[Call]) -> Sequence[Outcome]:
        self.asked.append([each.request.number for each in calls])
        if self.hangs:
            await asyncio.Event().wait()
        if self.unsent:
            return [NotStarted("the grant is long past") for _ in calls]
        return [
            CourierDown("it is down")
            if each.request.number.startswith("D")
            else Done("answered", {"echo": each.request.number}, "", each.request.number)
            for each in calls
        ]

    async def store(self, call: Call, done: Done, attempt: Attempt) -> None:
        assert attempt.outcome == done.outcome
        self.journal.note(f"store {done.content} of {call.id}")

    async def fail(self, call: Call, error: CourierError, attempt: Attempt, *, final: bool) -> None:
        assert attempt.at <= dt.datetime.now(dt.UTC)
        self.journal.note(f"note {error.code} of {call.id}{', the last' if final else ''}")

    def decide(self, error: CourierError, call: Call, now: float) -> Decision:
        assert now >= call.waiting_since
        return Repeat(Setback(error.code, delay=1.0))

    def letter(self, call: Call, error: CourierError) -> DeadLetter:
        return DeadLetter(call.id, error.code, error.message, b"")


class Stage(Scene):
    """A flow of which a line is for echoes."""

    def __init__(self) -> None:
        super().__init__()
        self.echo = Echo(self)
        self.runner = CallRunner(lambda _: self.echo, self.stores, self.tasks, self.slots)


@pytest.fixture
async def stage() -> Stage:
    return Stage()


def group(*numbers: str) -> list[Call]:
    """Calls under one permit."""
    permit = Permit()
    return [
        call(id=f"c{n}", permit=permit, request=REQUEST._replace(number=Number(number)))
        for n, number in enumerate(numbers, 1)
    ]


async def test_a_group_is_carried_out_once_and_each_call_is_stored_then_ended(
    stage: Stage,
) -> None:
    assert not await stage.runner.run(group("A", "B"))

    assert stage.echo.asked == [["A", "B"]]
    assert stage.journal.steps == ["store A of c1", "finish", "store B of c2", "finish"]
    assert [each.output for each in stage.limits.verdicts] == [{"echo": "A"}, {"echo": "B"}]


async def test_one_call_of_a_group_fails_and_the_others_are_answered(stage: Stage) -> None:
    assert await stage.runner.run(group("A", "D"))

    assert stage.journal.steps == ["store A of c1", "finish", "note courier_down of c2", "retry"]


async def test_all_of_a_group_are_handed_back_when_the_worker_stops(stage: Stage) -> None:
    stage.echo.hangs = True
    carrying = asyncio.create_task(stage.runner.run(group("A", "B")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    carrying.cancel()

    assert await carrying
    assert stage.journal.steps == ["hand back", "hand back"]
    # Each goes to the head of its list, so that the first is first again.
    assert stage.limits.handed_back == ["c2", "c1"]


async def test_what_is_left_of_a_group_is_handed_back_when_the_worker_stops(stage: Stage) -> None:
    hung = asyncio.Event()

    async def store(call: Call, *_: object) -> None:
        if call.id == "c2":
            hung.set()
            await asyncio.Event().wait()

    stage.echo.store = store  # type: ignore[method-assign]
    carrying = asyncio.create_task(stage.runner.run(group("A", "B", "C")))
    await hung.wait()

    carrying.cancel()

    assert await carrying
    assert stage.journal.steps == ["finish", "hand back", "hand back"]
    assert stage.limits.handed_back == ["c3", "c2"]


async def test_a_group_that_was_not_sent_goes_back_in_its_order(stage: Stage) -> None:
    calls = group("A", "B", "C")
    calls[0].permit.started = False  # type: ignore[misc]
    stage.echo.unsent = True

    assert await stage.runner.run(calls)

    assert stage.limits.handed_back == ["c3", "c2", "c1"]


async def test_a_group_that_is_not_answered_in_time_fails_as_one(stage: Stage) -> None:
    stage.echo.hangs = True
    calls = group("A", "B")
    calls[0].permit.deadline = 0.0  # type: ignore[misc]

    assert await stage.runner.run(calls)

    noted = ["note courier_down of c1", "retry", "note courier_down of c2", "retry"]
    assert stage.journal.steps == noted
