"""A client of `/v1/events`, which reads them as the standard has it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientError, ClientResponse
from door_ground import Client
from limits_bench import Worker
from redis.asyncio import Redis

from limits.ends import EndStream, EventId
from service.client.listeners import EventIds

SOON = 5.0
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
