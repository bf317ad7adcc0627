"""A door of a test's own, with real servers and a real spool; how its requests are signed."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import io
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import greenstalk
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer
from described_client import DescribedClient

from devstack.servers import Server
from service.config.load import load
from service.config.schema import Http
from service.http.application import application
from service.http.backend.door import REQUESTS, Door, Insist, Note, Tube
from service.http.callers import Callers
from service.http.meanings import MEANINGS
from service.operator.catalogue import Catalogue
from service.operator.keys import PREFIX_CHARACTERS, Key, Keys, Scope, digest, keys_of, make_key
from service.operator.put import Sendable
from service.operator.signatures import HmacSecret, Signing
from service.operator.spool import Spool
from service.worker.tubes.blocking import Timeouts
from service.worker.tubes.envelope import REQUESTS_TUBE
from service.worker.tubes.put_servers import PutServers
from tracking.request import Account, Slug

TIMEOUTS = Timeouts(connect=1.0, reply=1.0)

SOON = 10.0


USPS = {"slug": "usps", "number": "9405903699300184125060"}


OTHER = {"slug": "ups", "number": "1Z12345E0205271688"}


NOWHERE = "127.0.0.1:1"


CATALOGUE = Catalogue(load(None, {}, Path("/")).config)


LINES = {"Content-Type": "application/x-ndjson"}


Client = TestClient[web.Request, web.Application]


class Lines:
    """What would stand on standard output."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def __call__(self, bodies: Sequence[bytes]) -> bool:
        self.bodies += bodies
        return True


@asynccontextmanager
async def open_door(
    spool: Path,
    *servers: Server | str,
    mib: int = 64,
    save: Callable[..., bool] | None = None,
    note: Note | None = None,
    tube: Tube = REQUESTS,
) -> AsyncIterator[Door]:
    """A door that does not empty its spool by itself."""
    urls = [each if isinstance(each, str) else each.url for each in servers]
    put_servers = PutServers(urls, TIMEOUTS, durable=True)
    door = Door(put_servers, Spool(spool, mib), replace(tube, write=save or Lines()), note)
    try:
        yield door
    finally:
        await door.close()


def jobs(*bodies: bytes) -> list[Sendable]:
    """Requests whose jobs have these bodies."""
    return [Sendable("", Slug("usps"), "", body) for body in bodies]


def jobs_in(*servers: Server, tube: str = REQUESTS_TUBE) -> list[bytes]:
    """Take all jobs that are ready, in their order."""
    found = []
    for server in servers:
        with greenstalk.Client((server.host, server.port), encoding=None, watch=tube) as client:
            while True:
                try:
                    job = client.reserve(timeout=0)
                except greenstalk.TimedOutError:
                    break
                found.append(job.body)
                client.delete(job)
    return found


async def until(condition: Callable[[], bool], what: str, seconds: float = SOON) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.02)


class FixedKeys:
    """Keys that a test made, in place of those that MongoDB keeps."""

    def __init__(self) -> None:
        self.keys = Keys()

    def make(
        self,
        account: str,
        *scopes: Scope,
        ends_at: float | None = None,
        signing: Signing | None = None,
        per_second: float | None = None,
    ) -> str:
        made = make_key()
        name = made[:PREFIX_CHARACTERS]
        key = Key(name, Account(account), scopes, digest(made), ends_at, signing, per_second)
        self.keys = keys_of([*self.keys.known.values(), key])
        return made

    def find(self, text: str) -> Key | None:
        return self.keys.find(text, time.time())


@asynccontextmanager
async def serving(
    spool: Path,
    *servers: Server | str,
    callers: Callers | None = None,
    hosts: tuple[str, ...] = (),
    insist: Insist | None = None,
) -> AsyncIterator[Client]:
    callers = callers or Callers(FixedKeys(), 1_000.0)
    async with (
        open_door(spool, *servers) as door,
        DescribedClient(
            TestServer(application(door, CATALOGUE, callers, Http(hosts=hosts)))
        ) as client,
    ):
        door.insist = insist
        yield client


async def post(client: Client, body: object, query: str = "", **headers: str) -> ClientResponse:
    data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
    given = {"Content-Type": "application/json"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    return await client.post(f"/v1/requests{query}", data=data, headers=given)


async def refused(response: ClientResponse, status: int) -> dict[str, Any]:
    assert response.status == status
    assert response.content_type == "application/problem+json"
    problem: dict[str, Any] = await response.json(content_type=None)
    assert problem["status"] == status
    assert problem["title"]
    assert problem["type"] == f"/docs/problems#{status}"
    assert status in MEANINGS
    return problem


def payloads(server: Server) -> list[dict[str, Any]]:
    return [json.loads(body)["payload"] for body in jobs_in(server)]


DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


SECRET = HmacSecret("ts_secret")


def signed_by(secret: HmacSecret, text: str) -> str:
    digest = hmac.new(secret.secret.encode(), text.encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()
