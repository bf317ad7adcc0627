"""Runs permitted calls: makes each outcome durable, only then gives the slot back, and goes on.

::

    run: perform ─answer→ store → finish ─────────────────────────┐
            │  └failure→ note it → decide ─refuse→ finish ────────┼→ apply: next calls, next look,
            │                        ├─repeat→ retry ─────────────┤         drain job
            │                        └─die→ record it → finish ───┤
            └─not sent, not stored, or this worker stops→ hand back ┘

`group.py` does the same for several calls under one permit.
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
    LeftOut,
    Limits,
    MalformedCounts,
    Mirror,
    Outcome,
    Results,
    Tells,
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
    TrackingError,
    TubesDown,
    UnreadableAnswer,
    UnstorableAnswer,
    WorkersVanished,
)
from tracking.line import Line, is_courier
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
    tells: Tells | None = None
    """Who tells the service that a request named that it was not taken; None: nobody."""


class CallEnds:
    """Ends calls one by one, each when its outcome is durable. One per process.

    `last` of each: no other calls of its group end right behind.
    """

    def __init__(self, work_of: WorkOf, stores: Stores, slots: CallSlots) -> None:
        self.deadlines = Deadlines()
        self._work_of = work_of
        self._limits, self._results, self._dead = stores.limits, stores.results, stores.dead
        self._slots = slots

    def not_stored(
        self, call: Call, down: ResultsDown, *, last: bool = True
    ) -> Awaitable[TakeResult]:
        """End a call of which nothing is stored. Its lease ends soon: it is asked about again."""
        if self.comes_back(down):
            return self.hand_back([call], down, last=last)
        return self.fail(call, given_up(down), None, last=last)

    def comes_back(self, down: TrackingError) -> bool:
        """Whether MongoDB is away, or lags: for what is not stored nobody is charged then."""
        return isinstance(down, _Overdue) or not self._results.is_available

    async def fail(
        self,
        call: Call,
        error: CourierError,
        attempt: Attempt | None,
        delay: float | None = None,
        *,
        last: bool = True,
    ) -> TakeResult:
        """Note a failed call, then finish or repeat it, or record it as dead, as is decided.

        `attempt`: None where MongoDB, which is there, takes no note of it. `delay`: that of all
        numbers of a call for several, none of which is charged.
        """
        if isinstance(error, UnreadableAnswer):
            unstorable = isinstance(error, UnstorableAnswer)
            unread = Event.UNSTORABLE if unstorable else Event.UNREADABLE
            emit(unread, **names_of(call), **said_of(error))
        decision = self._work_of(call.line).decide(error, call, time.time())
        made = attempt if call.permit.started or error.counts else None
        if isinstance(decision, Repeat):
            if made:
                await self.note(call, error, made, final=False)
            setback = replace(decision.setback, attempt=made)
            if delay is not None:
                setback = replace(setback, charged=False, delay=delay)
            result = await self._repeat(call, setback, error, last=last)
            if not result.used_up:
                return result
        if attempt:
            await self.note(call, error, attempt, final=True)
        if isinstance(decision, Refuse):
            refused = Event.REFUSED if is_courier(call.line) else Event.ATTEMPT_FAILED
            emit(refused, **names_of(call), **said_of(error), requests=call.requests)
            verdict = _error_verdict(error, made, answered=decision.setback is None)
            verdict = verdict._replace(setback=decision.setback)
            return await self.finish([(call, verdict)], last=last)
        return await self.die(call, error, decision.setback, made, last=last)

    async def note(self, call: Call, error: CourierError, attempt: Attempt, *, final: bool) -> None:
        """Note a failed call in its document. Raises ResultsDown where its operations end so."""
        work = self._work_of(call.line)
        try:
            await self.durably(call, lambda: work.fail(call, error, attempt, final=final))
        except ResultsDown:
            if final:
                raise

    def durably(self, call: Call, store: Callable[[], Awaitable[None]]) -> Awaitable[None]:
        """Store what came of a call until its deadline, or once. Raises ResultsDown."""
        deadline = call.permit.deadline
        until = max(deadline, time.monotonic() + STORED_SECONDS)
        return self.deadlines.hold(until, keep_trying(store, until=deadline), _Overdue)

    async def _repeat(
        self, call: Call, setback: Setback, error: CourierError, *, last: bool
    ) -> TakeResult:
        """Have a failed call repeated later; `used_up`: that was its request's last attempt."""
        room = self._room(call, last=last)
        result = await in_redis(call, lambda: self._limits.retry(call, setback, room))
        if result.used_up:
            return result
        if setback.patience is not None:
            emit(_PAUSES[setback.why], **names_of(call), **said_of(error))
        else:
            delay = {"attempts": call.attempts, "delay_ms": round(setback.delay * 1000)}
            emit(Event.RETRIED, **names_of(call), **said_of(error), **delay)
        return result._replace(waits=True)

    async def die(
        self,
        call: Call,
        error: CourierError,
        setback: Setback | None = None,
        made: Attempt | None = None,
        *,
        last: bool = True,
    ) -> TakeResult:
        """Record a call as dead and end its operations: the worker's last word about it."""
        if letter := self._work_of(call.line).letter(call, error):
            await keep_trying(lambda: self._dead.record([letter]))
        emit(Event.DEAD, **names_of(call), **said_of(error), requests=call.requests)
        verdict = _error_verdict(error, made, answered=False)
        return await self.finish([(call, verdict._replace(setback=setback))], last=last)

    async def hand_back(
        self, calls: Sequence[Call], why: Exception | None = None, *, last: bool = True
    ) -> TakeResult:
        """Put the requests of calls back to the head of their list. None: this worker stops."""
        room = self._room(calls[0], last=last) if why else 0
        result = await in_redis(calls[0], lambda: self._limits.hand_back(calls, room))
        for call in calls:
            emit(Event.HANDED_BACK, **names_of(call), **({"why": str(why)} if why else {}))
        return result._replace(waits=True)

    def finish(
        self, ends: Sequence[tuple[Call, Verdict]], *, last: bool = True
    ) -> Awaitable[TakeResult]:
        """Give the slot of these calls at their courier back, and end their operations."""
        room = self._room(ends[0][0], last=last)
        return in_redis(ends[0][0], lambda: self._limits.finish(ends, room))

    def _room(self, call: Call, *, last: bool) -> int | None:
        """The room for what follows; None where other calls of the group end right behind."""
        return self._slots.reserve_for_next(call.line) if last else None


