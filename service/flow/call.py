"""Permitted calls: carry them out, make what comes durable, only then give the slot back."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from service.flow.call_room import CallRoom
from service.flow.deadlines import Deadlines
from service.flow.keep_trying import keep_trying
from service.observe.events import Event
from service.observe.log import emit, emit_unexpected
from service.ports import (
    DeadLetters,
    Defects,
    Done,
    Limits,
    MalformedCounts,
    Mirror,
    Outcome,
    Results,
    Work,
)
from tracking.call import Attempt, Call, Die, Refuse, Repeat, Setback, Turn, Verdict
from tracking.errors import (
    CourierDown,
    CourierError,
    GivenUp,
    LimitsBroken,
    NotStarted,
    ResultsDown,
    UnreadableAnswer,
    UnstorableAnswer,
)
from tracking.line import Line
from tracking.operation import State

BROKEN_AGAIN_SECONDS = 5.0
"""When the end of a call is tried again for which a key of its line was found broken."""

WorkOf = Callable[[Line], Work]
"""What is done on a line; chosen by its kind."""

STORED_SECONDS = 5.0
"""How long it is tried to store an answer that came at its call's deadline."""


class _Overdue(ResultsDown):
    """What is written may yet be confirmed, but the call's lease ends."""


@dataclass(frozen=True, slots=True)
class Stores:
    """Where a call's outcome goes."""

    limits: Limits
    results: Results
    dead: DeadLetters
    defects: Defects
    malformed: MalformedCounts
    knows: Callable[[str], Awaitable[bool]]
    """Whether a worker process that lives knows a courier of this slug. Raises LimitsDown."""
    mirror: Mirror | None = None
    """Where what waits in Redis is written too, before its job goes; None: nowhere."""


class Asker:
    """Carries calls from their permit to their end. Order of safety: store, then finish."""

    def __init__(self, work_of: WorkOf, stores: Stores, room: CallRoom) -> None:
        self._work_of = work_of
        self._limits, self._results, self._dead = stores.limits, stores.results, stores.dead
        self.room = room
        self._deadlines = Deadlines()

    async def perform(self, calls: Sequence[Call]) -> Sequence[tuple[Outcome, Attempt]]:
        """Spend the permit of a group. What came of each call, in their order, is to be kept.

        Raises CancelledError: this worker stops, and the calls are to be handed back.
        """
        began, at = time.monotonic(), dt.datetime.now(dt.UTC)
        outcomes = await self._outcomes(calls)
        ms = round((time.monotonic() - began) * 1000)
        return [(outcome, _attempt(outcome, at, ms)) for outcome in outcomes]

    async def keep(self, call: Call, outcome: Outcome, attempt: Attempt) -> Turn:
        """Make what came of a call durable. What comes back is whose turn it is next."""
        try:
            return await self._keep(call, outcome, attempt)
        except ResultsDown as error:
            # The lease ends soon, and an outcome that is not durable is none: ask again later.
            if isinstance(error, _Overdue) or not self._results.is_available:
                return await self._back_to_head(call, error)
            return await self._unstored(call, GivenUp("results_down", error.message))

    async def _keep(self, call: Call, outcome: Outcome, attempt: Attempt) -> Turn:
        if isinstance(outcome, NotStarted):
            return await self._back_to_head(call, outcome)
        if isinstance(outcome, CourierError):
            if call.permit.started:
                _tell_of(call, attempt)
            return await self._failed(call, outcome, attempt)
        _tell_of(call, attempt)
        return await self._answered(call, outcome, attempt)

    async def _unstored(self, call: Call, error: CourierError) -> Turn:
        """Repeat a call whose outcome MongoDB, which is there, did not take: not for ever."""
        decision = self._work_of(call.line).decide(error, call, time.time())
        if isinstance(decision, Repeat):
            turn = await self._repeat(call, decision.setback, _said(error))
            if not turn.used_up:
                return turn
        setback = None if isinstance(decision, Refuse) else decision.setback
        return await self._die(call, error, setback)

    async def _die(
        self,
        call: Call,
        error: CourierError,
        setback: Setback | None = None,
        made: Attempt | None = None,
    ) -> Turn:
        """Record a call as dead and end its operations: the worker's last word about it."""
        letter = self._work_of(call.line).letter(call, error)
        await keep_trying(lambda: self._dead.record([letter]))
        emit(Event.DEAD, **_names(call), **_said(error), requests=call.requests)
        verdict = _error_verdict(error, made, answered=False)
        return await self._finish(call, verdict._replace(setback=setback))

    async def give_up(self, call: Call, error: CourierError) -> Turn:
        """End a call that nobody makes any more."""
        attempt = Attempt(dt.datetime.now(dt.UTC), error.code, 0)
        work = self._work_of(call.line)
        await keep_trying(lambda: work.fail(call, error, attempt, final=True))
        return await self._die(call, error)

    async def hand_back(self, call: Call) -> Turn:
        """Give a call up unanswered, because this worker stops: others go on with it at once."""
        turn = await _in_redis(call, lambda: self._limits.hand_back(call, 0))
        emit(Event.HANDED_BACK, **_names(call))
        return turn._replace(waits=True)

    async def _outcomes(self, calls: Sequence[Call]) -> Sequence[Outcome]:
        """Work within the calls' one deadline; whatever a module raises becomes a known error."""
        deadline, work = calls[0].permit.deadline, self._work_of(calls[0].line)
        try:
            return await self._deadlines.hold(deadline, work.perform(calls))
        except TimeoutError:
            return [CourierDown("no whole answer within the call's time-out") for _ in calls]
        except Exception as error:  # noqa: BLE001 - never Pending, and never this worker's end
            emit_unexpected(error, **_names(calls[0]))
            broke = f"the courier module broke: {type(error).__name__}"
            return [UnreadableAnswer(broke) for _ in calls]

    async def _answered(self, call: Call, done: Done, attempt: Attempt) -> Turn:
        work = self._work_of(call.line)
        try:
            await self._durably(call, lambda: work.store(call, done, attempt))
            turn = await self._finish(call, Verdict(State.SUCCESS, done.output, attempt=attempt))
        except UnreadableAnswer as error:
            return await self._failed(call, error, attempt)
        emit(Event.ANSWERED, **_names(call), tag=done.tag, ms=attempt.ms, requests=call.requests)
        return turn

    async def _failed(self, call: Call, error: CourierError, attempt: Attempt) -> Turn:
        said = _said(error)
        if isinstance(error, UnreadableAnswer):
            unstorable = isinstance(error, UnstorableAnswer)
            emit(Event.UNSTORABLE if unstorable else Event.UNREADABLE, **_names(call), **said)
        decision = self._work_of(call.line).decide(error, call, time.time())
        final = isinstance(decision, Refuse | Die)
        made = attempt if call.permit.started else None
        if made or final:
            try:
                await self._note(call, error, attempt, final=final)
            except ResultsDown:
                if final:
                    raise
        match decision:
            case Refuse():
                emit(Event.REFUSED, **_names(call), **said, requests=call.requests)
                return await self._finish(call, _error_verdict(error, made, answered=True))
            case Die(setback):
                return await self._die(call, error, setback, made)
            case Repeat(setback):
                turn = await self._repeat(call, replace(setback, attempt=made), said)
                if not turn.used_up:
                    return turn
                await self._note(call, error, attempt, final=True)
                return await self._die(call, error, setback, made)
        assert_never(decision)

    async def _note(
        self, call: Call, error: CourierError, attempt: Attempt, *, final: bool
    ) -> None:
        work = self._work_of(call.line)
        await self._durably(call, lambda: work.fail(call, error, attempt, final=final))

    async def _durably(self, call: Call, store: Callable[[], Awaitable[None]]) -> None:
        """Store what came of a call until its deadline, or once. Raises ResultsDown."""
        deadline = call.permit.deadline
        until = max(deadline, time.monotonic() + STORED_SECONDS)
        try:
            await self._deadlines.hold(until, keep_trying(store, until=deadline))
        except TimeoutError as error:
            raise _Overdue("MongoDB has not confirmed it by the call's deadline") from error

    async def _repeat(self, call: Call, setback: Setback, said: dict[str, str | int]) -> Turn:
        room = self.room.take_to_follow()
        turn = await _in_redis(call, lambda: self._limits.retry(call, setback, room))
        if turn.used_up:
            return turn
        turn = turn._replace(waits=True)
        if setback.patience is not None:
            emit(_PAUSES[setback.why], **_names(call), **said)
            return turn
        emit(
            Event.RETRIED,
            **_names(call),
            **said,
            attempts=call.attempts,
            delay_ms=round(setback.delay * 1000),
        )
        return turn

    async def _back_to_head(self, call: Call, why: Exception) -> Turn:
        room = self.room.take_to_follow()
        turn = await _in_redis(call, lambda: self._limits.hand_back(call, room))
        emit(Event.HANDED_BACK, **_names(call), why=str(why))
        return turn._replace(waits=True)

    async def _finish(self, call: Call, verdict: Verdict) -> Turn:
        room = self.room.take_to_follow()
        return await _in_redis(call, lambda: self._limits.finish(call, verdict, room))


