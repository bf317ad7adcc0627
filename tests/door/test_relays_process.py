"""`worker.py ingest` as a process: what it answered 202 to outlives it, whatever is away."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from door_ground import NOWHERE, until
from relay_ground import DOMAIN, relayed

from devstack.nursery import Nursery
from devstack.process import Process
from devstack.servers import Server, free_port
from service.config.load import load
from service.operator.connections import collections_of
from service.operator.ingest_labels import ingest_key
from service.worker.deliveries.ingest_label import new_label
from tracking.request import MAIN

ROOT = Path(__file__).resolve().parents[2]


class Ingest:
    """The process, and a sender that posts to a label."""

    def __init__(self, disk: Path, settings: dict[str, str], nursery: Nursery) -> None:
        self.listen = f"127.0.0.1:{free_port()}"
        with collections_of(load(None, settings, Path("/")).config) as stores:
            self.host = f"{new_label(MAIN, 'shop', ingest_key(stores))}.{DOMAIN}"
        self._disk, self._settings, self._nursery = disk, settings, nursery
        self._process: Process | None = None

    async def start(self, **settings: str) -> None:
        """Start it with these settings over those of the test, and wait until it knows labels."""
        environment = self._settings | {
            "TRACKER_CONFIG": str(ROOT / "config.toml"),
            "TRACKER_INGEST__LISTEN": self.listen,
            "TRACKER_INGEST__DOMAIN": DOMAIN,
            "TRACKER_INGEST__SPOOL": str(self._disk / "spool.sqlite"),
            "TRACKER_INGEST__KEYS": str(self._disk / "keys.json"),
            "TRACKER_LOG__FORMAT": "json",
        }
        environment |= {f"TRACKER_{name}": text for name, text in settings.items()}
        command = [sys.executable, str(ROOT / "worker.py"), "ingest"]
        log = self._disk / "ingest.log"
        self._process = Process(self._nursery, command, log, environment)
        await asyncio.to_thread(self._process.spawn)
        for _ in range(400):
            if await self.posts(b"", method="TRACE") == 405:
                return
            await asyncio.sleep(0.05)
        raise TimeoutError("it does not know labels")

    async def kill(self) -> None:
        """Kill it with -9."""
        assert self._process
        await asyncio.to_thread(self._process.kill)

    async def posts(self, body: bytes, method: str = "POST") -> int:
        """Send a request; gives the status, 0 for no answer."""
        url = f"http://{self.listen}/x"
        try:
            async with (
                aiohttp.ClientSession() as http,
                http.request(method, url, data=body, headers={"Host": self.host}) as answer,
            ):
                return answer.status
        except aiohttp.ClientError:
            return 0


@pytest.fixture
async def ingest(disk: Path, settings: dict[str, str]) -> AsyncIterator[Ingest]:
    with Nursery() as nursery:
        yield Ingest(disk, settings, nursery)


@pytest.mark.prove
async def test_what_was_taken_is_put_after_a_kill_while_mongodb_is_away(
    ingest: Ingest, disk: Path, beanstalkd: Server
) -> None:
    await ingest.start(BEANSTALKD__SERVERS=f'["{NOWHERE}"]')
    assert [await ingest.posts(b"%d" % number) for number in range(3)] == [202] * 3
    await ingest.kill()

    away = {"MONGODB__URI": "mongodb://127.0.0.1:1"}
    await ingest.start(BEANSTALKD__SERVERS=f'["{beanstalkd.url}"]', **away)
    assert await ingest.posts(b"3") == 202
    found: list[bytes] = []
    await until(
        lambda: bool(found.extend(each.body for each in relayed(beanstalkd)) or len(found) == 4),
        "the spool is put",
    )
    await ingest.kill()

    assert sorted(found) == [b"0", b"1", b"2", b"3"]
    log = (disk / "ingest.log").read_text()
    assert '"relayed"' not in log
    assert "unexpected" not in log
