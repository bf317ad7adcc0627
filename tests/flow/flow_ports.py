"""The flow's surroundings, each of which writes down what is asked of it, in one journal.

They show in which order the flow takes its steps. What Redis, MongoDB and beanstalkd make of these
is tested on the real ones.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from service.ports import Work
from service.worker.flow.call import CallRunner, Stores
from service.worker.flow.drain import Drainer
from service.worker.flow.group import GroupRunner
from service.worker.flow.handle import Handler
from service.worker.flow.receive import Receiver
from service.worker.flow.tasks import CallSlots, Tasks
from service.worker.flow.tracking_work import Asks, RetryRules, TrackingWork
from service.worker.upkeep.sweeper import Sweeper
from tracking.call import Admission, Call, DeadLetter, Ended, Setback, Swept, TakeResult, Verdict
from tracking.checkpoint import Tag, Tracking
from tracking.errors import CourierError, StoreError, TrackingError
from tracking.line import line_of
from tracking.operation import State
from tracking.request import Number, Slug, TrackingRequest

USPS = Slug("usps")
REQUEST = TrackingRequest(USPS, Number("N001"), "N001")
TRACKING = Tracking(Tag.IN_TRANSIT, "InTransit_003", ())
Answers = Mapping[str, Tracking | CourierError]
NOTHING_MORE = TakeResult()
ENDED = Ended(State.SUCCESS)


@dataclass
class Journal:
    """What was asked for, in its order. `fails` holds what is to be raised, step by step."""

    steps: list[str] = field(default_factory=list)
    fails: dict[str, list[Exception]] = field(default_factory=dict)

    def note(self, step: str) -> None:
        self.steps.append(step)
        if self.fails.get(step):
            raise self.fails[step].pop(0)

    def fail(self, step: str, *errors: Exception) -> None:
        self.fails[step] = list(errors)


@dataclass
class Permit:
    """A permit that was used for one request."""

    deadline: float = field(default_factory=lambda: time.monotonic() + 30.0)
    started: bool = True

    async def again(self) -> None: ...
    async def before_send(self) -> None: ...
    def after_send(self) -> None: ...
    def answered(self, ago: float) -> None: ...


@dataclass
class Limits:
    journal: Journal
    admission: Admission
    max_age: float = 30.0
    remembers_seconds: float = 30.0
    result: TakeResult = NOTHING_MORE
    swept: tuple[Swept, ...] = ()
    busy: frozenset[str] = frozenset()
    rooms: list[int | None] = field(default_factory=list)
    setbacks: list[Setback] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    used_up: bool = False
    names: list[str] = field(default_factory=list)
    handed_back: list[str] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    halved: list[list[str]] = field(default_factory=list)
    alone: list[str] = field(default_factory=list)
    ids: Iterator[str] = field(default_factory=lambda: map(str, itertools.count()))

    async def admit(self, call_id: str, *_: object, full: bool) -> Admission:
        self.names.append(call_id)
        self.journal.note("admit without room" if full else "admit")
        return self.admission

    async def take(self, base: str, *_: object, **__: object) -> TakeResult:
        self.names.append(base)
        self.journal.note("take")
        return self.result

    async def finish(self, ends: Sequence[tuple[Call, Verdict]], room: int | None) -> TakeResult:
        self.finished += [call.id for call, _ in ends]
        self.verdicts += [verdict for _, verdict in ends]
        return self._ended("finish", room)

    async def retry(self, _: Call, setback: Setback, room: int | None) -> TakeResult:
        self.setbacks.append(setback)
        return self._ended("retry", room)._replace(used_up=self.used_up)

    async def hand_back(self, calls: Sequence[Call], room: int | None) -> TakeResult:
        self.handed_back += [call.id for call in calls]
        return self._ended("hand back", room)

    async def halve(self, calls: Sequence[Call], room: int | None) -> TakeResult:
        self.halved.append([call.id for call in calls])
        return self._ended("halve", room)

    async def ask_alone(self, call: Call, room: int | None) -> TakeResult:
        self.alone.append(call.id)
        return self._ended("ask alone", room)

    def _ended(self, how: str, room: int | None) -> TakeResult:
        self.journal.note(how)
        self.rooms.append(room)
        return NOTHING_MORE

    async def sweep(self, slugs: Sequence[Slug], removed: Sequence[Slug]) -> Sequence[Swept]:
        self.journal.note(f"sweep {len(slugs)}")
        cleared = (Swept(each, cleared=each not in self.busy) for each in removed)
        return [*self.swept, *cleared]


@dataclass
class Lines:
    """The lines that a worker knows; tests change them while it runs."""

    lines: list[Slug]
    gone: list[Slug] = field(default_factory=list)

    def known(self) -> list[Slug]:
        return self.lines

    def removed(self) -> list[Slug]:
        return list(self.gone)

    def cleared(self, line: Slug) -> None:
        self.gone.remove(line)


@dataclass
class Results:
    journal: Journal
    is_available: bool = True

    async def available(self) -> None:
        self.journal.note("available")

    async def save(self, *_: object) -> None:
        self.journal.note("save")

    async def save_all(self, answers: Sequence[object]) -> Sequence[TrackingError | None]:
        self.journal.note(f"save {len(answers)}")
        return [None] * len(answers)

    async def fail(self, *_: object, final: bool) -> None:
        self.journal.note("note final failure" if final else "note failure")

    async def fresh(self, *_: object) -> None:
        self.journal.note("fresh")

    async def end_checks(self, _: TrackingRequest) -> None:
        self.journal.note("end checks")


def slots_for(most: int, *, available: bool = True) -> CallSlots:
    """Slots for calls, whose answers could be stored, or not; lines that begin with ~ yield."""
    return CallSlots(most, Results(Journal(), available), lambda line: line.startswith("~"))


@dataclass
class Dead:
    journal: Journal

    letters: list[DeadLetter] = field(default_factory=list)

    async def record(self, letters: Sequence[DeadLetter]) -> None:
        self.journal.note(f"record {len(letters)}")
        self.letters += letters


@dataclass
class Mirror:
    journal: Journal

    async def add(self, request: TrackingRequest, job_key: str, at_us: int) -> None:
        assert (request, job_key) == (REQUEST, "key-of-the-job")
        assert at_us > 0
        self.journal.note("mirror")


@dataclass
class Defects:
    journal: Journal
    too_many: bool = False

    async def add(self, _: str) -> bool:
        self.journal.note("count a defect")
        return self.too_many


class Codes:
    """No answer here has a code that is unknown."""

    def count(self, slug: str, code: str) -> None: ...


@dataclass
class Malformed:
    counted: int = 0

    def count(self) -> None:
        self.counted += 1


@dataclass
class Drains:
    journal: Journal

    async def put_drain(self, slug: Slug) -> None:
        self.journal.note(f"put drain {slug}")


@dataclass
class Job:
    journal: Journal
    key: str = "key-of-the-job"
    server: str = "127.0.0.1:11300"
    id: int = 7
    body: bytes = b"{}"
    lost: bool = False

    def admitted(self) -> None:
        self.journal.note("leave the window")

    def delete(self) -> Awaitable[None]:
        self.journal.note("delete")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def bury(self) -> None:
        self.journal.note("bury")

    async def release(self) -> None:
        self.journal.note("release")

    async def age(self) -> float:
        return 0.0


class Tells:
    """The services that requests name."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.told: list[tuple[DeadLetter, str]] = []

    async def refused(self, letter: DeadLetter, service: str) -> None:
        self.journal.note("tell")
        self.told.append((letter, service))


