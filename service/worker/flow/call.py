"""Runs permitted calls: makes each outcome durable, only then gives the slot back, and goes on.

::

    run: perform ─answer→ store → finish ─────────────────────────┐
            │  └failure→ note it → decide ─refuse→ finish ────────┼→ apply: next calls, next look,
            │                        ├─repeat→ retry ─────────────┤         drain job
            │                        └─die→ record it → finish ───┤
            └─not sent, not stored, or this worker stops→ hand back ┘
"""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from service.observe.events import Event
from service.observe.log import emit, emit_unexpected
from service.ports import (
    DeadLetters,
    Defects,
    Done,
    Drains,
    Limits,
    MalformedCounts,
    Mirror,
    Outcome,
    Results,
    Work,
)
from service.worker.flow.tasks import CallSlots, Deadlines, Tasks, keep_trying
from tracking.call import Attempt, Call, Refuse, Repeat, Setback, TakeResult, Verdict
from tracking.errors import (
    CourierDown,
    CourierError,
    GivenUp,
    LimitsBroken,
    NotStarted,
    ResultsDown,
    TubesDown,
    UnreadableAnswer,
    UnstorableAnswer,
    WorkersVanished,
)
from tracking.line import Line
from tracking.operation import State

BROKEN_AGAIN_SECONDS = 5.0
"""When the end of a call is tried again for which a key of its line was found broken."""

STORED_SECONDS = 5.0
"""How long it is tried to store an answer that came at its call's deadline."""

WorkOf = Callable[[Line], Work]
"""What is done on a line; chosen by its kind."""

_PAUSES = {
    "no_credentials": Event.NO_CREDENTIALS,
    "auth_failed": Event.AUTH_FAILED,
    "rate_limited": Event.PAUSED,
}

_REFUSED_FOR_A_DAY = {
    "no_credentials": "nobody could ask for a day: credentials are missing",
    "auth_failed": "the courier refused our credentials for a day",
    "rate_limited": "the courier asked for fewer calls for a day, and answered none",
}


class _Overdue(ResultsDown):
    """The lease of the call ends before MongoDB has confirmed what came of it."""

    def __init__(self) -> None:
        super().__init__("MongoDB has not confirmed it by the call's deadline")


@dataclass(frozen=True, slots=True)
class Stores:
    """The ports to Redis, MongoDB and beanstalkd."""

    limits: Limits
    results: Results
    dead: DeadLetters
    defects: Defects
    malformed: MalformedCounts
    drains: Drains
    knows: Callable[[str], Awaitable[bool]]
    """Whether a worker process that lives knows a courier of this slug. Raises LimitsDown."""
    mirror: Mirror | None = None
    """Where what waits in Redis is written too, before its job goes; None: nowhere."""


