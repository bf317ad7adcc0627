"""The Work of a service's line: from a permit to an attempt that MongoDB has.

::

    read ─nobody is to hear of it now→ skipped: the start is given back
      ├─the row of this attempt stands→ its outcome is taken over, nothing is sent
      └→ sign → send → row → move → the call ends in Redis

An attempt is of (round, made) as it was brought in; MongoDB tells whether the delivery still stands
there. Each step may be repeated, and a worker may vanish between any two: what was sent and has no
row is sent again, what has a row never is.

What comes of a failure says `attempt.py`. What is due again within a minute waits in Redis; what is
due later leaves Redis, and filler.py brings it in. A delivery never becomes a record in `dead`.

============================ =====================================================================
uncharged                    because
============================ =====================================================================
Retry-After                  the receiver asks for a rest of the line, not of this delivery
410                          the service is switched off: the delivery is held
the service fails before     it was brought in as the single probe of a resting line, since nothing
the delivery is due          was due
============================ =====================================================================

An uncharged attempt counts in `made` and in `round_from`, so that each has a row of its own.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from service.ports import Done, Outcome
from service.worker.deliveries.attempt import Ending, Failure, next_delay_seconds
from service.worker.deliveries.delivery import (
    MADE,
    PROBE,
    ROUND,
    Delivery,
    DeliveryState,
    attempt_id,
)
from service.worker.deliveries.foreign_request import REQUEST_BODY, foreign_in
from service.worker.deliveries.health_notes import Healths
from service.worker.deliveries.relayed import headers_about
from service.worker.deliveries.secret_box import Unreadable
from service.worker.deliveries.sender import Sender
from service.worker.deliveries.service import Format, Service, ServiceState
from service.worker.deliveries.signing import BadSecret
from service.worker.deliveries.store import Deliveries, Found
from service.worker.results.change import EventName
from service.worker.results.database import Document
from tracking.call import Attempt, Call, DeadLetter, Decision, Refuse, Repeat, Setback
from tracking.errors import (
    CourierDown,
    CourierError,
    GivenUp,
    NotStarted,
    ResultsDown,
    TrackingError,
    WorkersVanished,
)
from tracking.line import DELIVERY, Line

SOON_SECONDS = 60.0
"""What is due within this time waits in Redis."""

SKEW_SECONDS = 1.0
"""By so much the clocks of two hosts may differ: what is due so soon is due."""

AGAIN_SECONDS = 60.0
"""When an attempt of which nothing could be stored, or that a defect ended, is made again."""

DEFECTS_MOST = 10
"""Defects in a row after which a delivery is dead."""

DOWN, RESTING, NO_KEY = "destination_down", "rate_limited", "no_key"
"""What stops a line: the brakes of its kind."""

Sign = Callable[[Service, str, dt.datetime, bytes], Mapping[str, str]]
"""Makes the headers that sign an attempt: of a service, a delivery's id, its instant and body.

