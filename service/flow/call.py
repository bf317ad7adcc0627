"""One permitted call: ask the courier, make the answer durable, only then give the slot back."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import assert_never

from service.flow.call_room import CallRoom
from service.flow.dead_letters import letter_of
from service.flow.deadlines import Deadlines
from service.flow.failure_policy import Die, Refuse, Repeat, RetryRules, decide, fails_too_long
from service.flow.keep_trying import keep_trying
from service.flow.unknown_codes import UnknownCodes
from service.observe.events import Event
from service.observe.failpoints import FailPoint
from service.observe.log import emit, emit_unexpected
from service.ports import (
    CodeCounts,
    DeadLetters,
    Defects,
    Limits,
    MalformedCounts,
    Mirror,
    Results,
)
from tracking.call import Attempt, Call, Setback, Turn, Verdict
from tracking.checkpoint import Tracking
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
from tracking.operation import State
from tracking.request import TrackingRequest
from tracking.summary import output_of

BROKEN_AGAIN_SECONDS = 5.0
"""When the end of a call is tried again for which a key of its line was found broken."""

Track = Callable[[Call], Awaitable[Tracking]]
"""Asks the courier of a call. Raises CourierError or NotStarted."""


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
    codes: CodeCounts
    defects: Defects
    malformed: MalformedCounts
    knows: Callable[[str], Awaitable[bool]]
    """Whether a worker process that lives knows a courier of this slug. Raises LimitsDown."""
    mirror: Mirror | None = None
    """Where what waits in Redis is written too, before its job goes; None: nowhere."""


@dataclass(frozen=True, slots=True)
class Spare:
    """What the process tells the call: what room there is, and where it may be killed."""

    room: CallRoom
    reach: Callable[[FailPoint], None]


class Asker:
    """Carries one call from its permit to its end. Order of safety: store, then finish."""

    def __init__(
        self,
        track: Track,
        stores: Stores,
        retry: RetryRules,
        write_job: Callable[[TrackingRequest], bytes],
        spare: Spare,
    ) -> None:
        self._track = track
        self._limits, self._results, self._dead = stores.limits, stores.results, stores.dead
        self._retry = retry
        self._write_job = write_job
        self.room = spare.room
        self._reach = spare.reach
        self._unknown_codes = UnknownCodes(stores.codes)
        self._deadlines = Deadlines()

    async def ask(self, call: Call) -> Turn:
        """Spend the call's permit. What comes back is whose turn it is next."""
        try:
            return await self._ask_and_keep(call)
        except asyncio.CancelledError:
            # This worker stops, with a call under way or an outcome that is not durable. The
            # request waits in Redis now, so what follows a turn is due: a drain job for the next
            # worker, and the end of its own job.
            return await self.hand_back(call)

    async def _ask_and_keep(self, call: Call) -> Turn:
        try:
            return await self._ask(call)
        except ResultsDown as error:
            # The lease ends soon, and an outcome that is not durable is none: ask again later.
            if isinstance(error, _Overdue) or not self._results.is_available:
                return await self._back_to_head(call, error)
            return await self._unstored(call, GivenUp("results_down", error.message))

    async def _ask(self, call: Call) -> Turn:
        began, at = time.monotonic(), dt.datetime.now(dt.UTC)
        try:
            tracking = await self._courier(call)
        except NotStarted as error:
            return await self._back_to_head(call, error)
        except CourierError as error:
            ms = round((time.monotonic() - began) * 1000)
            if call.permit.started:
                _tell_of(call, error.code, ms)
            return await self._failed(
                call, error, Attempt(at, error.code, ms, error.http_status, error.excerpt)
            )
        self._reach(FailPoint.AFTER_ANSWER)
        outcome = "answered" if tracking.checkpoints else "not_found"
        ms = round((time.monotonic() - began) * 1000)
        _tell_of(call, outcome, ms)
        return await self._answered(call, tracking, Attempt(at, outcome, ms, tracking.http_status))

    async def _unstored(self, call: Call, error: CourierError) -> Turn:
        """Repeat a call whose outcome MongoDB, which is there, did not take: not for ever."""
        setback = Setback(
            error.code, self._retry.first_seconds, charged=True, attempts=self._retry.attempts
        )
        if fails_too_long(call, time.time(), self._retry):
            return await self._die(call, error, setback)
        turn = await self._repeat(call, setback, _said(error))
        return await self._die(call, error, setback) if turn.used_up else turn

    async def _die(
        self,
        call: Call,
        error: CourierError,
        setback: Setback | None = None,
        made: Attempt | None = None,
    ) -> Turn:
        """Record a call as dead and end its operations: the worker's last word about it."""
        letter = letter_of(call, error.code, error.message, self._write_job(call.request))
        await keep_trying(lambda: self._dead.record([letter]))
        self._reach(FailPoint.AFTER_DEAD)
        emit(Event.DEAD, **_names(call), **_said(error), requests=call.requests)
        verdict = _error_verdict(error, made, answered=False)
        return await self._finish(call, verdict._replace(setback=setback))

    async def give_up(self, call: Call, error: CourierError) -> Turn:
        """End a call that nobody makes any more."""
        attempt = Attempt(dt.datetime.now(dt.UTC), error.code, 0)
        await keep_trying(lambda: self._results.fail(call, error, attempt, final=True))
        return await self._die(call, error)

    async def hand_back(self, call: Call) -> Turn:
        """Give a call up unanswered, because this worker stops: others go on with it at once."""
        turn = await _in_redis(call, lambda: self._limits.hand_back(call, 0))
        self._reach(FailPoint.AFTER_HAND_BACK)
        emit(Event.HANDED_BACK, **_names(call))
        return turn._replace(waits=True)

    async def _courier(self, call: Call) -> Tracking:
        """Ask within the call's one deadline; whatever a module raises becomes a known error."""
        try:
            return await self._deadlines.hold(call.permit.deadline, self._track(call))
        except TimeoutError as error:
            raise CourierDown("no whole answer within the call's time-out") from error
        except (CourierError, NotStarted):
            raise
        except Exception as error:
            # A module that breaks is a parser error: never Pending, and never this worker's end.
            emit_unexpected(error, **_names(call))
            raise UnreadableAnswer(f"the courier module broke: {type(error).__name__}") from error

    async def _answered(self, call: Call, tracking: Tracking, attempt: Attempt) -> Turn:
        try:
            await self._durably(call, lambda: self._results.save(call, tracking, attempt))
            self._reach(FailPoint.AFTER_STORE)
            verdict = Verdict(State.SUCCESS, output_of(tracking), attempt=attempt)
            turn = await self._finish(call, verdict)
        except UnreadableAnswer as error:
            return await self._failed(call, error, attempt)
        emit(
            Event.ANSWERED,
            **_names(call),
            tag=str(tracking.tag),
            ms=attempt.ms,
            requests=call.requests,
        )
        self._unknown_codes.tell(call, tracking)
        return turn

    async def _failed(self, call: Call, error: CourierError, attempt: Attempt) -> Turn:
        said = _said(error)
        if isinstance(error, UnreadableAnswer):
            unstorable = isinstance(error, UnstorableAnswer)
            emit(Event.UNSTORABLE if unstorable else Event.UNREADABLE, **_names(call), **said)
        decision = decide(error, call, time.time(), self._retry)
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
        await self._durably(call, lambda: self._results.fail(call, error, attempt, final=final))
        self._reach(FailPoint.AFTER_FAILURE_STORED)

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
        self._reach(FailPoint.AFTER_RETRY)
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
        turn = await _in_redis(call, lambda: self._limits.finish(call, verdict, room))
        self._reach(FailPoint.AFTER_FINISH)
        return turn


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


def _tell_of(call: Call, outcome: str, ms: int) -> None:
    emit(Event.CALLED, slug=call.request.slug, number=call.request.number, outcome=outcome, ms=ms)


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
