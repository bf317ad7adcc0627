"""One scenario's premises: servers, couriers, a producer, and the workers that are hired.

Everything of a plant is its own: a beanstalkd, a database of Redis, a database of MongoDB, and the
slugs of its couriers. So many plants run at the same time. Scenarios that judge nothing but their
own couriers are guests at one plant, where one worker is started for all of them (`House`).
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymongo
import redis
from endings import Endings
from producer_log import GuestProducer, Producer
from pymongo.collection import Collection
from running_worker import Line, RunningWorker, until

from devstack import judge
from devstack.command import run_to_end
from devstack.judge import Call
from devstack.kinds import BEANSTALKD, MONGODB, REDIS, Durability
from devstack.nursery import Nursery
from devstack.servers import Server, running
from devstack.site.remote import CourierSite
from devstack.stack import Stack

REPOSITORY = Path(__file__).resolve().parents[2]
WORKER = [sys.executable, str(REPOSITORY / "worker.py")]
RUN = (*WORKER, "run")
DATABASES = range(1, 16)

Document = dict[str, Any]

SHORT = {
    "limits.call_timeout_seconds": 2.5,
    "limits.lease_seconds": 5.0,
    "retry.first_seconds": 0.2,
    "retry.cap_seconds": 0.5,
    "worker.grace_seconds": 3.0,
}
"""Times that end within a test; the proportions are those of the real ones. A busy machine may keep
an answer for a second: a call that takes longer than 1.3 s has times of its own."""


@dataclass(frozen=True)
class Ground:
    """What plants share. `disk` is a folder on one, `databases` holds the numbers of those of Redis
    that nobody uses, `measures` what is to be told at the end."""

    stack: Stack
    site: CourierSite
    nursery: Nursery
    folder: Path
    disk: Path
    databases: queue.SimpleQueue[int] = field(default_factory=queue.SimpleQueue)
    names: Iterator[int] = field(default_factory=itertools.count)
    measures: dict[str, list[str]] = field(default_factory=dict)
    inherited: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    """Read before threads play scenarios: pytest changes it for each test."""


PATIENT = {
    "limits.call_timeout_seconds": 30.0,
    "limits.lease_seconds": 60.0,
    "retry.attempts": 1,
}
"""What holds in a house, where no guest wants a call to time out."""

GUESTS = {(20, 2): 24, (1, 2): 12, (1, 20): 4, (20, 20): 4}
"""How many couriers a house has for its guests, by what each may have in flight and a second."""


class Plant:
    """Where one scenario plays. Made by `open_plant`, which also cleans up and looks for defects.

    `settings` are those of config.toml by path ("limits.concurrent"); workers that are hired later
    get them.
    """

    def __init__(self, ground: Ground, beanstalkd: Server, closing: ExitStack) -> None:
        self.site = ground.site
        self.beanstalkd = beanstalkd
        self.redis_server = ground.stack.redis
        self.mongodb_server = ground.stack.mongodb
        self.producer = Producer(beanstalkd)
        self.settings: dict[str, object] = dict(SHORT)
        self.workers: list[RunningWorker] = []
        self._ground = ground
        self._closing = closing
        self._name = f"plant_{next(ground.names)}_{uuid.uuid4().hex[:8]}"
        self._slugs: dict[str, tuple[int, int]] = {}
        database = ground.databases.get()
        closing.callback(ground.databases.put, database)
        self._connect(f"{self.redis_server.url.rsplit('/', 1)[0]}/{database}")
        self.redis.flushdb()
        closing.callback(self.mongodb.drop_database, self._name)

    def own_redis(self) -> Server:
        """Use a Redis of this plant's own, which may be killed."""
        self.redis_server = self._closing.enter_context(running(REDIS))
        self._connect(self.redis_server.url)
        return self.redis_server

    def own_mongodb(self) -> Server:
        """Use a MongoDB of this plant's own, which may be killed."""
        self.mongodb_server = self._closing.enter_context(running(MONGODB))
        self._connect(self.redis_url)
        return self.mongodb_server

    def own_site(self) -> CourierSite:
        """Use a courier site of this plant's own, for couriers whose slug cannot be chosen."""
        self.site = self._closing.enter_context(CourierSite.start())
        return self.site

    def hasty_beanstalkd(self) -> None:
        """Use a beanstalkd without a binlog: to put thousands of jobs takes minutes with one."""
        self.beanstalkd = self._closing.enter_context(running(BEANSTALKD, Durability.NONE))
        self.producer = Producer(self.beanstalkd)
        self.settings["beanstalkd.allow_loss"] = True

    def another_beanstalkd(self) -> Server:
        """Start one more beanstalkd; workers hired from now on reserve from it too."""
        server = self._closing.enter_context(running(BEANSTALKD))
        self.settings["beanstalkd.servers"] = [self.beanstalkd.url, server.url]
        return server

    def producer_at(self, server: Server) -> Producer:
        """Give a producer for another beanstalkd, with a log of its own."""
        return Producer(server)

    def courier(
        self, name: str = "acme", concurrent: int = 20, per_second: int = 2, **behaviour: object
    ) -> str:
        """Open a courier that is asked by json_feed; gives its slug, which no other plant has.

        Of its `behaviour`, `together` is how many numbers it answers for in one call.
        """
        slug = f"{name}-{next(self._ground.names)}"
        self.settings[f"couriers.{slug}.module"] = "json_feed"
        self.settings[f"couriers.{slug}.base_url"] = f"{self.site.url}/feed"
        if (concurrent, per_second) != (20, 2):
            self.settings[f"limits.slugs.{slug}.concurrent"] = concurrent
            self.settings[f"limits.slugs.{slug}.per_second"] = per_second
        if (together := behaviour.pop("together", 1)) != 1:
            self.settings[f"couriers.{slug}.numbers_per_call"] = together
        self._slugs[slug] = concurrent, per_second
        if behaviour:
            self.site.behave(slug, **behaviour)
        return slug

    def line(self, name: str) -> str:
        """Name a line that is no courier's, and that no other plant has."""
        return f"~{name}{next(self._ground.names)}"

    def hire(
        self, processes: int = 1, command: Sequence[str] = RUN, **environment: str
    ) -> RunningWorker:
        """Start a worker; `ready` waits until it takes jobs. `command`: a program that runs one."""
        log = self._ground.folder / f"{self._name}_{len(self.workers)}.log"
        settings = self.environment | {"TRACKER_WORKER__PROCESSES": str(processes)}
        process = self._ground.nursery.start(command, log, settings | environment)
        worker = RunningWorker(process, log, processes)
        self.workers.append(worker)
        return worker

    def command(self, *verb: str) -> subprocess.CompletedProcess[str]:
        """Run one verb of the command line with the plant's settings."""
        return run_to_end([*WORKER, *verb], self._ground.inherited | self.environment)

    @property
    def environment(self) -> dict[str, str]:
        """The settings as environment variables, as docs/interface.md §4 spells them."""
        settings = {
            "beanstalkd.servers": [self.beanstalkd.url],
            "redis.url": self.redis_url,
            "mongodb.uri": self.mongodb_server.url,
            "mongodb.database": self._name,
            **self.settings,
        }
        return {
            "TRACKER_CONFIG": str(REPOSITORY / "config.toml"),
            "PYTHONDONTWRITEBYTECODE": "",  # compiling again is a third of what a start costs
            **{_variable(path): _text(value) for path, value in settings.items()},
        }

    @property
    def slugs(self) -> tuple[str, ...]:
        """The couriers of this plant."""
        return tuple(self._slugs)

    @property
    def endings(self) -> Endings:
        """How what was acknowledged has ended, and what is still held."""
        return Endings(self.producer, self.redis, self.mongodb[self._name], self.slugs)

    def collection(self, name: str) -> Collection[Document]:
        """A collection of this plant's database."""
        return self.mongodb[self._name][name]

    def file(self, name: str) -> Path:
        """Where a file of this plant's own may be written, on a disk: spools refuse memory."""
        return self._ground.disk / f"{self._name}_{name}"

    def measured(self, what: str, values: Iterable[str]) -> None:
        """Note what was measured; the summary of the run shows it."""
        self._ground.measures.setdefault(what, []).extend(values)

    def calls(self, slug: str) -> list[Call]:
        """What arrived at a courier, in the order of arrival."""
        return sorted(self.site.calls(slug), key=lambda call: call.arrived_ns)

    def document(self, slug: str, number: str) -> Document | None:
        """The stored result of one number."""
        return self.tracking.find_one({"_id": f"{slug}:{number}"})

    def held_to_limits(self) -> None:
        """Assert I2 and I3 for every courier, on the courier's own clock."""
        for slug, (concurrent, per_second) in self._slugs.items():
            calls = self.calls(slug)
            flying, starts = judge.most_in_flight(calls), judge.most_starts_in_any_second(calls)
            assert flying <= concurrent, f"{slug}: {flying} in flight, {concurrent} may be"
            told = [round(call.arrived_ns / 1e9, 4) for call in calls]
            assert starts <= per_second, f"{slug}: {starts} starts in a second: {told}"

    def _connect(self, url: str) -> None:
        self.redis_url = url
        self.redis = self._closing.enter_context(redis.Redis.from_url(url, decode_responses=True))
        self.mongodb: pymongo.MongoClient[Document] = self._closing.enter_context(
            pymongo.MongoClient(self.mongodb_server.url, tz_aware=True)
        )
        self.tracking: Collection[Document] = self.mongodb[self._name]["tracking"]
        self.dead: Collection[Document] = self.mongodb[self._name]["dead"]


