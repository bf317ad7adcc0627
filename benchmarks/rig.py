"""Everything a run needs: servers, courier stub, tubes; and it all clean again.

A backlog that must last is put before the clock starts, and it comes the way every request comes:
reserved, admitted, parked. So that the first calls are not over before the last request is parked,
all couriers are paused meanwhile, as a courier's own 429 would do it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import pymongo
from redis import Redis

from benchmarks import worker_tree
from benchmarks.courier import Courier
from benchmarks.tube import DRAINS, REQUESTS, TubeError, Tubes
from benchmarks.worker_tree import Addresses, Meter, Setting, WorkerTree
from devstack import allocator
from devstack.errors import NotUsable
from devstack.kinds import Durability
from devstack.nursery import Nursery
from devstack.servers import Server
from devstack.stack import Stack
from limits import keys
from service.config.load import load
from service.operator.connections import collections_of
from service.operator.services import Services
from tracking.line import Line

DATABASE = "bucket"


class Medium(Enum):
    """Where the servers keep their data. /var/tmp must survive a reboot, so it is on a disk."""

    MEMORY = Path("/dev/shm")  # noqa: S108 - a private folder is made in it
    DISK = Path("/var/tmp")  # noqa: S108 - a private folder is made in it


@dataclass(frozen=True, slots=True)
class Rig:
    """The servers and how to speak to them."""

    stack: Stack
    courier: Courier
    tubes: Tubes
    redis: Redis
    mongodb: pymongo.MongoClient[dict[str, Any]]
    durability: Durability
    _folder: Path = field(repr=False)

    @property
    def addresses(self) -> Addresses:
        """Where a worker finds everything."""
        return Addresses(
            beanstalkd=self.stack.beanstalkd.url,
            redis=self.stack.redis.url,
            mongodb=self.stack.mongodb.url,
            courier=self.courier.url,
            allow_loss=self.durability is Durability.NONE,
        )

    def worker(self, setting: Setting) -> AbstractContextManager[WorkerTree]:
        """Run a worker for the length of a `with` block."""
        return worker_tree.running(setting, self.addresses, self.tubes, self._folder)

    @contextmanager
    def services(self, setting: Setting) -> Iterator[Services]:
        """Open the services of webhooks, as a worker of this setting knows them."""
        file = self._folder / "services.toml"
        file.write_text(worker_tree.configuration(setting, self.addresses))
        config = load(str(file), {}, self._folder).config
        with collections_of(config) as stores:
            yield Services(config, stores)

    def meter(self, worker: WorkerTree | None = None) -> Meter:
        """Read the CPU of the worker, or without one of this process, and of each server."""
        servers = {server.name: [_pid(server)] for server in self.stack.servers}
        pids = worker.pids if worker else [os.getpid()]
        return Meter({"worker": pids, **servers, "courier": [self.courier.pid]})

    def stored(self) -> int:
        """How many documents the collection of results holds."""
        return self.mongodb[DATABASE]["tracking"].count_documents({})

    def clean(self, delay_ms: float = 0.0, spread: float = 0.0) -> None:
        """Empty all stores; the courier answers after `delay_ms` from now on. No worker may run."""
        self.tubes.empty(REQUESTS, DRAINS)
        self.redis.flushall()
        self.mongodb.drop_database(DATABASE)
        self.courier.reset(delay_ms, spread)


@contextmanager
def open_rig(
    medium: Medium = Medium.MEMORY, durability: Durability = Durability.FULL
) -> Iterator[Rig]:
    """Run all servers and a courier for the length of a `with` block."""
    with suppress(NotUsable):  # the table's head says with what it was measured
        allocator.fetch()
    with ExitStack() as closing:
        made = tempfile.TemporaryDirectory(prefix="bench-", dir=medium.value)
        folder = Path(closing.enter_context(made))
        nursery = closing.enter_context(Nursery())
        courier = closing.enter_context(Courier.running(nursery, folder))
        stack = closing.enter_context(Stack.start(folder, durability))
        at = stack.beanstalkd
        tubes = closing.enter_context(Tubes(at.host, at.port))
        redis = closing.enter_context(Redis.from_url(stack.redis.url, decode_responses=True))
        mongodb: pymongo.MongoClient[dict[str, Any]]
        mongodb = closing.enter_context(pymongo.MongoClient(stack.mongodb.url))
        yield Rig(stack, courier, tubes, redis, mongodb, durability, folder)


def slugs(count: int) -> tuple[str, ...]:
    """Name `count` couriers."""
    return tuple(f"bench-{index:04}" for index in range(count))


def _pid(server: Server) -> int:
    if server.pid is None:
        raise RuntimeError(f"{server.name} at {server.url} is not ours: its CPU cannot be read")
    return server.pid


PAUSE_MS = 3_000
REFRESH_SECONDS = 1.0
LOOK_SECONDS = 0.05
PATIENCE = 300.0


def feed(rig: Rig, names: Sequence[str], bodies: Iterable[bytes]) -> float:
    """Put `bodies` and return when all are parked, with the seconds that took.

    The calls begin within PAUSE_MS. The worker must run and the tube be paused.
    """
    rig.tubes.put(REQUESTS, bodies)
    pause(rig.redis, names)
    began = refreshed = time.monotonic()
    rig.tubes.pause(REQUESTS, 0)
    while left := rig.tubes.left():
        now = time.monotonic()
        if now - began > PATIENCE:
            raise TubeError(f"{left} requests are not parked after {PATIENCE:g} s")
        if now - refreshed > REFRESH_SECONDS:
            pause(rig.redis, names)
            refreshed = now
        time.sleep(LOOK_SECONDS)
    return time.monotonic() - began


def pause(redis: Redis, names: Iterable[str]) -> None:
    """Let nobody call these couriers for PAUSE_MS from now."""
    with redis.pipeline(transaction=False) as pipeline:
        for name in names:
            pipeline.set(keys.of_line(Line(name)).calls_paused, "benchmark", px=PAUSE_MS)
        pipeline.execute()
