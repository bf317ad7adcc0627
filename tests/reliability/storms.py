"""What the storms share: a door that is killed, posts at an even rate, and faults between them.

A storm posts to a real door while one thing after the other is broken, and judges at the end what
became of that which was answered 202.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import aiohttp

from devstack.nursery import Nursery
from devstack.process import Process
from devstack.servers import Server, free_port

ROOT = Path(__file__).resolve().parents[2]
AT_ONCE = 64
MEND_SECONDS = 120.0
POST_SECONDS = 15.0

Fault = Callable[[], Awaitable[None]]
"""Breaks something, and mends it."""


class DoorProcess:
    """`worker.py ingest`, which may be killed and started again at the same port.

    `environment`: settings beside those that every door of a storm has.
    """

    def __init__(
        self,
        server: Server,
        folder: Path,
        nursery: Nursery,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self.spool = folder / "spool.sqlite"
        settings = {
            "TRACKER_CONFIG": str(ROOT / "config.toml"),
            "TRACKER_BEANSTALKD__SERVERS": f'["{server.url}"]',
            "TRACKER_INGEST__LISTEN": self.url.removeprefix("http://"),
            "TRACKER_INGEST__SPOOL": str(self.spool),
            "TRACKER_INGEST__KEYS": str(folder / "keys.json"),
            "PYTHONDONTWRITEBYTECODE": "",
        }
        command = [sys.executable, str(ROOT / "worker.py"), "ingest"]
        self.log = folder / "ingest.log"
        self._process = Process(nursery, command, self.log, settings | dict(environment or {}))

    @property
    def pid(self) -> int | None:
        """The id of its process, None while it does not run."""
        return self._process.pid

    async def start(self) -> None:
        """Start it, and wait until it serves."""
        await asyncio.to_thread(self._process.spawn)
        await until(lambda: self.says("/livez", b""), "the door serves")

    async def emptied(self) -> None:
        """Wait until its spool is empty, and a beanstalkd takes requests."""
        await until(
            lambda: self.says("/readyz", b'"tubes":"","spool":"","spooled":0'), "it is empty"
        )

    async def says(self, path: str, part: bytes) -> bool:
        """Whether it answers 200, with this in it."""
        try:
            async with aiohttp.ClientSession() as http, http.get(self.url + path) as response:
                return response.status == 200 and part in await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

    async def kill(self) -> None:
        """Kill it with -9."""
        await asyncio.to_thread(self._process.kill)

    async def restart(self) -> None:
        """Kill it with -9, and start it again."""
        await self.kill()
        await self.start()

    def stop(self) -> None:
        """Stop it in good order."""
        self._process.stop()


async def until(
    condition: Callable[[], Awaitable[bool]], what: str, seconds: float = MEND_SECONDS
) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + seconds
    while not await condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        await asyncio.sleep(0.05)


async def post_evenly(count: int, rate: float, post: Callable[[int], Awaitable[None]]) -> None:
    """Begin so many posts at an even rate, unless AT_ONCE of them run."""
    limit = asyncio.Semaphore(AT_ONCE)
    async with asyncio.TaskGroup() as posting:
        began = time.monotonic()
        for index in range(count):
            await asyncio.sleep(max(0.0, began + index / rate - time.monotonic()))
            await limit.acquire()
            task = posting.create_task(post(index))
            task.add_done_callback(lambda _: limit.release())


async def break_each(faults: Mapping[Fault, int], seconds: float, seed: int) -> None:
    """Break one thing after the other, each so often, spread over the time in which is posted."""
    draw = random.Random(f"faults:{seed}")
    order = [fault for fault, times in faults.items() for _ in range(times)]
    draw.shuffle(order)
    gap = seconds / (len(order) + 1)
    for fault in order:
        await asyncio.sleep(gap * draw.uniform(0.5, 1.0))
        await fault()


async def restart(server: Server, down: float) -> None:
    """Kill a server with -9, and start it again after so many seconds, with what it has on disk."""
    await asyncio.to_thread(server.kill)
    await asyncio.sleep(down)
    await asyncio.to_thread(server.start)
