"""One request, from a reserved job to its outcome. Read this first.

::

    reserve → decode → admit ─granted→ ask: courier → store → finish ─┐
                 │        ├─parked→ put a drain job, if asked ────────┼→ delete the job
                 │        └─ended, or a fresh answer is stored ───────┘
                 └─malformed→ record in `dead` → bury

Every step makes the next copy durable before it lets go of the last one, and every step may be
repeated: a worker may vanish between any two of them. See docs/flow.md.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Awaitable, Callable
from typing import assert_never

from service.observe.events import Event
from service.observe.log import emit, emit_unexpected
from service.observe.redact import last_line_of
from service.ports import Job, Limits, Results
from service.worker.flow.call import CallRunner, Stores
from service.worker.flow.tasks import CallSlots, keep_trying
from tracking.call import (
    Admission,
    DeadLetter,
    Dying,
    Ended,
    Full,
    Granted,
    Held,
    IdConflict,
    NoMemory,
    NotAdmitted,
    Parked,
    TakeResult,
    TooLate,
)
from tracking.errors import LimitsBroken, LimitsDown, MalformedJob, TubesDown
from tracking.line import line_of
from tracking.operation import State, id_of, is_recheck
from tracking.request import Origin, TrackingRequest

Decode = Callable[[Job], Awaitable[TrackingRequest]]
"""Reads a job. Raises MalformedJob, or TubesDown when the job is not ours any more."""

Settled = Parked | Ended | NotAdmitted | Dying
"""Admissions without a call, after which the job goes."""

LEFT_AFTER_SECONDS = 1.0
"""How long a job for other workers is kept: it may come back again and again while the process that
knows its courier is busy."""

HELD_FIRST, HELD_MOST = 0.5, 4.0
"""Seconds until the first look whether the call of a job that came back goes on; doubled each time,
up to the second."""

ASK_AGAIN_SECONDS = 1.0
"""How soon a full Redis is asked again."""

SAY_AGAIN_SECONDS = 60.0
"""How often a Redis that stays full, or is full again, is logged."""

CALENDAR_ENDS = 253_402_300_799.0
"""The last second of the year 9999."""


class Handler:
    """The flow. One per process; every job is a task of its own."""

    def __init__(
        self, decode: Decode, stores: Stores, slots: CallSlots, runner: CallRunner
    ) -> None:
        self._decode = decode
        self._dead, self._defects = stores.dead, stores.defects
        self._results = stores.results
        self._malformed = stores.malformed
        self._mirror = stores.mirror
        self._tells = stores.tells
        self._knows = stores.knows
        self._admitter = Admitter(stores.limits, stores.results, slots)
        self._runner = runner

    async def handle(self, job: Job) -> None:
        """Carry one reserved job to its outcome. Whatever it raises is a defect."""
        try:
            request = await self._decode(job)
        except MalformedJob as error:
            await self.set_aside(job, error)
            return
        except TubesDown:
            await job.release()  # this process lost it, and the next holder reads it
            return
        admission = await self._admitter.admit(request, job.key)
        if isinstance(admission, Held):
            admission = await self._held(request, job)
        if isinstance(admission, Held):
            return  # who has the job now waits for the end of its call
        if isinstance(admission, Granted):
            job.admitted()
            if await self._runner.run([admission.call]):
                await self._copy(request, job, admission.call.granted_us)
        else:
            await self._settle(request, job, admission)
        # Nobody waits for it: a job whose delete is lost comes again, and finds what was done.
        job.delete()

    async def _settle(self, request: TrackingRequest, job: Job, admission: Settled) -> None:
        """Do all that is to be done before a job may go that was granted no call."""
        match admission:
            case Parked(why, put_drain, ask_again):
                if self._mirror:
                    await self._copy(request, job, admission.at_us)
                emit(Event.PARKED, **_names(request, job), why=why)
                if put_drain or ask_again is not None:
                    duty = TakeResult(ask_again=ask_again, put_drain=put_drain)
                    await self._runner.apply(line_of(request), duty)
            case Ended(state, why):
                event = Event.CANCELLED if state is State.CANCELLED else Event.SERVED_FRESH
                emit(event, **_names(request, job), **({"why": why} if why else {}))
            case Full() | IdConflict() | TooLate():
                await self._refuse(job, request, admission)
            case Dying(call):
                await self._copy(request, job, call.granted_us)
                await self._runner.give_up(call)
            case _:
                assert_never(admission)

    async def _copy(self, request: TrackingRequest, job: Job, at_us: int) -> None:
        """Write a request that waits in Redis into the mirror too, where there is one."""
        if mirror := self._mirror:
            await keep_trying(lambda: mirror.add(request, job.key, at_us))

    async def _held(self, request: TrackingRequest, job: Job) -> Admission:
        """Ask for a call again and again while another process makes the call of this very job."""
        wait = HELD_FIRST
        admission: Admission = Held()
        while isinstance(admission, Held):
            job.admitted()
            await asyncio.sleep(wait)
            if job.lost:
                break
            wait = min(2 * wait, HELD_MOST)
            admission = await self._admitter.admit(request, job.key)
        return admission

    async def _refuse(self, job: Job, request: TrackingRequest, why: NotAdmitted) -> None:
        """Record a request that was not taken; its job may go then."""
        letter = letter_of_refused(job, request, why)
        await keep_trying(lambda: self._dead.record([letter]))
        await self._tell(letter, request.webhook)
        names = _names(request, job)
        match why:
            case IdConflict(parcel):
                emit(Event.ID_REUSED, **names, parcel=parcel)
            case TooLate():
                emit(Event.TOO_LATE, **names, detail=letter.detail)
            case Full():
                emit(Event.FULL, **names)

    async def _tell(self, letter: DeadLetter, service: str | None) -> None:
        """Tell the service that a request names that it was not taken."""
        if service is not None and (tells := self._tells):
            await keep_trying(lambda: tells.refused(letter, service))

    async def give_up(self, job: Job, error: Exception) -> bool:
        """Record and bury a job over which a defect comes up again and again. False: not yet."""
        try:
            if not await self._defects.add(job.key):
                return False
        except LimitsDown:
            return False  # it comes back, and is counted then
        except LimitsBroken as broken:
            # Nobody can count it, so this is its end.
            emit_unexpected(broken, job=job.id, server=job.server)
        await self.end(job, error)
        return True

    async def leave_due(self, job: Job) -> bool:
        """Delete a re-check's job, as its parcel is due again in an hour. False: it is none."""
        try:
            request = await self._decode(job)
        except TubesDown:
            return False  # it is not ours any more
        if not is_recheck(request):
            return False
        emit(Event.CANCELLED, **_names(request, job), why="line_broken")
        job.delete()
        return True

    async def end(self, job: Job, error: Exception) -> None:
        """Record and bury a job over which a defect came up; `dead kick` puts it again."""
        letter = letter_of_defect(job, error)
        await keep_trying(lambda: self._dead.record([letter]))
        if not isinstance(error, LimitsBroken):
            await self._end_checks(job)
        await job.bury()
        emit(Event.DEAD, job=job.id, server=job.server, error=letter.reason, detail=letter.detail)

    async def _end_checks(self, job: Job) -> None:
        """Plan no more re-checks of this parcel: each hour's would be one more job to bury."""
        try:
            request = await self._decode(job)
        except Exception:  # noqa: BLE001 - the defect that came up may be in there
            return
        if request.origin is Origin.AUTOMATIC:
            await keep_trying(lambda: self._results.end_checks(request))

    async def leave(self, job: Job, slug: str) -> bool:
        """Release a job for other workers that know its courier. False: nobody knows it.

        While workers are restarted one by one, the old workers do not know a new courier.
        """
        if not await keep_trying(lambda: self._knows(slug)):
            return False
        emit(Event.UNKNOWN_SLUG, job=job.id, server=job.server, slug=slug)
        await asyncio.sleep(LEFT_AFTER_SECONDS)
        await job.release()
        return True

    async def set_aside(self, job: Job, error: MalformedJob) -> None:
        """Record a malformed job, then bury it: until the record is durable the job stays ours."""
        if error.reason == "unknown_slug" and await self.leave(job, error.slug or ""):
            return
        letter = letter_of_malformed(job, error)
        await keep_trying(lambda: self._dead.record([letter]))
        await self._tell(letter, error.webhook)
        await job.bury()
        self._malformed.count()
        emit(Event.MALFORMED, job=job.id, server=job.server, why=error.reason, detail=error.detail)


