"""How many of our files a warm request passes, and a post: so many must be open to follow it.

Counted with `sys.setprofile`, in all threads, in a worker and a door that are assembled in this
process as their own would be, with real servers. A file counts if a function of it runs. What runs
in the background now and then is not meant: a file counts if each of some requests passes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import FrameType

import aiohttp
import greenstalk
import pytest
from aiohttp import web
from aiohttp.test_utils import unused_port

from couriers.registry import COURIERS
from devstack.servers import Server
from devstack.site.remote import CourierSite
from service.config.load import load
from service.config.schema import Config
from service.http.backend.door import open_door
from service.http.backend.keyring import Keyring
from service.http.callers import Callers
from service.http.serve import application, listening
from service.operator.catalogue import Catalogue
from service.worker.wiring.connect import connect
from service.worker.wiring.worker import assemble
from tracking.request import Slug

MOST_OF_A_REQUEST = 38
MOST_OF_A_POST = 18

SOON = 10.0
REPOSITORY = f"{Path(__file__).resolve().parents[2]}/"
OURS = tuple(REPOSITORY + folder for folder in ("couriers/", "limits/", "service/", "tracking/"))

USPS = Slug("usps")
NUMBERS = ("15502370264989", "15502370264999", "15502370265009", "15502370265019")
"""The courier site knows all of them to be in transit."""


class Passed:
    """The files of which functions ran while this is `on`."""

    def __init__(self) -> None:
        self.on = False
        self.files: set[str] = set()

    def note(self, frame: FrameType, event: str, _: object) -> None:
        if self.on and event == "call":
            self.files.add(frame.f_code.co_filename)

    def take(self) -> set[str]:
        """Our files among them, since the last time."""
        files, self.files = self.files, set()
        return {each.removeprefix(REPOSITORY) for each in files if each.startswith(OURS)}


@pytest.fixture
def passed() -> Iterator[Passed]:
    found, before = Passed(), sys.getprofile()
    threading.setprofile(found.note)
    sys.setprofile(found.note)
    yield found
    sys.setprofile(before)
    threading.setprofile(before)


@pytest.fixture
def config(
    beanstalkd: Server, redis_url: str, mongo_uri: str, database: str, site: CourierSite
) -> Config:
    url, courier = f"{site.url}/{USPS}", COURIERS[USPS]
    settings = {
        "BEANSTALKD__SERVERS": f'["{beanstalkd.url}"]',
        "REDIS__URL": redis_url,
        "MONGODB__URI": mongo_uri,
        "MONGODB__DATABASE": database,
        "LIMITS__PER_SECOND": "50",
        "COURIERS__USPS__BASE_URL": url,
        "COURIERS__USPS__TOKEN_URL": url + courier.TOKEN_URL[courier.TOKEN_URL.index("/", 8) :],
    } | {f"COURIERS__USPS__{key.upper()}": "made-up-secret-4711" for key in courier.CREDENTIALS}
    variables = {f"TRACKER_{name}": value for name, value in settings.items()}
    return load(None, variables, Path(REPOSITORY)).config


@contextlib.asynccontextmanager
async def working(config: Config) -> AsyncIterator[None]:
    """A worker, as `service.worker.wiring.worker` starts it."""
    async with contextlib.AsyncExitStack() as closing:
        worker = assemble(config, await connect(config, closing))
        for intake in worker.intakes:
            closing.push_async_callback(intake.close)
            intake.start()
        try:
            yield
        finally:
            await worker.stop(SOON)


@contextlib.asynccontextmanager
async def serving(config: Config, beside: Path) -> AsyncIterator[str]:
    """The door alone, as `ingest` opens it; where requests are posted."""
    async with contextlib.AsyncExitStack() as closing:
        keyring = Keyring(config, beside / "keys")
        closing.push_async_callback(keyring.close)
        door = open_door(config, beside / "spool", None)
        closing.push_async_callback(door.close)
        callers = Callers(keyring, config.http.per_second, always=False)
        made = application(door, Catalogue(config), callers, config.http, None)
        runner = web.AppRunner(made, access_log=None)
        await runner.setup()
        closing.push_async_callback(runner.cleanup)
        server = await listening(runner, f"127.0.0.1:{unused_port()}", config.http.connections)
        closing.callback(server.close)
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}/v1/requests"


def put_and_wait(server: Server, number: str) -> None:
    """Put a request, and wait until its job is deleted."""
    with greenstalk.Client((server.host, server.port), use="requests_flow") as client:
        payload = {"slug": USPS, "number": number}
        job = client.put(json.dumps({"type": "requests_flow", "payload": payload}))
        deadline = time.monotonic() + SOON
        with contextlib.suppress(greenstalk.NotFoundError):
            while client.stats_job(job):
                assert time.monotonic() < deadline, f"{number} is not answered"
                time.sleep(0.01)


def by_folder(files: set[str]) -> str:
    """A list for people."""
    folders: dict[str, list[str]] = defaultdict(list)
    for each in sorted(files):
        folder, _, name = each.rpartition("/")
        folders[folder].append(name.removesuffix(".py"))
    rows = [f"{len(names):3} {folder}: {' '.join(names)}" for folder, names in folders.items()]
    return "\n".join([f"{len(files)} files:", *rows])


async def counted(passed: Passed, steps: list[Callable[[], object]]) -> set[str]:
    """The files that each of the steps passes but the first, which warms everything up."""
    found = []
    for step in steps:
        passed.on = True
        await asyncio.to_thread(step)
        passed.on = False
        found.append(passed.take())
    return set.intersection(*found[1:])


@pytest.mark.usefixtures("written")
async def test_a_warm_request_passes_few_files(
    passed: Passed, config: Config, beanstalkd: Server, site: CourierSite
) -> None:
    async with working(config):
        steps = [lambda n=number: put_and_wait(beanstalkd, n) for number in NUMBERS]
        files = await counted(passed, steps)

    assert len(site.calls(USPS)) == len(NUMBERS)
    assert len(files) <= MOST_OF_A_REQUEST, by_folder(files)


@pytest.mark.usefixtures("written")
async def test_a_post_passes_few_files(passed: Passed, config: Config, tmp_path: Path) -> None:
    async with serving(config, tmp_path) as address, aiohttp.ClientSession() as session:
        found = []
        for number in NUMBERS:
            passed.on = True
            async with session.post(address, json={"slug": USPS, "number": number}) as response:
                assert response.status == web.HTTPAccepted.status_code, await response.text()
            passed.on = False
            found.append(passed.take())
    files = set.intersection(*found[1:])

    assert len(files) <= MOST_OF_A_POST, by_folder(files)