class Guest(Plant):
    """Where one scenario plays beside others: couriers of its own at a worker that is everybody's.

    It has no settings, and judges no more of the servers and the worker than what is its own.
    """

    def __init__(self, host: Plant, free: Mapping[tuple[int, int], list[str]]) -> None:
        vars(self).update(vars(host))
        self.producer = GuestProducer(host.beanstalkd)
        self.settings = {}
        self._host = host
        self._free = free
        self._slugs = {}

    def courier(
        self, _: str = "", concurrent: int = 20, per_second: int = 2, **behaviour: object
    ) -> str:
        """Take one of the couriers that the worker knows and that nobody else asks."""
        slug = self._free[concurrent, per_second].pop()
        self._slugs[slug] = concurrent, per_second
        self.site.behave(slug, **behaviour)
        return slug

    def hire(self, *_: object, **__: object) -> RunningWorker:
        """Give the worker that runs."""
        assert not self.settings, "a guest's settings reach no worker"
        return self.workers[0]

    @property
    def environment(self) -> dict[str, str]:
        """The settings of the house."""
        return self._host.environment


class House:
    """A plant for many scenarios at a time; its worker of two processes starts with the first."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._closing = ExitStack()
        self._starting = threading.Lock()
        self._free: dict[tuple[int, int], list[str]] = {}
        self._plant: Plant | None = None

    @contextmanager
    def guest(self) -> Iterator[Guest]:
        """Let one more scenario play for the length of a `with` block."""
        with self._starting:
            if self._plant is None:
                self._plant = plant = self._closing.enter_context(open_plant(self._ground))
                plant.settings |= PATIENT
                self._free = {
                    limits: [plant.courier("guest", *limits) for _ in range(count)]
                    for limits, count in GUESTS.items()
                }
                plant.hire(processes=2).ready()
        guest = Guest(self._plant, self._free)
        try:
            yield guest
        except BaseException as error:
            told = [line for worker in guest.workers for line in worker.lines]
            _add_lines(error, [line for line in told if line.get("slug") in guest.slugs])
            raise

    def close(self) -> None:
        """Stop the worker, which must end well; no job of anybody is left."""
        with self._closing:
            if (plant := self._plant) is not None:
                until(lambda: not plant.producer.held(), 10.0, "no job is left")


@contextmanager
def open_plant(ground: Ground) -> Iterator[Plant]:
    """Open a plant for the length of a `with` block; its workers end, and must end well."""
    with ExitStack() as closing:
        plant = Plant(ground, closing.enter_context(running(BEANSTALKD)), closing)
        try:
            yield plant
        except BaseException as error:
            for worker in plant.workers:
                worker.vanish()
                _add_lines(error, worker.lines)
            raise
        _close(plant)


def _add_lines(error: BaseException, lines: Sequence[Line]) -> None:
    last = "\n".join(map(str, lines[-15:]))
    error.add_note(f"the last lines of a worker:\n{last}")


def _close(plant: Plant) -> None:
    for worker in plant.workers:
        worker.stop()
    left = [pid for worker in plant.workers for pid in worker.left_behind()]
    assert not left, f"processes outlive their parent: {left}"
    defects = [line for worker in plant.workers for line in worker.defects()]
    assert not defects, f"logged: {defects}"


def _variable(path: str) -> str:
    return "TRACKER_" + path.replace(".", "__").replace("-", "_").upper()


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