class Admitter:
    """Asks Redis for calls, and waits while no request can be taken. One per process.

    Two servers may keep a request waiting, with its job reserved and touched: MongoDB, while no
    answer could be stored, and a full Redis. One waiting task asks the full Redis once a second;
    when its request is taken the others follow one by one.
    """

    def __init__(self, limits: Limits, results: Results, slots: CallSlots) -> None:
        self._limits, self._results = limits, results
        self._slots = slots
        # One waiting task polls a full Redis; the others queue behind this lock.
        self._turns = asyncio.Lock()
        self._said = -SAY_AGAIN_SECONDS

    async def admit(self, request: TrackingRequest, job_key: str) -> Admission:
        """Ask for a call. This task holds a slot for it only if it is granted."""
        # One id for all tries: a call that was granted in a lost reply is granted again.
        call_id = next(self._limits.ids)
        admission = await self._ask(call_id, request, job_key)
        if not isinstance(admission, NoMemory):
            return admission
        async with self._turns:
            while isinstance(admission := await self._ask(call_id, request, job_key), NoMemory):
                self._say(admission)
                await asyncio.sleep(ASK_AGAIN_SECONDS)
        return admission

    async def _ask(
        self, call_id: str, request: TrackingRequest, job_key: str
    ) -> Admission | NoMemory:
        await self._results.available()
        max_age = self._limits.max_age if request.max_age is None else request.max_age
        kept = None
        if max_age > self._limits.remembers_seconds:
            kept = await keep_trying(lambda: self._results.fresh(request, max_age))
        full = self._slots.reserve(1, line_of(request)) <= 0
        admission = await keep_trying(
            lambda: self._limits.admit(call_id, request, job_key, kept, full=full)
        )
        if not isinstance(admission, Granted):
            self._slots.give_back()
        return admission

    def _say(self, refusal: NoMemory) -> None:
        if (now := time.monotonic()) - self._said >= SAY_AGAIN_SECONDS:
            self._said = now
            emit(Event.NO_MEMORY, server="redis", fix=refusal.fix)


