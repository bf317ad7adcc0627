"""The couriers: what arrives, when, how much at once, and what they answer, also for several.

They judge by their own clock, as a courier would: calls in flight from arrival to answer or hang-up
(I2), arrivals in every [t, t + 1 s) (I3), calls in flight of one process at all of them (W).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simulated.chance import Chance
from simulated.exchange import Surroundings
from simulated.loop import Process
from simulated.plan import LEFT_OUT, Outage, SlugPlan
from tracking.call import Call
from tracking.checkpoint import NOT_FOUND_YET, Checkpoint, Tag, Tracking
from tracking.errors import (
    AuthFailed,
    CourierDown,
    CourierError,
    InvalidNumber,
    NoCredentials,
    RateLimited,
    RequestRefused,
    UnreadableAnswer,
)

LEAST_LATENCY, MOST_LATENCY = 0.004, 0.064
"""They differ by more than `guard_ms` and less than `guard_most_ms`: workers measure that."""

ALWAYS: Mapping[str, Callable[[], CourierError] | None] = {
    "ALWAYS429": lambda: RateLimited("429", http_status=429),
    "ALWAYS403": lambda: AuthFailed("403", http_status=403),
    "ALWAYS500": lambda: CourierDown("500", http_status=500),
    "ALWAYSODD": lambda: UnreadableAnswer("a page for people"),
    "ALWAYSMUM": None,
}
"""What a courier says to a number of each kind, each time; None: nothing.

In company the one that cannot be read breaks the parser, and the silent one is left out.
"""
ODD, MUM = "ALWAYSODD", "ALWAYSMUM"

POISON = "POISON"
REFUSED = "REFUSED"
AWAITED_BY_NOBODY = 3_600.0


@dataclass(slots=True, eq=False)
class Visit:
    """One HTTP request, at the courier."""

    slug: str
    numbers: tuple[str, ...]
    process: Process
    lease_ends: float
    answer: asyncio.Future[Any]
    over: bool = False
    paused: bool = False

    @property
    def number(self) -> str:
        """The one that kills who asks for it, or the first."""
        return next((each for each in self.numbers if each.startswith(POISON)), self.numbers[0])


Answers = Mapping[str, Tracking | CourierError]


@dataclass(slots=True)
class Couriers:
    """All couriers. `lease` is how long a call's slot is held, in seconds.

    `left_out`: how frequent it is that an answer for several numbers leaves one of them out.
    `concurrency`: calls that one process may have in flight at all of them together.
    """

    around: Surroundings
    slugs: Mapping[str, SlugPlan]
    lease: float
    concurrency: int
    outage: Outage | None = None
    left_out: float = 0.0
    asked_in_outage: int = 0
    arrivals: dict[str, deque[float]] = field(default_factory=lambda: defaultdict(deque))
    visits: dict[Visit, None] = field(default_factory=dict)
    answers: int = 0
    calls: int = 0
    most_at_once: int = 0
    poisoned: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    async def track(self, call: Call) -> Tracking:
        """Ask, as a courier's module would. Raises CourierError or NotStarted."""
        found: Tracking = await self._ask(call, (call.request.number,))
        return found

    async def track_many(self, calls: Sequence[Call]) -> Answers:
        """Ask for several numbers at once, as `track`."""
        found: Answers = await self._ask(calls[0], tuple(call.request.number for call in calls))
        return found

    async def _ask(self, call: Call, numbers: tuple[str, ...]) -> Any:
        around, chance = self.around, self.around.chance
        process = around.running()
        if chance.strikes("no credentials", process.name, call.request.slug):
            raise NoCredentials("none are set")
        if chance.strikes("module broken", process.name):
            raise KeyError("a defect of the module")
        await asyncio.sleep(chance.latency())
        if chance.strikes("courier refuses a connection", process.name):
            await asyncio.sleep(chance.delay())
            raise CourierDown("refused")
        found = await self._request(process, call, numbers)
        if chance.draw.random() < 0.1:
            around.trace.repair("second request of a call")
            await call.permit.again()
            found = await self._request(process, call, numbers)
        return found

    async def _request(self, process: Process, call: Call, numbers: tuple[str, ...]) -> Any:
        around = self.around
        await call.permit.before_send()
        answer: asyncio.Future[Any] = around.loop.create_future()
        lease_ends = around.loop.now + self.lease
        visit = Visit(call.request.slug, numbers, process, lease_ends, answer)
        around.loop.outside(around.chance.latency(LEAST_LATENCY, MOST_LATENCY), self._arrive, visit)
        call.permit.after_send()
        told = " ".join(numbers)
        around.trace.add(process.name, f"courier < {visit.slug} {told} ({call.id})")
        try:
            found = await answer
        finally:
            self._end(visit)
        call.permit.answered(0.0)
        return found

    def hang_up(self, process: Process) -> None:
        """A process died: its connections ended."""
        for visit in [each for each in self.visits if each.process is process]:
            self._end(visit)

    def paused(self, process: Process) -> None:
        for visit in self.visits:
            visit.paused = visit.paused or visit.process is process

    def _end(self, visit: Visit) -> None:
        visit.over = True
        self.visits.pop(visit, None)

    def _arrive(self, visit: Visit) -> None:
        self.calls += 1
        self._count_arrival(visit.slug)
        if visit.over or not visit.process.alive:
            return  # its end of the connection is closed already
        visit.paused = visit.process.paused  # it may stand still since it sent this
        self.visits[visit] = None
        self._count_in_flight(visit.slug, visit.process)
        if visit.number.startswith(POISON):
            self.poisoned[visit.number] += 1
            self.around.trace.fault("poison", visit.process.name, visit.number)
            self.around.kill(visit.process)
            return
        took = self._answer_after(visit)
        if took is not None:
            self.around.loop.outside(took, self._answer, visit)

    def _outage_of(self, visit: Visit) -> CourierError | None:
        outage, now = self.outage, self.around.loop.now
        if outage is None or outage.slug != visit.slug or not outage.begins <= now < outage.ends:
            return None
        self.asked_in_outage += 1
        self.around.trace.fault(outage.kind, visit.slug, visit.number)
        return _OUT[outage.kind]()

    def _count_arrival(self, slug: str) -> None:
        now, last = self.around.loop.now, self.arrivals[slug]
        while last and last[0] <= now - 1.0:
            last.popleft()
        last.append(now)
        allowed = self.slugs[slug].per_second
        if len(last) > allowed:
            self.around.trace.breach("I3", f"{len(last)} calls of {slug} in a second ({allowed})")

    def _count_in_flight(self, slug: str, process: Process) -> None:
        now = self.around.loop.now
        # A worker that was paused beyond its lease with a silent courier: docs/reliability.md.
        counted = [
            each
            for each in self.visits
            if each.slug == slug and not (each.paused and now > each.lease_ends)
        ]
        carried = sum(each.process is process for each in self.visits)
        if carried > self.concurrency:
            self.around.trace.breach("W", f"{carried} calls of {process.name} ({self.concurrency})")
        allowed = self.slugs[slug].concurrent
        self.most_at_once = max(self.most_at_once, len(counted))
        if len(counted) > allowed:
            self.around.trace.breach("I2", f"{len(counted)} calls of {slug} at once ({allowed})")

    def _answer_after(self, visit: Visit) -> float | None:
        chance, who = self.around.chance, visit.slug
        if len(visit.numbers) == 1 and ALWAYS.get(visit.number, _error_of) is None:
            return None
        if chance.strikes("courier silent", who, visit.number):
            return None
        if chance.strikes("courier slow", who, visit.number):
            return chance.draw.uniform(0.5, 8.0)
        return chance.latency(0.01, 0.3)

    def _answer(self, visit: Visit) -> None:
        if visit.over:
            return
        error = self._outage_of(visit) or _error_of(visit, self.around.chance)
        self._end(visit)
        loop = self.around.loop
        way = self.around.chance.latency(LEAST_LATENCY, MOST_LATENCY)
        context = visit.process.context
        if error is not None:
            loop.call_later(way, _set_error, visit.answer, error, context=context)
        else:
            found = self._found(visit)
            loop.call_later(way, _set_answer, visit.answer, found, context=context)

    def _found(self, visit: Visit) -> Tracking | Answers:
        if len(visit.numbers) == 1:
            return self._of_one(visit.slug, visit.number)
        told: dict[str, Tracking | CourierError] = {}
        for number in visit.numbers:
            error = ALWAYS.get(number) or refused(number)
            if error:
                told[number] = error()
            elif number != MUM and not self._leaves_out(visit.slug, number):
                told[number] = self._of_one(visit.slug, number)
        return told

    def _of_one(self, slug: str, number: str) -> Tracking:
        self.answers += 1
        if self.around.chance.strikes("number not found", slug, number):
            return NOT_FOUND_YET
        return _tracking(self.answers, self.around.chance)

    def _leaves_out(self, slug: str, number: str) -> bool:
        chance = self.around.chance
        if not self.left_out or not chance.on or chance.draw.random() >= self.left_out:
            return False
        self.around.trace.fault(LEFT_OUT, slug, number)
        return True