Raises Unreadable, BadSecret where nothing can be signed: then nothing is sent.
"""


@dataclass(frozen=True, slots=True)
class Made:
    """An attempt that was made: its row, and what becomes of its delivery."""

    service: Service
    ending: Ending
    row: Document
    was: Delivery
    to: Delivery


class AttemptFailed(CourierError):
    """An attempt that was not answered by 2xx; `made` says all of it."""

    counts = True

    def __init__(self, made: Made) -> None:
        word = made.ending.failure or Failure.NOT_HTTP
        of = f"service {made.service.name} of {made.service.account}"
        super().__init__(f"{of}: {word.value}", http_status=made.ending.status)
        self.code = word.value
        self.made = made


class NotYet(CourierError):
    """Nothing was sent: the delivery is due in `seconds`."""

    code = "not_due"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it is due in {seconds:.1f} s")
        self.seconds = seconds


class NoKey(CourierError):
    """Nothing was sent: this worker cannot sign."""

    code = NO_KEY


class DeliveryWork:
    """Makes attempts; the flow's Work for lines of the kind DELIVERY. One per process."""

    def __init__(
        self,
        deliveries: Deliveries,
        service_of: Callable[[Line], Service | None],
        sender: Sender,
        sign: Sign,
        healths: Healths | None = None,
    ) -> None:
        self.over: Callable[[Service], None] = lambda _: None
        """Is called when a delivery is over, or held: the next of an ordered service may follow."""
        self._deliveries = deliveries
        self._service_of = service_of
        self._sender = sender
        self._sign = sign
        self._healths = healths

    async def perform(self, calls: Sequence[Call]) -> Sequence[Outcome]:
        """Make the attempt, unless nobody is to hear of it now, or it was made before."""
        (call,) = calls
        service = self._service_of(call.line)
        try:
            found = await self._deliveries.read(call.request.number)
            why = _skipped_because(found, service, call)
            if why or found is None or service is None:
                return [_skipped(why)]
            if found.row is not None:
                await self._write(_made_by_row(service, found.delivery, found.row))
                return [_skipped("made_before")]
            if (body := _body_of(found, service)) is None:
                await self._end(found.delivery, "no_body", dt.datetime.now(dt.UTC))
                return [_skipped("no_body")]
        except ResultsDown as down:
            raise NotStarted(str(down)) from down
        made = await self._send(service, found, body, call)
        if made.ending.failure is not None:
            raise AttemptFailed(made)
        return [Done("delivered", {}, "delivered", made, made.ending.status)]

    async def store(self, _: Call, done: Done, __: Attempt) -> None:
        """Store a delivery that was taken."""
        await self._write(done.content)

    async def store_all(
        self, answers: Sequence[tuple[Call, Done, Attempt]]
    ) -> Sequence[TrackingError | None]:
        """Store one after the other: on these lines each call is for one delivery."""
        for each in answers:
            await self.store(*each)
        return [None] * len(answers)

    async def fail(self, call: Call, error: CourierError, attempt: Attempt, *, final: bool) -> None:
        """Store a failed attempt. Of what else went wrong only the last word is stored."""
        if isinstance(error, AttemptFailed):
            await self._write(error.made)
        elif final and (found := await self._deliveries.read(call.request.number)):
            await self._end_badly(call, found.delivery, error, attempt)

    def decide(self, error: CourierError, call: Call, now: float) -> Decision:
        """Decide whether it waits in Redis, and what it means for the line."""
        match error:
            case AttemptFailed(made=made):
                return _decide(made, now)
            case CourierDown() if call.permit.started:
                return Refuse(Setback(DOWN, brake=DELIVERY.brakes[DOWN]))
        setback = Setback(error.code, delay=AGAIN_SECONDS)
        match error:
            case NotYet(seconds=seconds):
                setback = replace(setback, delay=seconds, firm=True)
            case NoKey():
                setback = replace(setback, brake=DELIVERY.brakes[NO_KEY], firm=True)
            case GivenUp() | CourierDown():
                pass
            case _ if call.tries >= DEFECTS_MOST:
                return Refuse(setback)
        return Repeat(setback)

    def letter(self, _: Call, __: CourierError) -> DeadLetter | None:
        """Make none: `deliveries` has it."""
        return None

    async def _send(self, service: Service, found: Found, body: bytes, call: Call) -> Made:
        delivery, foreign = found.delivery, None
        try:
            headers = self._sign(service, delivery.id, dt.datetime.now(dt.UTC), body)
        except (Unreadable, BadSecret) as error:
            raise NoKey(f"{service.line} cannot be signed: {error}") from error
        if delivery.type is EventName.RELAY_REQUEST:
            foreign = foreign_in(found.event)
            headers = headers_about(foreign, headers, delivery.made + 1)
        answer = await self._sender.send(service, headers, body, call.permit, foreign)
        row = {
            **_row(delivery, answer.at, answer.ms, answer.ending),
            "headers": dict(answer.headers),
            "body": answer.body,
        }
        to = moved(delivery, answer.ending, service, answer.at, answer.ms)
        return Made(service, answer.ending, row, delivery, to)

    async def _write(self, made: Made) -> None:
        """Make an attempt durable: its row first, which is never made again."""
        await self._deliveries.note(made.row)
        await self._deliveries.move(made.was, made.to)
        if self._healths and made.ending.is_of_the_service:
            first = made.was.made == 0
            await self._healths.note(made.service, made.ending, made.row["at"], first=first)
        if made.to.state is not DeliveryState.OPEN:
            self.over(made.service)

    async def _end_badly(
        self, call: Call, delivery: Delivery, error: CourierError, attempt: Attempt
    ) -> None:
        """Store what no answer tells: a call that took too long, or that nobody can make."""
        service = self._service_of(call.line)
        if delivery.state is not DeliveryState.OPEN or not _is_of(delivery, call):
            return  # this was done before
        if service and isinstance(error, CourierDown):
            ending = Ending(Failure.TIMEOUT)
            row = _row(delivery, attempt.at, attempt.ms, ending) | {"headers": {}, "body": b""}
            to = moved(delivery, ending, service, attempt.at, attempt.ms)
            await self._write(Made(service, ending, row, delivery, to))
            return
        why = error.code if isinstance(error, WorkersVanished | GivenUp) else "defect"
        await self._end(delivery, why, attempt.at)
        if service:
            self.over(service)

    async def _end(self, delivery: Delivery, why: str, at: dt.datetime) -> None:
        """End a delivery that nobody can attempt."""
        dead = replace(delivery, state=DeliveryState.DEAD, why=why, ended_at=at)
        await self._deliveries.move(delivery, replace(dead, made=delivery.made + 1))