class Scene:
    """One flow with its journal. `decode` and `track` may be replaced before `handle`."""

    def __init__(self, admission: Admission = ENDED, *, mirrored: bool = False) -> None:
        self.journal = Journal()
        self.limits = Limits(self.journal, admission)
        self.results = Results(self.journal)
        self.tasks, self.slots = Tasks(), CallSlots(5, self.results)
        self.track: Callable[[Call], Tracking] = lambda _: TRACKING
        self.answer_many: Callable[[Sequence[Call]], Awaitable[Answers]] = self._each
        self.decode: Callable[[object], TrackingRequest] = lambda _: REQUEST
        self.drains: Callable[[object], Slug] = lambda _: USPS
        self.defects = Defects(self.journal)
        self.known: frozenset[str] = frozenset()
        self.dead, self.malformed = Dead(self.journal), Malformed()
        own = (self.limits, self.results, self.dead, self.defects, self.malformed)
        mirror = Mirror(self.journal) if mirrored else None
        tells = self.tells = Tells(self.journal)
        stores = self.stores = Stores(*own, Drains(self.journal), self._knows, mirror, tells)
        outcomes = (self.results, Codes(), RetryRules(), lambda _: b"{}")
        work = TrackingWork(Asks(self._track, self._track_many), *outcomes)
        self.again: list[tuple[Slug, float]] = []
        self.runner = runner_of(work, stores, self.tasks, self.slots)
        self.handler = Handler(self._decode, stores, self.slots, self.runner)
        self.drainer = Drainer(self.limits, self.slots, self.runner)
        self.runner.schedule = lambda slug, at: self.again.append((slug, at))
        self.receiver = Receiver(self.handler, self.drainer, self.tasks, self._drains)
        self.lines = Lines([USPS])
        self.sweeper = Sweeper(self.limits, self.runner, self.lines)

    async def _knows(self, slug: str) -> bool:
        self.journal.note(f"does anybody know {slug}")
        return slug in self.known

    async def handle(self) -> list[str]:
        """Carry one job to its outcome; the steps that were taken."""
        await self.handler.handle(Job(self.journal))
        return self.journal.steps

    async def all_ended(self) -> list[str]:
        """Wait until every task has ended; the steps that were taken."""
        cut_off = await self.tasks.stop(5.0)
        assert cut_off == 0
        return self.journal.steps

    def _drains(self, job: object) -> Slug:
        return self.drains(job)

    async def _decode(self, job: object) -> TrackingRequest:
        return self.decode(job)

    async def _track(self, call: Call) -> Tracking:
        self.journal.note("ask")
        return self.track(call)

    async def _track_many(self, calls: Sequence[Call]) -> Answers:
        self.journal.note(f"ask for {len(calls)}")
        return await self.answer_many(calls)

    async def _each(self, calls: Sequence[Call]) -> Answers:
        return {call.request.number: self.track(call) for call in calls}


def runner_of(work: Work, stores: Stores, tasks: Tasks, slots: CallSlots) -> CallRunner:
    """What runs calls, and groups of them, where all lines are for one work."""
    runner = CallRunner(lambda _: work, stores, tasks, slots)
    GroupRunner(runner, lambda _: work, stores.limits, slots)
    return runner


def call(**more: Any) -> Call:
    """A call that was just granted."""
    now = time.time()
    given: dict[str, Any] = {
        "granted_us": round(now * 1_000_000),
        "waiting_since": now,
        "permit": Permit(),
    }
    request = more.get("request", REQUEST)
    return Call(**({"id": "c1", "line": line_of(request), "request": request} | given | more))


def away(error: type[StoreError], times: int = 1) -> list[StoreError]:
    """A server that does not answer so many times."""
    return [error("away") for _ in range(times)]
