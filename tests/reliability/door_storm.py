"""A door under load, whose beanstalkd and whose own process are broken all the time; the verdict.

Posts come at an even rate. Meanwhile beanstalkd is killed, or its disk fails until it is killed,
and the door is killed with -9; each is started again. When all is mended and the spool is empty,
every request that was answered 202 must lie in the tube, under its id, and nothing else.

    PYTHONPATH=.:tests/reliability python -m door_storm --posts 20000 --rate 500
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from storms import (
    AT_ONCE,
    MEND_SECONDS,
    POST_SECONDS,
    DoorProcess,
    Fault,
    break_each,
    post_evenly,
    restart,
)

from devstack.failing import end_binlog, failing_beanstalkd
from devstack.nursery import Nursery
from devstack.servers import Server, running

BATCH_MOST = 5
JSON = {"Content-Type": "application/json"}

_body = re.compile(rb"RESERVED \d+ (\d+)\r\n")


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is posted, how fast, and how often something is broken."""

    posts: int
    rate: float
    door_kills: int
    server_kills: int
    binlog_ends: int
    down: float = 0.5
    seed: int = 1


@dataclass
class Log:
    """What the clients know: numbers by the ids that were answered 202, and all that were sent."""

    taken: dict[str, str] = field(default_factory=dict)
    sent: set[str] = field(default_factory=set)
    spooled: int = 0
    answers: Counter[int | str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of it. `wrong` is empty where every promise was kept."""

    taken: int
    spooled: int
    twice: int
    answers: dict[int | str, int]
    wrong: Sequence[str]


class Clients:
    """Posts at an even rate, and notes every answer."""

    def __init__(self, scale: Scale, url: str, log: Log) -> None:
        self._scale = scale
        self._url = f"{url}/v1/requests"
        self._log = log
        self._draw = random.Random(f"posts:{scale.seed}")

    async def run(self) -> None:
        """Post all; those with ids of their own until they are taken."""
        timeout = aiohttp.ClientTimeout(total=POST_SECONDS)
        connector = aiohttp.TCPConnector(limit=AT_ONCE)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as http:
            await post_evenly(
                self._scale.posts,
                self._scale.rate,
                lambda index: self._post(http, self._wanted(index)),
            )

    def _wanted(self, index: int) -> list[dict[str, str]]:
        count = self._draw.choice([1, 1, 1, 1, BATCH_MOST])
        own = self._draw.random() < 0.5
        made = []
        for each in range(count):
            request = {"slug": "usps", "number": f"S{index:07}{each}"}
            made.append(request | {"id": f"own-{index}-{each}"} if own else request)
        return made

    async def _post(self, http: aiohttp.ClientSession, wanted: list[dict[str, str]]) -> None:
        self._log.sent.update(each["number"] for each in wanted)
        body = msgspec.json.encode(wanted if len(wanted) > 1 else wanted[0])
        deadline = time.monotonic() + MEND_SECONDS
        while time.monotonic() < deadline:
            try:
                async with http.post(self._url, data=body, headers=JSON) as response:
                    self._log.answers[response.status] += 1
                    if response.status == 202:
                        self._note(await response.json())
                        return
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                self._log.answers[type(error).__name__] += 1
            # Without an id a second try would be a second request.
            if "id" not in wanted[0]:
                return
            await asyncio.sleep(0.2)

    def _note(self, said: dict[str, Any]) -> None:
        for each in said.get("requests", [said]):
            self._log.taken[each["id"]] = each["number"]
            self._log.spooled += each["spooled"]


async def break_things(scale: Scale, server: Server, door: DoorProcess) -> None:
    """Break the door, beanstalkd and its disk while is posted."""

    async def kill_server() -> None:
        await restart(server, scale.down)

    async def end_disk() -> None:
        end_binlog(server)
        await asyncio.sleep(scale.down)
        await kill_server()

    faults: dict[Fault, int] = {
        door.restart: scale.door_kills,
        kill_server: scale.server_kills,
        end_disk: scale.binlog_ends,
    }
    await break_each(faults, scale.posts / scale.rate, scale.seed)


async def jobs_of(server: Server) -> list[dict[str, str]]:
    """Reserve everything in the tube, and delete nothing: that would sync each time."""
    reading, writing = await asyncio.open_connection(server.host, server.port)
    writing.write(b"watch requests_flow\r\n")
    await reading.readline()
    found = []
    while True:
        writing.write(b"reserve-with-timeout 0\r\n" * 100)
        for _ in range(100):
            head = _body.match(line := await reading.readline())
            if head:
                body = await reading.readexactly(int(head[1]) + 2)
                found.append(msgspec.json.decode(body)["payload"])
        if not line.startswith(b"RESERVED"):
            writing.close()
            with suppress(OSError):
                await writing.wait_closed()
            return found


def judged(log: Log, jobs: Sequence[dict[str, str]]) -> Verdict:
    """Compare what was answered with what is in the tube."""
    numbers: dict[str, set[str]] = {}
    for job in jobs:
        numbers.setdefault(job["id"], set()).add(job["number"])
    wrong = [
        f"{id_}: taken for {number}, in the tube for {numbers.get(id_, 'nothing')}"
        for id_, number in log.taken.items()
        if numbers.get(id_) != {number}
    ]
    wrong += [f"{job['number']} was not sent" for job in jobs if job["number"] not in log.sent]
    wrong += [
        f"answered {code}"
        for code in log.answers
        if isinstance(code, int) and code not in {202, 503}
    ]
    twice = len(jobs) - len(numbers)
    return Verdict(len(log.taken), log.spooled, twice, dict(log.answers), wrong)


async def storm(scale: Scale, folder: Path) -> Verdict:
    """Run once, in a folder on a disk."""
    log = Log()
    with running(failing_beanstalkd()) as server, Nursery() as nursery:
        door = DoorProcess(server, folder, nursery)
        await door.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(Clients(scale, door.url, log).run())
                group.create_task(break_things(scale, server, door))
            await door.emptied()
        finally:
            await asyncio.to_thread(door.stop)
        return judged(log, await jobs_of(server))


def main() -> int:
    """Run a large one, and tell what came of it; 1 where a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--posts", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=500.0, help="posts in a second")
    parser.add_argument("--kills", type=int, default=10, help="of the door, and of beanstalkd")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(2)))
    asked = parser.parse_args()
    scale = Scale(
        asked.posts, asked.rate, asked.kills, asked.kills // 2, asked.kills // 2, seed=asked.seed
    )
    with tempfile.TemporaryDirectory(prefix="storm-", dir="/var/tmp") as folder:
        verdict = asyncio.run(storm(scale, Path(folder)))
    told = [
        f"seed {asked.seed}: {asked.posts} posts, {verdict.answers}",
        f"{verdict.taken} requests were taken, {verdict.spooled} of them spooled first",
        f"{verdict.twice} jobs are in the tube twice, under one id each",
        *(f"WRONG {each}" for each in verdict.wrong[:20]),
        f"{len(verdict.wrong)} promises were broken",
    ]
    sys.stdout.write("\n".join(told) + "\n")
    return 1 if verdict.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
