"""An `api` of a test's own on a real Redis, a worker that ends operations, and its listeners."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pymongo
import pymongo.database
from aiohttp import ClientError, ClientResponse
from aiohttp.test_utils import TestServer
from described_client import DescribedClient
from door_ground import CATALOGUE, NOWHERE, USPS, Client, FixedKeys, open_door
from limits_bench import FAST, Worker
from redis.asyncio import Redis

from devstack.servers import Server
from limits.clock import Clock
from limits.connect import RedisAddress, open_redis
from limits.ends import EndStream, EventId
from limits.epoch import Epoch
from limits.limiter import Limiter, Policy
from limits.pipeline import Pipeline
from limits.rules import RuleBook, Rules
from service.config.load import load
from service.http.application import application
from service.http.backend.listeners import EventIds
from service.http.backend.operations import open_operations
from service.http.callers import Callers
from service.observe.background import Background
from tracking.operation import State

ENDED_AT = dt.datetime(2026, 5, 4, 8, 0, 1, 700_000, dt.UTC)


ARCHIVED = {
    "_id": "order-1@1777881601700",
    "id": "order-1",
    **USPS,
    "state": "SUCCESS",
    "output": {"tag": "InTransit"},
    "admitted_at": ENDED_AT,
    "started_at": ENDED_AT,
    "finished_at": ENDED_AT,
    "attempts": [{"at": ENDED_AT, "outcome": "answered", "http_status": 200, "ms": 40}],
}


"""An operation of which Redis knows nothing any more."""


@asynccontextmanager
async def working(redis_url: str, rules: Rules = FAST) -> AsyncIterator[Worker]:
    """A worker whose calls are made by hand."""
    client, clock, policy = open_redis(RedisAddress(redis_url)), Clock(), Policy()
    pipeline = Pipeline(client, clock)
    epoch = Epoch(pipeline, 30.0)
    limiter = Limiter(pipeline, clock, epoch, RuleBook(lambda _: rules), policy)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(client.aclose)
        closing.push_async_callback(limiter.close)
        await limiter.start()
        yield Worker(limiter, pipeline, clock, epoch, rules, policy)


@asynccontextmanager
async def serving_all(
    spool: Path,
    settings: Mapping[str, str],
    *servers: Server,
    callers: Callers | None = None,
    connections: int = 1_000,
) -> AsyncIterator[Client]:
    """All routes; without servers no beanstalkd can be reached."""
    callers = callers or Callers(FixedKeys(), 1_000.0)
    urls = [each.url for each in servers] or [NOWHERE]
    bound = {
        "TRACKER_HTTP__CONNECTIONS": f"{connections}",
        "TRACKER_BEANSTALKD__SERVERS": json.dumps(urls),
    }
    config = load(None, {**settings, **bound}, Path("/")).config
    async with (
        open_operations(config, Background().beside) as operations,
        open_door(spool, *urls, note=operations.note_put) as door,
        DescribedClient(
            TestServer(application(door, CATALOGUE, callers, config.http, operations))
        ) as client,
    ):
        yield client


Database = pymongo.database.Database[dict[str, Any]]


SOON = 5.0


DIED_AT = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)


def record_dead(collections: Database, name: str, hours: int = 0, **members: Any) -> None:
    body = {"type": "requests_flow", "payload": {**USPS, "id": "order-1"}}
    document = {
        "_id": name,
        **USPS,
        "operations": ["order-1"],
        "reason": "courier_down",
        "detail": "503 five times",
        "body": json.dumps(body),
        "server": None,
        "job": None,
        "at": DIED_AT + dt.timedelta(hours=hours),
    }
    collections.dead.insert_one(document | members)


def acts(collections: Database) -> list[tuple[Any, ...]]:
    """What `audit` holds: the key, the act, what it was done to, and what came of it."""
    found = collections.audit.find()
    return [(each["key"], each["act"], each["target"], each["outcome"]) for each in found]


async def in_state(redis: Redis, identity: str, state: State) -> dict[str, object]:
    """Wait until an operation is in a state."""
    deadline = time.monotonic() + SOON
    while True:
        found: dict[str, object] = json.loads(
            await redis.get(f"tracking:status:{identity}") or "{}"
        )
        if found.get("status") == state:
            return found
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.005)


STREAM = "tracking:events"


class Heard:
    """What it reads; `last` is the id of the last event."""

    def __init__(self, response: ClientResponse) -> None:
        self.response = response
        self.last = ""

    async def next(self, kind: str = "ended") -> dict[str, Any]:
        """Read the next event, which is of this kind."""
        event, data = await asyncio.wait_for(self._read(), SOON)
        assert event == kind, data
        return data

    async def ids(self, count: int) -> list[str]:
        return [(await self.next())["id"] for _ in range(count)]

    async def begun(self) -> None:
        """Read until nothing is missing any more."""
        async with asyncio.timeout(SOON):
            while not (await self._line()).startswith(":"):
                pass
            self.last = (await self._line()).removeprefix("id: ")

    async def _read(self) -> tuple[str, dict[str, Any]]:
        said: dict[str, str] = {}
        while True:
            line = await self._line()
            name, _, value = line.partition(": ")
            said[name] = value
            if "id" in said:
                self.last = said["id"]
            if not line and "data" in said:
                return said["event"], json.loads(said["data"])
            if not line:
                said = {}

    async def _line(self) -> str:
        line = await self.response.content.readline()
        if not line:
            raise EOFError
        return line.decode().rstrip("\n")


@asynccontextmanager
async def hearing(
    api: Client, query: str = "", last: str = "", **headers: str
) -> AsyncIterator[Heard]:
    """Listen; begins when the server has told what was missed, unless `last` is given."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    given |= {"Last-Event-ID": last} if last else {}
    async with api.get(f"/v1/events{query}", headers=given) as response:
        assert (response.status, response.content_type) == (200, "text/event-stream")
        heard = Heard(response)
        if not last:
            await heard.begun()
        yield heard


async def all_of(heard: Heard) -> list[str]:
    """Read until the connection is cut."""
    ids = []
    with contextlib.suppress(EOFError, ClientError, ConnectionError):
        while True:
            ids += await heard.ids(1)
    return ids


async def sealed(redis: Redis, at: str) -> str:
    """What a client has as the id of an entry of the stream."""
    ms, _, place = at.partition("-")
    return EventIds(await EndStream(redis).secret()).sealed(EventId(int(ms), int(place)))


async def opened(redis: Redis, text: str) -> str:
    """Which entry of the stream a client's id means."""
    return str(EventIds(await EndStream(redis).secret()).opened(text))


async def add(redis: Redis, *ids: str) -> None:
    """Have operations end of which nothing else is known."""
    pipeline = redis.pipeline(transaction=False)
    for each in ids:
        pipeline.xadd(STREAM, {"SUCCESS": each})
    await pipeline.execute()


async def end(worker: Worker, *ids: str) -> None:
    """Have operations end, in this order."""
    for each in ids:
        await worker.finish(await worker.granted(f"N-{each}", id=each))
