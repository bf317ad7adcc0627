"""A relay's door of a test's own, with a real server, and senders that say what they like."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import greenstalk
import msgspec
from aiohttp import web
from door_ground import CATALOGUE, NOWHERE, FixedKeys, Lines, open_door

from devstack.servers import Server, free_port
from service.config.load import load
from service.http.application import application
from service.http.backend.bodies import Bodies
from service.http.backend.door import TO_RELAYS, Door, Tube
from service.http.callers import Callers
from service.http.ingest import RELAYS, Relays
from service.http.serve import listening
from service.operator.keys import Keys
from service.worker.deliveries.foreign_request import (
    WEBHOOKS_TUBE,
    ForeignRequest,
    decode_foreign,
)
from service.worker.deliveries.ingest_label import KEY_BYTES
from service.worker.deliveries.service import Ingest

KEY = b"k" * KEY_BYTES
LABEL, FORGED = "main-shop-tl6i4dhilhheaithebeji", "main-shop-jgekbguffqgk3n3obaie6"
"""One that was made under the key, and one that was not: the same ones each time."""

DOMAIN = "in.example.com"
PATH = f"/in/{LABEL}"
OWN = "track.example.com"

_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    head: bytes
    body: bytes

    @property
    def detail(self) -> str:
        found: str = msgspec.json.decode(self.body)["detail"]
        return found


class Sender:
    """Says anything to a door, over one connection after another."""

    def __init__(self, port: int, relays: Relays, door: Door, spool: Path) -> None:
        self.port = port
        self.relays = relays
        self.door = door
        self.spool = spool
        self.keys = FixedKeys()
        self.lines = Lines()

    def knows(self, **ingest: Any) -> None:
        """The door knows the service that has the label."""
        self.keys.keys = Keys({}, KEY, {LABEL: Ingest(**ingest)})

    async def says(self, *pieces: bytes) -> Answer:
        """Send pieces over a new connection; gives the first final answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            return await answered(reader)
        finally:
            writer.close()

    async def posts(
        self, target: str = PATH, body: bytes = b"", method: str = "POST", **headers: str
    ) -> Answer:
        """Send a request that is as it should be."""
        return await self.says(written(target, body, method, **headers))


def written(target: str = PATH, body: bytes = b"", method: str = "POST", **headers: str) -> bytes:
    """Write a request; `_` in the name of a header stands for a hyphen."""
    said = {"Host": "127.0.0.1"} | {name.replace("_", "-"): text for name, text in headers.items()}
    if body:
        said["Content-Length"] = f"{len(body)}"
    head = "".join(f"{name}: {text}\r\n" for name, text in said.items())
    return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


async def answered(reader: asyncio.StreamReader) -> Answer:
    """Read one answer that is no 100."""
    async with asyncio.timeout(10):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 100"):
                break
        length = _LENGTH.search(head)
        body = await reader.readexactly(int(length[1])) if length else b""
    return Answer(int(head.split()[1]), head, body)


@asynccontextmanager
async def relay(
    spool: Path, *servers: Server | str, mib: int = 64, tube: Tube = TO_RELAYS, known: bool = True
) -> AsyncIterator[Sender]:
    """A door as `ingest` has it, which knows the key of labels where it is `known`."""
    variables = {
        "TRACKER_INGEST__DOMAIN": DOMAIN,
        "TRACKER_HTTP__PUBLIC_URL": f"https://{OWN}",
    }
    config, keys, lines = load(None, variables, Path("/")).config, FixedKeys(), Lines()
    keys.keys = Keys({}, KEY if known else b"")
    bodies = Bodies(spool.parent)
    async with (
        open_door(spool.with_stem("requests"), NOWHERE) as requests,
        open_door(spool, *servers, mib=mib, save=lines, tube=tube) as door,
    ):
        relays = Relays(config, keys, door, bodies)
        made = application(requests, CATALOGUE, Callers(keys, 1_000.0))
        made[RELAYS] = relays
        runner = web.AppRunner(made, access_log=None)
        await runner.setup()
        port = free_port()
        server = await listening(runner, f"127.0.0.1:{port}", 2_000)
        sender = Sender(port, relays, door, spool)
        sender.keys, sender.lines = keys, lines
        try:
            yield sender
        finally:
            server.close()
            await runner.cleanup()
            bodies.close()


def relayed(server: Server) -> list[ForeignRequest]:
    """Take all foreign requests that are ready, in their order."""
    found = []
    address = (server.host, server.port)
    with greenstalk.Client(address, encoding=None, watch=WEBHOOKS_TUBE) as client:
        while True:
            try:
                job = client.reserve(timeout=0)
            except greenstalk.TimedOutError:
                return found
            found.append(decode_foreign(job.body))
            client.delete(job)