_OUT: Mapping[str, Callable[[], CourierError]] = {
    "courier away for long": lambda: CourierDown("503", http_status=503),
    "courier refuses for long": lambda: AuthFailed("401", http_status=401),
    "courier asks for patience": lambda: RateLimited("429", retry_after=600.0, http_status=429),
}


def refused(number: str) -> Callable[[], CourierError] | None:
    if not number.startswith(REFUSED):
        return None
    return lambda: InvalidNumber("never a number of this courier")


def _own_error(visit: Visit) -> Exception | None:
    if len(visit.numbers) > 1:
        return _spoilt(visit.numbers)
    always = ALWAYS.get(visit.number) or refused(visit.number)
    return always() if always else None


def _error_of(visit: Visit, chance: Chance) -> Exception | None:
    if own := _own_error(visit):
        return own
    if chance.strikes("courier answers 500", visit.slug, visit.number):
        return CourierDown("500", http_status=500)
    if chance.strikes("courier answers 429", visit.slug, visit.number):
        after = chance.draw.choice((None, 0.5, 3.0, 15.0))
        return RateLimited("429", retry_after=after, http_status=429)
    if chance.strikes("courier refuses credentials", visit.slug, visit.number):
        return AuthFailed("401", http_status=401)
    if chance.strikes("answer unreadable", visit.slug, visit.number):
        return UnreadableAnswer("a page for people")
    return None


def _spoilt(numbers: Sequence[str]) -> Exception | None:
    """What one of several numbers makes of the whole call."""
    if ODD in numbers:
        return KeyError("a defect of the module")
    if any(each.startswith(REFUSED) and int(each[-1]) % 2 for each in numbers):
        return RequestRefused("400", http_status=400)
    return None


def _tracking(serial: int, chance: Chance) -> Tracking:
    tag = chance.draw.choice((Tag.IN_TRANSIT, Tag.IN_TRANSIT, Tag.DELIVERED))
    scan = Checkpoint("2026-01-02T03:04:05", f"answer {serial}", tag, f"{tag.value}_001")
    return Tracking(tag, scan.subtag, (scan,))


def _set_answer(answer: asyncio.Future[Any], found: Tracking | Answers) -> None:
    if not answer.done():
        answer.set_result(found)


def _set_error(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