def _names(request: TrackingRequest, job: Job) -> dict[str, str]:
    operation = id_of(request, job.key)
    names = {"slug": request.slug, "number": request.number, "operation": operation}
    traced = request.traceparent
    return names if traced is None else names | {"traceparent": traced}


def letter_of_malformed(job: Job, error: MalformedJob) -> DeadLetter:
    """The record of a job that is not what docs/interface.md §1 describes."""
    parcel = error.slug, error.number, (error.operation,) if error.operation else ()
    return DeadLetter(
        job.key, error.reason, error.detail, job.body, *parcel, server=job.server, job=job.id
    )


def letter_of_defect(job: Job, error: Exception) -> DeadLetter:
    """The record of a job over which a defect of this program came up too often."""
    detail = last_line_of(error)
    return DeadLetter(job.key, "defect", detail, job.body, server=job.server, job=job.id)


def letter_of_refused(job: Job, request: TrackingRequest, why: NotAdmitted) -> DeadLetter:
    """The record of a request that was not taken: too many wait, say, or its id is another's."""
    slug, number = request.slug, request.number
    match why:
        case Full(waiting):
            reason = "wait_list_full"
            detail = f"{waiting} wait for {slug} already (limits.max_waiting); kick it later"
        case IdConflict(parcel):
            reason = "id_reused"
            other = parcel.replace(":", " ", 1) or "a parcel that was forgotten"
            first = f"its id {request.id} is that of a request for {other}, and this one is for"
            detail = f"{first} {slug} {number}: give each parcel an id of its own"
        case TooLate(starts_at):
            reason = "too_late"
            wanted = "" if request.expires_at is None else f" {_moment(request.expires_at)}"
            detail = (
                f"by the rate and quotas of {slug} its call could not start before "
                f"{_moment(starts_at)}, and nobody wants it after{wanted} (expires_in); "
                "give it more time, or kick it: it does not expire then"
            )
    operations = (request.id,) if request.id else ()
    return DeadLetter(job.key, reason, detail, job.body, slug, number, operations)


def _moment(seconds: float) -> str:
    """Word Unix time; a small quota and a long list may lead beyond the calendar."""
    at = dt.datetime.fromtimestamp(min(seconds, CALENDAR_ENDS), dt.UTC)
    return at.isoformat(timespec="seconds")
