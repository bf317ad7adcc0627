"""A flow of which a line is for echoes, and groups of calls for it."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Callable, Sequence
from typing import Any

from flow_ports import REQUEST, Permit, Scene, call, runner_of

from service.ports import Done, LeftOut, Outcome
from service.worker.flow.tracking_work import RetryRules, decide
from tracking.call import Attempt, Call, DeadLetter, Decision
from tracking.errors import CourierDown, CourierError, InvalidNumber, TrackingError
from tracking.request import Number

Written = Callable[[], list[dict[str, Any]]]

THIRTY = [f"N{n:03}" for n in range(30)]

OWN: dict[str, Callable[[], CourierError]] = {
    "D": lambda: CourierDown("nothing is known of this one just now"),
    "R": lambda: InvalidNumber("never a number of this courier", http_status=200),
}


class Echo:
    """A made-up work that answers each number with itself.

    Those that begin with D or R have an error of their own, and those with L are left out.
    """

    def __init__(self, scene: Scene) -> None:
        self.journal = scene.journal
        self.asked: list[list[str]] = []
        self.whole: Exception | None = None
        self.hangs = False
        self.unstored: dict[str, TrackingError] = {}
        self.stored: list[list[str]] = []
        self.attempts: list[Attempt] = []
        self.errors: list[CourierError] = []

    async def perform(self, calls: Sequence[Call]) -> Sequence[Outcome]:
        self.asked.append([each.request.number for each in calls])
        if self.hangs:
            await asyncio.Event().wait()
        if self.whole:
            raise self.whole
        return [_outcome(each.request.number) for each in calls]

    async def store(self, call: Call, done: Done, attempt: Attempt) -> None:
        assert attempt.outcome == done.outcome
        self.journal.note(f"store {done.content} of {call.id}")

    async def store_all(
        self, answers: Sequence[tuple[Call, Done, Attempt]]
    ) -> Sequence[TrackingError | None]:
        self.stored.append([call.request.number for call, _, _ in answers])
        self.journal.note(f"store {len(answers)}")
        return [self.unstored.get(call.request.number) for call, _, _ in answers]

    async def fail(self, call: Call, error: CourierError, attempt: Attempt, *, final: bool) -> None:
        assert attempt.at <= dt.datetime.now(dt.UTC)
        self.attempts.append(attempt)
        self.errors.append(error)
        self.journal.note(f"note {error.code} of {call.id}{', the last' if final else ''}")

    def decide(self, error: CourierError, call: Call, now: float) -> Decision:
        assert now >= call.waiting_since
        return decide(error, call, now, RetryRules())

    def letter(self, call: Call, error: CourierError) -> DeadLetter:
        return DeadLetter(call.id, error.code, error.message, b"")


def _outcome(number: str) -> Outcome:
    if number.startswith("L"):
        return LeftOut()
    error = OWN.get(number[0])
    return error() if error else Done("answered", {"echo": number}, "", number)


class Stage(Scene):
    """A flow of which a line is for echoes."""

    def __init__(self) -> None:
        super().__init__()
        self.echo = Echo(self)
        self.runner = runner_of(self.echo, self.stores, self.tasks, self.slots)

    async def hung(self, *numbers: str) -> asyncio.Task[bool]:
        """A group that was sent and waits for its answer."""
        self.echo.hangs = True
        running = asyncio.create_task(self.runner.run(group(*numbers)))
        while not self.echo.asked:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
        return running


def group(*numbers: str, **permit: Any) -> list[Call]:
    """Calls under one permit."""
    given = Permit(**permit)
    return [
        call(id=f"c{n}", permit=given, request=REQUEST._replace(number=Number(number)))
        for n, number in enumerate(numbers, 1)
    ]


def soon(**more: Any) -> dict[str, Any]:
    """A permit that ends in a moment."""
    return {"deadline": time.monotonic() + 0.01, **more}
