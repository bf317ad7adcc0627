"""Workers that deliver, in this process, on real Redis and MongoDB; the receiver keeps a log.

A worker that vanishes does nothing from one step to the next, as after SIGKILL: its connections end
what they had sent, and everything else it wants is refused.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from redis.asyncio import Redis

from limits.clock import Clock
from limits.epoch import Epoch
from limits.limiter import Limiter, Policy
from limits.pipeline import Pipeline
from limits.rules import RuleBook, Rules
from limits.window import Windows
from limits.workers import Planners
from service.worker.deliveries.attempt import Ending, Failure
from service.worker.deliveries.delivery import Delivery, delivery_id, delivery_in
from service.worker.deliveries.delivery import document_of as delivery_document
from service.worker.deliveries.filler import LEASE_SECONDS, Filler
from service.worker.deliveries.lines import WINDOW
from service.worker.deliveries.sender import Sent
from service.worker.deliveries.service import Service, document_of, new_service_id
from service.worker.deliveries.store import Deliveries, Due
from service.worker.deliveries.work import DeliveryWork
from service.worker.flow.bring import Bringing
from service.worker.flow.call import CallRunner, Stores
from service.worker.flow.drain import Drainer
from service.worker.flow.tasks import CallSlots, Tasks
from service.worker.results.change import EventName
from service.worker.results.connection import Store
from service.worker.upkeep.sweeper import Sweeper
from service.worker.wiring.failpoints import DeliveryPoint, FailPoint, FailPoints
from tracking.call import Permit
from tracking.line import DELIVERY, Kind, Line, kind_of
from tracking.request import MAIN

TIMEOUT, LEASE = 1.0, 2.0
SWEEP_SECONDS = 0.2
BODY = b'{"type":"parcel.changed"}'
DELIVERED = Ending(status=200)
DOWN = Ending(Failure.SERVER_ERROR, 500)
REFUSED = Ending(Failure.REFUSED, 400)
EVENT = "E" * 24


def service(**members: Any) -> Service:
    """A service that takes all that comes as fast as it comes."""
    plain = Service(
        new_service_id(), MAIN, "shop", "https://shop.example/", (), dt.datetime.now(dt.UTC)
    )
    return replace(plain, **{"per_second": 1_000, "concurrent": 20} | members)


def deliveries_of(
    to: Service, count: int, ago: float = 0.0, start: int = 0, **members: Any
) -> list[Delivery]:
    """So many deliveries, a millisecond apart."""
    first = dt.datetime.now(dt.UTC).replace(microsecond=0) - dt.timedelta(seconds=ago + 2.0)
    made = [first + dt.timedelta(milliseconds=number) for number in range(count)]
    return [
        Delivery(
            delivery_id(str(start + number), EventName.PARCEL_CHANGED, to.id),
            to.id,
            MAIN,
            EVENT,
            EventName.PARCEL_CHANGED,
            at,
            at,
            **members,
        )
        for number, at in enumerate(made)
    ]


def insert(store: Store, deliveries: Sequence[Delivery]) -> None:
    """Insert deliveries."""
    store.deliveries.insert_many([delivery_document(each) for each in deliveries])


@dataclass(frozen=True, slots=True)
class Arrival:
    """An attempt at the receiver, on `time.monotonic()`; `until` inf: it never ended."""

    delivery: str
    at: float
    service: str


@dataclass
class Receiver:
    """Answers as `answers` says, by service; keeps what arrived and what was at once.

    `unreachable`: no byte reaches it.
    """

    unreachable: bool = False
    latency: float = 0.01
    answers: Callable[[Service, str, int], Ending] = lambda *_: DELIVERED
    arrivals: list[Arrival] = field(default_factory=list)
    times: Counter[str] = field(default_factory=Counter)
    running: Counter[str] = field(default_factory=Counter)
    twice_at_once: list[str] = field(default_factory=list)

    def order(self) -> list[str]:
        return [each.delivery for each in self.arrivals]

    async def send(
        self, to: Service, headers: Mapping[str, str], body: bytes, permit: Permit, _: None
    ) -> Sent:
        if not self.unreachable:
            await permit.before_send()
            permit.after_send()
        assert body == BODY
        delivery, at = headers["webhook-id"], dt.datetime.now(dt.UTC)
        self.arrivals.append(Arrival(delivery, time.monotonic(), to.id))
        self.times[delivery] += 1
        self.running[delivery] += 1
        if self.running[delivery] > 1:
            self.twice_at_once.append(delivery)
        nth = self.times[delivery]
        try:
            await asyncio.sleep(self.latency)
        finally:
            self.running[delivery] -= 1
        return Sent(self.answers(to, delivery, nth), 1, at, body=b"ok")


@dataclass
class World:
    """What all workers share. `tube` holds the drain jobs that nobody reserves."""

    redis: Redis
    store: Store
    receiver: Receiver = field(default_factory=Receiver)
    services: dict[Line, Service] = field(default_factory=dict)
    workers: list[Engine] = field(default_factory=list)
    tube: list[Line] = field(default_factory=list)

    def all(self) -> Sequence[Service]:
        return list(self.services.values())

    def by_line(self, line: Line) -> Service | None:
        return self.services.get(line)

    async def look(self) -> None:
        """Nothing was changed but what is known."""

    def known(self) -> Sequence[Line]:
        return list(self.services)

    def removed(self) -> Sequence[Line]:
        return []

    def cleared(self, line: Line) -> None: ...

    def mark_of(self, _: Line) -> str:
        return ""

    def is_marked(self, _: Line, mark: str) -> bool:
        return not mark

    def rules_of(self, line: Line) -> Rules:
        to = self.services.get(line)
        return Rules(
            concurrent=to.concurrent if to and not to.ordered else 1,
            per_second=to.per_second if to else 1,
            max_waiting=WINDOW,
            call_timeout_seconds=TIMEOUT,
            lease_seconds=LEASE,
            kind=DELIVERY,
        )

    def make(self, *services: Service) -> None:
        """Make services known, or change them."""
        for each in services:
            self.services[each.line] = each
            self.store.services.replace_one({"_id": each.id}, document_of(each), upsert=True)
        event = {"_id": EVENT, "bodies": {"standard": BODY}}
        self.store.events.replace_one({"_id": EVENT}, event, upsert=True)

    def insert(self, deliveries: Sequence[Delivery]) -> None:
        """Insert deliveries as the outbox does, without bringing them in."""
        insert(self.store, deliveries)

    def stored(self, to: Service | None = None) -> list[Delivery]:
        wanted = {"service": to.id} if to else {}
        return list(map(delivery_in, self.store.deliveries.find(wanted).sort("_id")))

    def states(self, to: Service | None = None) -> Counter[str]:
        wanted = {"service": to.id} if to else {}
        counted = [{"$match": wanted}, {"$group": {"_id": "$state", "count": {"$sum": 1}}}]
        found = self.store.deliveries.aggregate(counted)
        return Counter({each["_id"]: each["count"] for each in found})

    async def holds(self, to: Service) -> frozenset[str]:
        """What Redis has of a service."""
        return (await Windows(self.redis).look(to.line)).numbers

    async def leaves_nothing(self, to: Service, seconds: float = 5.0) -> None:
        """Wait until Redis has nothing of a service."""
        ends = time.monotonic() + seconds
        while held := await self.holds(to):
            assert time.monotonic() < ends, held
            await asyncio.sleep(0.02)

    async def until(self, seen: Callable[[], object], seconds: float = 10.0) -> None:
        """Wait until something is seen."""
        ends = time.monotonic() + seconds
        while not seen():
            assert time.monotonic() < ends, (self.states(), len(self.receiver.arrivals))
            await asyncio.sleep(0.05)

    async def until_states(
        self, to: Service | None = None, seconds: float = 10.0, **wanted: int
    ) -> None:
        await self.until(lambda: self.states(to) == Counter(wanted), seconds)

    def put(self, line: Line) -> None:
        """Put a drain job."""
        self.tube.append(line)
        self.give()

    def give(self) -> None:
        """Have workers reserve what is in the tube."""
        alive = [each for each in self.workers if each.alive]
        while self.tube and alive:
            self.turn = getattr(self, "turn", 0) + 1
            alive[self.turn % len(alive)].reserve(self.tube.pop(0))


@dataclass(eq=False)
class DrainJob:
    """A job of the tube `wait_list`, reserved by a worker."""

    world: World
    worker: Engine
    line: Line

    async def delete(self) -> None:
        self.worker.jobs.discard(self)

    async def release(self) -> None:
        self.worker.jobs.discard(self)
        self.world.put(self.line)


class Mortal:
    """A port of a worker that may have vanished."""

    def __init__(self, port: Any, worker: Engine) -> None:
        self._port, self._worker = port, worker

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def step(*args: Any, **more: Any) -> Any:
            self._worker.check()
            given = await found(*args, **more)
            self._worker.check()
            return given

        return step


class Results:
    """MongoDB takes writes, as far as the flow asks."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def is_available(self) -> bool:
        return self._store.is_available

    async def available(self) -> None:
        await self._store.available()