class CallRunner:
    """Runs calls from their permit to what follows them. One per process."""

    def __init__(self, work_of: WorkOf, stores: Stores, tasks: Tasks, slots: CallSlots) -> None:
        self.schedule: Callable[[Line, float], None] = lambda *_: None
        """Has this process ask for a line again at an instant."""
        self.run_group: Callable[[Sequence[Call]], Awaitable[bool]]
        """Runs several calls under one permit; GroupRunner sets it."""
        self.ends = CallEnds(work_of, stores, slots)
        self._work_of = work_of
        self._results, self._drains = stores.results, stores.drains
        self._tasks, self._slots = tasks, slots

    async def run(self, calls: Sequence[Call]) -> bool:
        """Run the calls of a permit, for which this task has a slot, to their end and what follows.

        A worker that stops hands back what has no durable outcome: others go on with that at once.
        True: the request of the call that ended last waits again.
        """
        if len(calls) > 1:
            return await self.run_group(calls)
        (call,), ended = calls, False
        at, began = dt.datetime.now(dt.UTC), time.monotonic()
        try:
            made = await self.perform(calls)
            ms = round((time.monotonic() - began) * 1000)
            outcome = made if isinstance(made, TrackingError) else made[0]
            result = await self._end(call, outcome, attempt_of(outcome, at, ms))
            ended = True
            await self.apply(call.line, result)
        except asyncio.CancelledError:
            if ended:
                raise
            # Its request waits in Redis now, so a drain job is due for the next worker.
            await self.apply(call.line, await self.ends.hand_back(calls))
            return True
        return result.waits

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
        await self.apply(call.line, await self.ends.die(call, error))

    async def perform(self, calls: Sequence[Call]) -> Sequence[Outcome] | CourierError | NotStarted:
        """Do the work of a group under its deadline: an outcome for each, or an error of all.

        Whatever it raises becomes a known error.
        """
        work = self._work_of(calls[0].line)
        try:
            return await self.ends.deadlines.hold(calls[0].permit.deadline, work.perform(calls))
        except (CourierError, NotStarted) as error:
            return error
        except TimeoutError:
            return CourierDown("no whole answer within the call's time-out")
        except Exception as error:  # noqa: BLE001 - never Pending, and never this worker's end
            emit_unexpected(error, **names_of(calls[0]))
            return UnreadableAnswer(f"the courier module broke: {type(error).__name__}")

    async def _end(self, call: Call, outcome: Outcome | NotStarted, attempt: Attempt) -> TakeResult:
        """Make the outcome of a call durable, then end the call. Returns what follows it."""
        if isinstance(outcome, NotStarted):
            return await self.ends.hand_back([call], outcome)
        if isinstance(outcome, Done) and outcome.unsent:
            return await self._skip(call, outcome)
        if isinstance(outcome, Done) or call.permit.started:
            names = {"slug": call.request.slug, "number": call.request.number}
            emit(Event.CALLED, **names, outcome=attempt.outcome, ms=attempt.ms)
        if isinstance(outcome, LeftOut):
            outcome = UnreadableAnswer("it is not about the only number that was asked for")
        try:
            if isinstance(outcome, CourierError):
                return await self.ends.fail(call, outcome, attempt)
            try:
                work = self._work_of(call.line)
                await self.ends.durably(call, lambda: work.store(call, outcome, attempt))
            except UnreadableAnswer as error:
                return await self.ends.fail(call, error, attempt)
        except ResultsDown as down:
            return await self.ends.not_stored(call, down)
        verdict = Verdict(State.SUCCESS, outcome.output, attempt=attempt)
        result = await self.ends.finish([(call, verdict)])
        tag, requests = outcome.tag, call.requests
        emit(Event.ANSWERED, **names_of(call), tag=tag, ms=attempt.ms, requests=requests)
        return result

    async def _skip(self, call: Call, done: Done) -> TakeResult:
        """End a call for which there was nothing to do, and give its start back."""
        verdict = Verdict(State.SUCCESS, done.output, answered=False, unsent=True)
        result = await self.ends.finish([(call, verdict)])
        emit(Event.SKIPPED, **names_of(call), why=done.tag)
        return result


