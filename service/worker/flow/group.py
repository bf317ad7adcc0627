"""Runs groups: several calls under one permit, each with a record and an end of its own.

======================================= ============================================================
what comes of the call                  what becomes of its numbers
======================================= ============================================================
nothing was sent                        all go back to the head of their list, in their order
an error of the line (_OF_THE_LINE)     all are repeated at the same instant, none is charged; where
                                        one failed before, each at an instant of its own
any other error of the whole call       all go back to the head: one of them may be bad, so each
                                        half is asked about by itself (`Limits.halve`)
an answer                               stored in one go, then finished in one go
an error of one number, or its answer   ends as that of a call for one number
cannot be stored
nothing about a number                  it goes back to the head and is asked about alone
MongoDB is away, or this worker stops   those without a durable outcome go back, in their order
======================================= ============================================================

The last end of a group takes what follows; the ends before it are sent with no room for it. What is
not ended when the worker dies is swept when the lease ends.
"""

from __future__ import annotations

import asyncio
import copy
import datetime as dt
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat

from service.observe.events import Event
from service.observe.log import emit, emit_unexpected
from service.ports import Done, LeftOut, Limits, Outcome
from service.worker.flow.call import (
    CallRunner,
    WorkOf,
    attempt_of,
    given_up,
    in_redis,
    names_of,
    said_of,
)
from service.worker.flow.tasks import CallSlots
from tracking.call import Attempt, Call, Repeat, TakeResult, Verdict
from tracking.errors import (
    AuthFailed,
    CourierDown,
    CourierError,
    NoCredentials,
    NotStarted,
    RateLimited,
    ResultsDown,
    TrackingError,
    UnreadableAnswer,
)
from tracking.operation import State

Answered = tuple[Call, Done, Attempt]
Failed = tuple[Call, CourierError | LeftOut, Attempt | None]
"""A call of a group with its answer, or with what came of it in the place of one."""

NO_DELAYS = repeat(None)
"""Of numbers that end as by themselves."""

_OF_THE_LINE = (CourierDown, RateLimited, AuthFailed, NoCredentials)
"""Errors of a whole call for which no number of the group is to blame."""