class Engine:
    """One worker that delivers."""

    _names = itertools.count()

    def __init__(self, world: World, point: FailPoint | DeliveryPoint | None = None) -> None:
        self.world, self.alive = world, True
        self.jobs: set[DrainJob] = set()
        self.name = f"worker-{next(self._names)}"
        self.points = FailPoints([point] if point else [], lambda _: self.vanish())
        self.running: list[asyncio.Task[Any]] = []

    async def start(self) -> Engine:
        world, points = self.world, self.points
        self.pipeline, clock = Pipeline(world.redis, Clock()), Clock()
        book = RuleBook(world.rules_of)
        policy = Policy(kind_of=_kind_of)
        self.pipeline = Pipeline(world.redis, clock)
        limiter = Limiter(self.pipeline, clock, Epoch(self.pipeline, TIMEOUT), book, policy)
        await limiter.start(world.known())
        self.limits = Mortal(points.port("limits", limiter), self)
        store: Any = world.store
        deliveries: Any = Mortal(points.port("deliveries", Deliveries(store)), self)
        sends: Any = Mortal(points.port("sends", world.receiver), self)
        results: Any = Results(store)
        self.slots, self.tasks = CallSlots(100, results), Tasks()
        self.work = DeliveryWork(deliveries, world.by_line, sends, sign)
        stores: Any = Stores(self.limits, results, _nothing, _nothing, _nothing, self, _nothing)
        self.runner = CallRunner(lambda _: self.work, stores, self.tasks, self.slots)
        limits: Any = self.limits
        self.drainer = Drainer(limits, self.slots, self.runner)
        self.sweeper = Sweeper(limits, self.runner, world)
        self.bringing = Bringing(limits, self.runner, self.tasks, self.slots)
        leases = Planners(world.redis, self.name, LEASE_SECONDS)
        self.filler = Filler(
            Mortal(Due(store), self),  # type: ignore[arg-type]
            world,  # type: ignore[arg-type]
            Mortal(Windows(world.redis), self),  # type: ignore[arg-type]
            Mortal(points.port("leases", leases), self),  # type: ignore[arg-type]
            self.bringing.bring,
        )
        self.work.over, self.drainer.claimed = self.filler.over, self.filler.wake
        begun: list[Callable[[], Awaitable[None]]] = [
            self.drainer.run,
            self.filler.run,
            self._sweep,
        ]
        self.running = [asyncio.ensure_future(each()) for each in begun]
        world.workers.append(self)
        world.give()
        return self

    async def put_drain(self, line: Line) -> None:
        self.check()
        self.world.put(line)

    def reserve(self, line: Line) -> None:
        job: Any = DrainJob(self.world, self, line)
        self.jobs.add(job)
        self.tasks.start(self.drainer.claim(line, job))

    def check(self) -> None:
        if not self.alive:
            raise asyncio.CancelledError

    def vanish(self) -> None:
        """Do nothing any more, from now on."""
        if not self.alive:
            return
        self.alive = False
        for task in [*self.running, *self.tasks._tasks]:  # noqa: SLF001 - nothing ends in good order
            task.cancel()
        for job in list(self.jobs):
            self.world.tube.append(job.line)
        asyncio.get_running_loop().call_soon(self.world.give)

    async def close(self) -> None:
        self.vanish()
        await asyncio.gather(*self.running, return_exceptions=True)
        await self.tasks.stop(0.0)
        await self.pipeline.close()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.sweeper.sweep()


def sign(_: Service, delivery: str, at: dt.datetime, body: bytes) -> Mapping[str, str]:
    assert body
    assert at.tzinfo
    return {"webhook-id": delivery}


def _kind_of(line: Line) -> Kind | None:
    return kind_of(line)


class _Nothing:
    """A port that deliveries never use."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


_nothing: Any = _Nothing()