async def in_redis(call: Call, step: Callable[[], Awaitable[TakeResult]]) -> TakeResult:
    """End a call in Redis. Over a broken key that is tried until the call's time is over.

    Then LimitsBroken is raised, and the sweeper finds the call once its lease has ended.
    """
    while True:
        try:
            return await keep_trying(step)
        except LimitsBroken as error:
            if time.monotonic() + BROKEN_AGAIN_SECONDS > call.permit.deadline:
                raise
            emit_unexpected(error, **names_of(call))
        await asyncio.sleep(BROKEN_AGAIN_SECONDS)


def attempt_of(outcome: Outcome | NotStarted, at: dt.datetime, ms: int) -> Attempt:
    """Make the line of a document that tells of this call."""
    match outcome:
        case Done():
            return Attempt(at, outcome.outcome, ms, outcome.http_status)
        case CourierError():
            return Attempt(at, outcome.code, ms, outcome.http_status, outcome.excerpt)
        case LeftOut():
            return Attempt(at, "left_out", ms)
        case NotStarted():
            return Attempt(at, "not_started", ms)
    assert_never(outcome)


def names_of(call: Call) -> dict[str, str]:
    """Name a call in a line of the log: its number, who asked, and the trace."""
    names: dict[str, str] = {"slug": call.request.slug, "number": call.request.number}
    if call.operations:
        names |= {"operation": call.operations[0]}
    traced = call.request.traceparent
    return names if traced is None else names | {"traceparent": traced}


def said_of(error: CourierError) -> dict[str, str | int]:
    """The fields of a log line about a call that failed; no status where no answer came."""
    status = {} if error.http_status is None else {"status": error.http_status}
    return {"error": error.code, **status, "detail": error.message}


def given_up(down: TrackingError) -> GivenUp:
    """Word that MongoDB, which is there, does not take what came of a call."""
    return GivenUp("results_down", str(down))


def _error_verdict(error: CourierError, made: Attempt | None, *, answered: bool) -> Verdict:
    output = {"code": error.code, "message": error.message}
    return Verdict(State.ERROR, output, answered=answered, attempt=made)