class GroupRunner:
    """Runs groups for the runner of calls, which hands them over. One per process."""

    def __init__(
        self, runner: CallRunner, work_of: WorkOf, limits: Limits, slots: CallSlots
    ) -> None:
        self._runner, self._ends = runner, runner.ends
        self._work_of, self._limits, self._slots = work_of, limits, slots
        runner.run_group = self.run

    async def run(self, calls: Sequence[Call]) -> bool:
        """Run a group as `CallRunner.run` does a call."""
        left, line = list(calls), calls[0].line
        at, began = dt.datetime.now(dt.UTC), time.monotonic()
        try:
            made = await self._runner.perform(calls)
            ms = round((time.monotonic() - began) * 1000)
            result = await self._end(left, made, at, ms)
            left.clear()
            await self._runner.apply(line, result)
        except asyncio.CancelledError:
            if not left:
                raise
            result = await self._ends.hand_back(left)
            await self._runner.apply(line, result)
        return result.waits

    async def _end(
        self,
        left: list[Call],
        made: Sequence[Outcome] | CourierError | NotStarted,
        at: dt.datetime,
        ms: int,
    ) -> TakeResult:
        """End all calls of a group. `left` keeps those that have no end yet."""
        if isinstance(made, NotStarted):
            return await self._ends.hand_back(left, made)
        lead = left[0]
        names = {"slug": lead.request.slug, "number": lead.request.number}
        if isinstance(made, CourierError):
            if lead.permit.started:
                emit(Event.CALLED, **names, outcome=made.code, ms=ms, numbers=len(left))
            bare = _of_nobody(made)
            return await self._end_whole(left, bare, attempt_of(bare, at, ms))
        emit(Event.CALLED, **names, outcome="answered", ms=ms, numbers=len(left))
        answers, failed = list[Answered](), list[Failed]()
        for call, outcome in zip(left, made, strict=True):
            attempt = attempt_of(outcome, at, ms)
            if isinstance(outcome, Done):
                answers.append((call, outcome, attempt))
            else:
                failed.append((call, outcome, attempt))
        return await self._end_each(left, answers, failed)

    async def _end_whole(
        self, left: list[Call], error: CourierError, attempt: Attempt
    ) -> TakeResult:
        """End a group of which no number was answered."""
        lead = left[0]
        if isinstance(error, _OF_THE_LINE):
            *others, last = [(call, error, attempt) for call in left]
            delays = self._delays(left, error)
            await self._end_beside(left, others, delays)
            return await self._end_one(last, delays[-1])
        if lead.permit.started:
            noted = (self._ends.note(call, error, attempt, final=False) for call in left)
            await asyncio.gather(*noted)
        room = self._slots.reserve_for_next(lead.line)
        result = await in_redis(lead, lambda: self._limits.halve(left, room))
        emit(Event.HALVED, **names_of(lead), numbers=len(left), **said_of(error))
        return result._replace(waits=True)

    def _delays(self, calls: Sequence[Call], error: CourierError) -> Sequence[float]:
        """Draw when each number of a group is repeated that failed as a whole.

        At first all at the same instant, so that they are asked about together again. Where one of
        them failed before, each at its own: one that makes every call fail is soon by itself.
        """
        drawn = calls if any(call.tries for call in calls) else calls[:1]
        work, now = self._work_of(calls[0].line), time.time()
        decisions = [work.decide(error, call, now) for call in drawn]
        delays = [each.setback.delay if isinstance(each, Repeat) else 0.0 for each in decisions]
        return delays if len(delays) > 1 else delays * len(calls)

    async def _end_each(
        self, left: list[Call], answers: Sequence[Answered], failed: list[Failed]
    ) -> TakeResult:
        """End those that failed side by side, and before them all that were answered in one go."""
        errors = await self._store(answers) if answers else {}
        kept = [each for each in answers if errors.get(each[0].id) is None]
        back = self._unstored(answers, errors, failed) if len(kept) < len(answers) else []
        last = None if kept or back else failed.pop()
        if failed:
            await self._end_beside(left, failed)
        if last:
            return await self._end_one(last)
        if back:
            result = await self._ends.hand_back(back, errors.get(back[0].id), last=not kept)
        if kept:
            result = await self._ends.finish(
                [
                    (call, Verdict(State.SUCCESS, done.output, attempt=attempt))
                    for call, done, attempt in kept
                ]
            )
        for call, done, attempt in kept:
            told = {"tag": done.tag, "ms": attempt.ms, "requests": call.requests}
            emit(Event.ANSWERED, **names_of(call), **told)
        return result

    def _unstored(
        self,
        answers: Sequence[Answered],
        errors: Mapping[str, TrackingError | None],
        failed: list[Failed],
    ) -> list[Call]:
        """Add to what `failed` the answers that cannot be stored. Returns what is to come back."""
        back = list[Call]()
        for call, _, attempt in answers:
            error = errors.get(call.id)
            if isinstance(error, CourierError):
                failed.append((call, error, attempt))
            elif error and self._ends.comes_back(error):
                back.append(call)
            elif error:
                failed.append((call, given_up(error), None))
        return back

    async def _store(self, answers: Sequence[Answered]) -> Mapping[str, TrackingError | None]:
        """Store answers in one go. Returns what keeps each from being stored, by its call's id."""
        work, left = self._work_of(answers[0][0].line), answers
        errors: dict[str, TrackingError | None] = {}

        async def store() -> None:
            nonlocal left
            found = await work.store_all(left)
            errors.update((each[0].id, error) for each, error in zip(left, found, strict=True))
            left = [each for each in left if isinstance(errors[each[0].id], ResultsDown)]
            if left:
                raise ResultsDown(f"{len(left)} of {len(answers)} answers are not confirmed")

        try:
            await self._ends.durably(answers[0][0], store)
        except ResultsDown as down:
            errors.update((call.id, down) for call, *_ in left)
        return errors

    async def _end_beside(
        self, left: list[Call], failed: Sequence[Failed], delays: Iterable[float | None] = NO_DELAYS
    ) -> None:
        """End calls side by side. One over which a defect comes up is left to the sweeper."""

        async def end(each: Failed, delay: float | None) -> None:
            await self._end_one(each, delay, last=False)
            left.remove(each[0])

        for defect in await asyncio.gather(*map(end, failed, delays), return_exceptions=True):
            if defect is not None:
                emit_unexpected(defect)

    async def _end_one(
        self, failed: Failed, delay: float | None = None, *, last: bool = True
    ) -> TakeResult:
        """End a call that was not answered; `delay` where its whole group was not."""
        call, outcome, attempt = failed
        if isinstance(outcome, LeftOut):
            room = self._slots.reserve_for_next(call.line) if last else None
            result = await in_redis(call, lambda: self._limits.ask_alone(call, room))
            emit(Event.LEFT_OUT, **names_of(call))
            return result._replace(waits=True)
        try:
            return await self._ends.fail(call, outcome, attempt, delay, last=last)
        except ResultsDown as down:
            return await self._ends.not_stored(call, down, last=last)


def _of_nobody(error: CourierError) -> CourierError:
    """An error of a whole call, without the body: it is about several numbers, so about none."""
    bare = copy.copy(error)
    bare.excerpt = ""
    if isinstance(bare, UnreadableAnswer):
        bare.unread = None
    return bare
