"""The arena of a relay: a door, a worker, their real servers, a relay, and who receives behind it.

Its servers are its own, on a disk: each may be killed and comes again with what it kept. So are the
door and the worker. The receiver is the only one that never goes: an attempt fails only where its
worker dies.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import greenstalk
import pymongo
from chaos.workers import Worker
from storms import ROOT, DoorProcess, until

from devstack.nursery import Nursery
from devstack.raw_receiver import RawReceiver, raw_receiver
from devstack.stack import Stack
from service.config.load import load
from service.observe.events import Event
from service.operator.audit import Operator
from service.operator.connections import collections_of
from service.operator.services import Services
from service.worker.deliveries.foreign_request import WEBHOOKS_TUBE
from service.worker.deliveries.ingest_label import IngestLabel
from service.worker.deliveries.secret_box import new_key
from tracking.request import MAIN

DATABASE = "bucket"
UNFINISHED = ("ready", "reserved", "delayed", "buried")
NOT_SPOOLED = b"tracker_relayed_spooled_requests 0.0\n"
SPOOLED = f'"event":"{Event.SPOOLED}"'.encode()
DEFECTS = ("unexpected error", "library message")

CALL_SECONDS, LEASE_SECONDS = 4.0, 8.0
"""Long enough for a busy machine, and short: what a killed worker had is taken after a lease."""

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RelayArena:
    """What stands there. `label` is the ingest label of the relay."""

    stack: Stack
    worker: Worker
    door: DoorProcess
    receiver: RawReceiver
    label: IngestLabel
    folder: Path

    @property
    def address(self) -> str:
        """What stands in front of the target in the address of a request, as by a TLS proxy."""
        return f"{self.door.url}/in/{self.label}".replace("http", "https", 1)

    @contextmanager
    def database(self) -> Iterator[Any]:
        """Connect to MongoDB."""
        client: pymongo.MongoClient[Document]
        with pymongo.MongoClient(self.stack.mongodb.url, tz_aware=True) as client:
            yield client[DATABASE]

    def jobs(self) -> int:
        """Count the jobs of the tube `webhooks`, in whatever state."""
        said = self._tube()
        return sum(said.get(f"current-jobs-{state}", 0) for state in UNFINISHED)

    def puts(self) -> int:
        """Count the jobs that were ever put there since beanstalkd started."""
        return self._tube().get("total-jobs", 0)

    def _tube(self) -> dict[str, Any]:
        address = (self.stack.beanstalkd.host, self.stack.beanstalkd.port)
        with greenstalk.Client(address) as client, suppress(greenstalk.NotFoundError):
            return dict(client.stats_tube(WEBHOOKS_TUBE))
        return {}

    async def quiet(self, patience: float) -> None:
        """Wait until nothing is left to deliver; an error where for so long nothing has moved."""
        await until(lambda: self.door.says("/metrics", NOT_SPOOLED), "no spool holds any")
        with self.database() as database:
            deliveries = database["deliveries"]
            left = [-1]

            async def fewer() -> bool:
                now = self.jobs() + deliveries.count_documents({"state": "open"})
                moved, left[0] = now != left[0], now
                return moved or now == 0

            while left[0]:
                await until(fewer, f"{left[0]} jobs and open deliveries become fewer", patience)

    def spooled(self) -> int:
        """Count the requests that the door took while beanstalkd was away, by its log."""
        lines = [each for each in self.door.log.read_bytes().splitlines() if SPOOLED in each]
        return sum(json.loads(each)["requests"] for each in lines)

    def defects(self) -> list[str]:
        """What neither the door nor the worker may log."""
        texts = self.door.log.read_text().splitlines()
        texts += [
            json.dumps(line)
            for number in range(1, self.worker.starts + 1)
            for line in self.worker.lines(number)
        ]
        return [text[:500] for text in texts if any(each in text for each in DEFECTS)]


@asynccontextmanager
async def relay_arena(folder: Path, **settings: str) -> AsyncIterator[RelayArena]:
    """Open the arena in a folder on a disk, for the length of a `with` block.

    `settings` are variables of the environment, without TRACKER_.
    """
    async with AsyncExitStack() as closing:
        receiver = closing.enter_context(raw_receiver())
        nursery = closing.enter_context(Nursery())
        stack = Stack.start(folder)
        for server in stack.servers:
            closing.callback(server.kill)
        given = {f"TRACKER_{name}": value for name, value in settings.items()}
        environment = _environment(stack, receiver.port) | given
        destination = f"http://127.0.0.1:{receiver.port}"
        label = await asyncio.to_thread(_relay, environment, destination)
        worker = Worker("worker", folder, nursery, environment)
        closing.callback(worker.end)
        worker.start()
        door = DoorProcess(stack.beanstalkd, folder, nursery, environment)
        closing.push_async_callback(door.kill)
        await door.start()
        await until(lambda: asyncio.to_thread((folder / "keys.json").exists), "it knows the labels")
        yield RelayArena(stack, worker, door, receiver, label, folder)


def _environment(stack: Stack, port: int) -> dict[str, str]:
    allowed = "TRACKER_WEBHOOKS__ALLOWED__MAIN__"
    return {
        "TRACKER_CONFIG": str(ROOT / "config.toml"),
        "TRACKER_METRICS__LISTEN": "",
        "TRACKER_LOG__FORMAT": "json",
        "TRACKER_BEANSTALKD__SERVERS": f'["{stack.beanstalkd.url}"]',
        "TRACKER_REDIS__URL": stack.redis.url,
        "TRACKER_MONGODB__URI": stack.mongodb.url,
        "TRACKER_MONGODB__DATABASE": DATABASE,
        "TRACKER_RECHECK__ENABLED": "false",
        "TRACKER_LIMITS__CALL_TIMEOUT_SECONDS": f"{CALL_SECONDS}",
        "TRACKER_LIMITS__LEASE_SECONDS": f"{LEASE_SECONDS}",
        "TRACKER_WORKER__GRACE_SECONDS": f"{CALL_SECONDS}",
        "TRACKER_WEBHOOKS__KEYS": new_key("a"),
        "TRACKER_WEBHOOKS__TIMEOUT_SECONDS": f"{CALL_SECONDS}",
        f"{allowed}NETWORKS": '["127.0.0.0/8"]',
        f"{allowed}HTTP": "true",
        f"{allowed}PORTS": f"[{port}]",
        "PYTHONDONTWRITEBYTECODE": "",
    }


def _relay(environment: dict[str, str], destination: str) -> IngestLabel:
    """Make a relay that may send as fast as it can."""
    config = load(None, environment, ROOT).config
    wishes = {
        "type": "relay",
        "destination": destination,
        "concurrent": 200,
        "per_second": 1_000,
        "ingest": {"per_second": 100_000, "bytes_per_second": 1 << 30},
    }
    with collections_of(config) as stores:
        service = Services(config, stores).make(Operator(), MAIN, "shop", wishes).service
    return IngestLabel(MAIN, service.name, service.ingest.random)