class CallRunner:
    """Runs calls from their permit to what follows them. One per process."""

    def __init__(self, work_of: WorkOf, stores: Stores, tasks: Tasks, slots: CallSlots) -> None:
        self.schedule: Callable[[Line, float], None] = lambda *_: None
        """Has this process ask for a line again at an instant."""
        self._work_of = work_of
        self._limits, self._results, self._dead = stores.limits, stores.results, stores.dead
        self._drains = stores.drains
        self._tasks, self._slots = tasks, slots
        self._deadlines = Deadlines()

    async def run(self, calls: Sequence[Call]) -> bool:
        """Run a group of calls, for which this task has a slot, to its end and what follows it.

        A worker that stops hands back the calls that have no durable outcome: others go on with
        them at once. True: the request of the call that ended last waits again.
        """
        left, waits = list(calls), False
        try:
            for call, outcome, attempt in await self._perform(calls):
                result = await self._end(call, outcome, attempt)
                left.remove(call)
                await self.apply(call.line, result)
                waits = result.waits
        except asyncio.CancelledError:
            if not left:
                raise
            for call in reversed(left):  # each goes to the head of its list
                # Its request waits in Redis now, so a drain job is due for the next worker.
                await self.apply(call.line, await self._hand_back(call))
            return True
        return waits

    async def apply(self, line: Line, result: TakeResult) -> None:
        """Start the calls of a result, give back the other slots, schedule the line's next take.

        Puts a drain job where the result says so. Never waits for the calls.
        """
        for calls in result.groups:
            self._slots.transfer(self._tasks.start(self.run(calls)))
        self._slots.give_back()
        if result.full:
            self._slots.waiting.add(line)
        if result.ask_again is not None:
            self.schedule(line, result.ask_again)
        if result.put_drain:
            try:
                await self._drains.put_drain(line)
            except TubesDown:
                return  # the sweeper puts it when the tubes are back

    async def give_up(self, call: Call) -> None:
        """End a request over which too many workers vanished, or that is given up.

        While MongoDB is away it stays as it is: to wait would keep the sweeper from all others, and
        the sweep finds it again.
        """
        if not self._results.is_available:
            return
        why = call.given_up
        reason = GivenUp(why, _REFUSED_FOR_A_DAY.get(why, why)) if why else None
        error = reason or WorkersVanished(call.deaths)
        attempt = Attempt(dt.datetime.now(dt.UTC), error.code, 0)
        work = self._work_of(call.line)
        await keep_trying(lambda: work.fail(call, error, attempt, final=True))
        await self.apply(call.line, await self._die(call, error))

    async def _perform(self, calls: Sequence[Call]) -> Sequence[tuple[Call, Outcome, Attempt]]:
        """Do the work of a group under its deadline. Whatever it raises becomes a known error.

        The outcomes come in the order in which the calls are to end.
        """
        began, at = time.monotonic(), dt.datetime.now(dt.UTC)
        work = self._work_of(calls[0].line)
        outcomes: Sequence[Outcome]
        try:
            outcomes = await self._deadlines.hold(calls[0].permit.deadline, work.perform(calls))
        except TimeoutError:
            outcomes = [CourierDown("no whole answer within the call's time-out")] * len(calls)
        except Exception as error:  # noqa: BLE001 - never Pending, and never this worker's end
            emit_unexpected(error, **_names(calls[0]))
            broke = f"the courier module broke: {type(error).__name__}"
            outcomes = [UnreadableAnswer(broke)] * len(calls)
        ms = round((time.monotonic() - began) * 1000)
        ends = zip(calls, outcomes, strict=True)
        kept = [(call, outcome, _attempt(outcome, at, ms)) for call, outcome in ends]
        # Unsent calls go to the head of their list: the last one first, so that the first leads.
        return kept if calls[0].permit.started else kept[::-1]

    async def _end(self, call: Call, outcome: Outcome, attempt: Attempt) -> TakeResult:
        """Make the outcome of a call durable, then end the call. Returns what follows it."""
        if isinstance(outcome, NotStarted):
            return await self._hand_back(call, outcome)
        if isinstance(outcome, Done) or call.permit.started:
            names = {"slug": call.request.slug, "number": call.request.number}
            emit(Event.CALLED, **names, outcome=attempt.outcome, ms=attempt.ms)
        try:
            if isinstance(outcome, CourierError):
                return await self._fail(call, outcome, attempt)
            try:
                work = self._work_of(call.line)
                await self._durably(call, lambda: work.store(call, outcome, attempt))
            except UnreadableAnswer as error:
                return await self._fail(call, error, attempt)
        except ResultsDown as down:
            # The lease ends soon, and an outcome that is not durable is none: ask again later.
            if isinstance(down, _Overdue) or not self._results.is_available:
                return await self._hand_back(call, down)
            return await self._fail(call, GivenUp("results_down", down.message), None)
        result = await self._finish(call, Verdict(State.SUCCESS, outcome.output, attempt=attempt))
        tag, requests = outcome.tag, call.requests
        emit(Event.ANSWERED, **_names(call), tag=tag, ms=attempt.ms, requests=requests)
        return result

    async def _fail(self, call: Call, error: CourierError, attempt: Attempt | None) -> TakeResult:
        """Note a failed call, then finish or repeat it, or record it as dead, as is decided.

        `attempt`: None where MongoDB, which is there, takes no note of it.
        """
        if isinstance(error, UnreadableAnswer):
            unstorable = isinstance(error, UnstorableAnswer)
            unread = Event.UNSTORABLE if unstorable else Event.UNREADABLE
            emit(unread, **_names(call), **_said(error))
        decision = self._work_of(call.line).decide(error, call, time.time())
        made = attempt if call.permit.started else None
        if isinstance(decision, Repeat):
            if made:
                await self._note(call, error, made, final=False)
            result = await self._repeat(call, replace(decision.setback, attempt=made), error)
            if not result.used_up:
                return result
        if attempt:
            await self._note(call, error, attempt, final=True)
        if isinstance(decision, Refuse):
            emit(Event.REFUSED, **_names(call), **_said(error), requests=call.requests)
            return await self._finish(call, _error_verdict(error, made, answered=True))
        return await self._die(call, error, decision.setback, made)

    async def _note(
        self, call: Call, error: CourierError, attempt: Attempt, *, final: bool
    ) -> None:
        work = self._work_of(call.line)
        try:
            await self._durably(call, lambda: work.fail(call, error, attempt, final=final))
        except ResultsDown:
            if final:
                raise

    def _durably(self, call: Call, store: Callable[[], Awaitable[None]]) -> Awaitable[None]:
        """Store what came of a call until its deadline, or once. Raises ResultsDown."""
        deadline = call.permit.deadline
        until = max(deadline, time.monotonic() + STORED_SECONDS)
        return self._deadlines.hold(until, keep_trying(store, until=deadline), _Overdue)

    async def _repeat(self, call: Call, setback: Setback, error: CourierError) -> TakeResult:
        """Have a failed call repeated later; `used_up`: that was its request's last attempt."""
        room = self._slots.reserve_for_next()
        result = await _in_redis(call, lambda: self._limits.retry(call, setback, room))
        if result.used_up:
            return result
        if setback.patience is not None:
            emit(_PAUSES[setback.why], **_names(call), **_said(error))
        else:
            delay = {"attempts": call.attempts, "delay_ms": round(setback.delay * 1000)}
            emit(Event.RETRIED, **_names(call), **_said(error), **delay)
        return result._replace(waits=True)

    async def _die(
        self,
        call: Call,
        error: CourierError,
        setback: Setback | None = None,
        made: Attempt | None = None,
    ) -> TakeResult:
        """Record a call as dead and end its operations: the worker's last word about it."""
        letter = self._work_of(call.line).letter(call, error)
        await keep_trying(lambda: self._dead.record([letter]))
        emit(Event.DEAD, **_names(call), **_said(error), requests=call.requests)
        verdict = _error_verdict(error, made, answered=False)
        return await self._finish(call, verdict._replace(setback=setback))

    async def _hand_back(self, call: Call, why: Exception | None = None) -> TakeResult:
        """Put the request of a call back to the head of its list. None: this worker stops."""
        room = self._slots.reserve_for_next() if why else 0
        result = await _in_redis(call, lambda: self._limits.hand_back([call], room))
        emit(Event.HANDED_BACK, **_names(call), **({"why": str(why)} if why else {}))
        return result._replace(waits=True)

    def _finish(self, call: Call, verdict: Verdict) -> Awaitable[TakeResult]:
        """Give the call's slot at its courier back, and end its operations."""
        room = self._slots.reserve_for_next()
        return _in_redis(call, lambda: self._limits.finish([(call, verdict)], room))


async def _in_redis(call: Call, step: Callable[[], Awaitable[TakeResult]]) -> TakeResult:
    """End a call in Redis. Over a broken key that is tried until the call's time is over.

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


def _attempt(outcome: Outcome, at: dt.datetime, ms: int) -> Attempt:
    match outcome:
        case Done():
            return Attempt(at, outcome.outcome, ms, outcome.http_status)
        case CourierError():
            return Attempt(at, outcome.code, ms, outcome.http_status, outcome.excerpt)
        case NotStarted():
            return Attempt(at, "not_started", ms)
    assert_never(outcome)


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