def moved(
    delivery: Delivery, ending: Ending, service: Service, at: dt.datetime, ms: int
) -> Delivery:
    """Say what becomes of a delivery by its attempt of `at`, which took `ms`."""
    ended_at = at + dt.timedelta(milliseconds=ms)
    count, why = delivery.made + 1, ending.failure or ""
    made = partial(replace, delivery, made=count, why=why, status=ending.status or 0)
    if ending.failure is None:
        return made(state=DeliveryState.DELIVERED, ended_at=ended_at)
    uncharged = partial(made, round_from=delivery.round_from + 1)
    if ending.failure is Failure.GONE:
        return uncharged(state=DeliveryState.HELD)
    if ending.rest_seconds is not None:
        rest = dt.timedelta(seconds=ending.rest_seconds)
        return uncharged(next_at=max(ended_at + rest, delivery.next_at))
    if ending.is_of_the_service and _seconds_until(delivery, at) > SKEW_SECONDS:
        return uncharged()
    delay = next_delay_seconds(count - delivery.round_from, service.attempts)
    if delay is None:
        return made(state=DeliveryState.DEAD, ended_at=ended_at)
    return made(next_at=ended_at + dt.timedelta(seconds=delay))


def _decide(made: Made, now: float) -> Decision:
    """Decide by what became of the delivery; a failure of its own tells that the line works."""
    ending, to = made.ending, made.to
    setback = None
    if ending.rest_seconds is not None:
        brake, rest = DELIVERY.brakes[RESTING], ending.rest_seconds
        setback = Setback(RESTING, brake=brake, named=rest, firm=True)
    elif ending.is_of_the_service:
        setback = Setback(DOWN, brake=DELIVERY.brakes[DOWN])
    delay = to.next_at.timestamp() - now
    if to.state is not DeliveryState.OPEN or delay > SOON_SECONDS or made.was.next_at == to.next_at:
        return Refuse(setback)
    setback = setback or Setback(made.ending.failure or "")
    return Repeat(replace(setback, delay=max(0.0, delay), fields=to.request().fields))


def _skipped_because(found: Found | None, service: Service | None, call: Call) -> str:
    """Say why nothing is to be sent now, "" where something is. Raises NotYet."""
    if found is None:
        return "gone"
    if service is None or service.state is not ServiceState.ACTIVE:
        return "service_not_active"
    if found.delivery.state is not DeliveryState.OPEN:
        return found.delivery.state
    if not _is_of(found.delivery, call):
        return "moved_on"
    seconds = _seconds_until(found.delivery, dt.datetime.now(dt.UTC))
    is_due = seconds <= SKEW_SECONDS or found.row is not None or PROBE in call.request.fields
    if not is_due and seconds <= SOON_SECONDS:
        raise NotYet(seconds)
    return "" if is_due else "not_due"


def _body_of(found: Found, service: Service) -> bytes | None:
    bodies = found.event.get("bodies") or {}
    if found.delivery.type is EventName.RELAY_REQUEST:
        return bodies.get(REQUEST_BODY)
    # What AfterShip knows no event of, or was written before the service changed.
    return bodies.get(service.format.value, bodies.get(Format.STANDARD.value))


def _is_of(delivery: Delivery, call: Call) -> bool:
    """Whether a delivery stands where it was brought in."""
    fields = call.request.fields
    return (fields.get(ROUND), fields.get(MADE)) == (str(delivery.round), str(delivery.made))


def _seconds_until(delivery: Delivery, now: dt.datetime) -> float:
    return (delivery.next_at - now).total_seconds()


def _skipped(why: str) -> Done:
    return Done("skipped", {}, why, None, unsent=True)


def _row(delivery: Delivery, at: dt.datetime, ms: int, ending: Ending) -> dict[str, Any]:
    return {
        "_id": attempt_id(delivery.id, delivery.made + 1),
        "delivery": delivery.id,
        "service": delivery.service,
        "account": delivery.account,
        "at": at,
        "ms": ms,
        "status": ending.status,
        "failure": ending.failure and ending.failure.value,
        "rest_seconds": ending.rest_seconds,
    }


def _made_by_row(service: Service, delivery: Delivery, row: Document) -> Made:
    """Take over what a worker had stored of an attempt before it vanished."""
    failure = row["failure"] and Failure(row["failure"])
    ending = Ending(failure, row["status"], row["rest_seconds"])
    to = moved(delivery, ending, service, row["at"], row["ms"])
    return Made(service, ending, row, delivery, to)