async def _in_redis(call: Call, step: Callable[[], Awaitable[Turn]]) -> Turn:
    """End a call there. Over a broken key that is tried until the call's time is over.

    Then LimitsBroken is raised, and the sweeper finds the call once its lease has ended.
    """
    while True:
        try:
            return await keep_trying(step)
        except LimitsBroken as error:
            if time.monotonic() + BROKEN_AGAIN_SECONDS > call.permit.deadline:
                raise
            emit_unexpected(error, **_names(call))
        await asyncio.sleep(BROKEN_AGAIN_SECONDS)


_PAUSES = {
    "no_credentials": Event.NO_CREDENTIALS,
    "auth_failed": Event.AUTH_FAILED,
    "rate_limited": Event.PAUSED,
}


def _attempt(outcome: Outcome, at: dt.datetime, ms: int) -> Attempt:
    match outcome:
        case Done():
            return Attempt(at, outcome.outcome, ms, outcome.http_status)
        case CourierError():
            return Attempt(at, outcome.code, ms, outcome.http_status, outcome.excerpt)
        case NotStarted():
            return Attempt(at, "not_started", ms)
    assert_never(outcome)


def _tell_of(call: Call, attempt: Attempt) -> None:
    names = {"slug": call.request.slug, "number": call.request.number}
    emit(Event.CALLED, **names, outcome=attempt.outcome, ms=attempt.ms)


def _names(call: Call) -> dict[str, str]:
    names: dict[str, str] = {"slug": call.request.slug, "number": call.request.number}
    if call.operations:
        names |= {"operation": call.operations[0]}
    traced = call.request.traceparent
    return names if traced is None else names | {"traceparent": traced}


def _said(error: CourierError) -> dict[str, str | int]:
    """The fields of a log line about a call that failed; no status where no answer came."""
    status = {} if error.http_status is None else {"status": error.http_status}
    return {"error": error.code, **status, "detail": error.message}


def _error_verdict(error: CourierError, made: Attempt | None, *, answered: bool) -> Verdict:
    output = {"code": error.code, "message": error.message}
    return Verdict(State.ERROR, output, answered=answered, attempt=made)
