"""What senders that are many, slow or forging can do to a relay's door: next to nothing."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from foreign_posts import Connection, Post, Sender, forged, posts
from relay_arena import RelayArena, relay_arena
from storms import post_evenly

from service.http.backend.door import LOOK_SECONDS
from service.worker.deliveries.foreign_request import BODY_MOST
from service.worker.deliveries.ingest_label import PATH

DOMAIN = "in.example"
FORGED = 5_000
AT_ONCE = 1e9
"""Posts in a second: as fast as they are answered."""

LINES_MOST = 50
"""Of the log, meanwhile: what the door says by the second and not by the request."""

SLOW = int(os.environ.get("SENDERS", "300"))
"""Senders that hold back their last byte: together far more than SLOW_MIB."""

SLOW_MIB = 64

SPOOLS = 2
"""Of requests, and of what is sent to relays."""


pytestmark = pytest.mark.prove


@pytest.fixture
async def arena(disk: Path) -> AsyncIterator[RelayArena]:
    async with relay_arena(disk, HTTP__CONNECTIONS=str(SLOW + 100), INGEST__DOMAIN=DOMAIN) as made:
        yield made


def sizes(arena: RelayArena) -> dict[str, int]:
    """The files of the door and of beanstalkd, but for the log."""
    kept = [*arena.folder.glob("spool*"), *arena.folder.glob("beanstalkd/*")]
    return {each.name: each.stat().st_size for each in kept}


async def sizes_at_rest(arena: RelayArena) -> dict[str, int]:
    """The same, once the door has looked at both of its spools, as the first look makes files."""
    while True:
        before = sizes(arena)
        await asyncio.sleep(2 * LOOK_SECONDS)
        if sizes(arena) == before and sum(name.endswith(".lock") for name in before) == SPOOLS:
            return before


def lines(arena: RelayArena) -> int:
    return arena.door.log.read_bytes().count(b"\n")


async def test_forged_labels_cost_no_disk_no_job_and_no_line_of_the_log(
    arena: RelayArena,
) -> None:
    draw, sender = random.Random(1), Sender(arena.door.url)
    made = [each.request for each in posts(1, 100, arena.address, 0) if not each.refused]
    path = urlsplit(arena.address).path
    before = await sizes_at_rest(arena)
    said, answers = lines(arena), Counter[int]()

    async def post(index: int) -> None:
        request, where = made[index % len(made)], forged(path, draw)
        host = f"{where.removeprefix(PATH)}.{DOMAIN}"
        below = Post(request, "", host=host) if index % 2 else Post(request, where)
        answers[await sender.post(below)] += 1

    await post_evenly(FORGED, AT_ONCE, post)
    sender.close()

    assert answers == {404: FORGED}
    assert sizes(arena) == before
    assert arena.puts() == 0
    assert lines(arena) - said < LINES_MOST


async def test_slow_senders_of_large_requests_cost_the_door_little_memory(
    arena: RelayArena, measured: dict[str, list[str]]
) -> None:
    [request] = [each.request for each in posts(1, 1, arena.address, 0)]
    large = replace(request.message, method="POST", target="/", body=bytes(BODY_MOST))
    written = Post(replace(request, message=large), urlsplit(arena.address).path)
    text = written.written(urlsplit(arena.door.url).netloc)
    before = await asyncio.to_thread(clear_peak, arena)
    async with AsyncExitStack() as closing:
        begun = [await _begin(arena, text[:-1], closing) for _ in range(SLOW)]
        answers = await asyncio.gather(*(_end(text[-1:], *each) for each in begun))

    grown = peak_mib(arena) - before
    assert set(answers) <= {202, 503}
    assert grown <= SLOW_MIB
    measured["the door with slow senders"] = [f"{SLOW} of 1 MiB: {grown:.1f} MiB more"]


async def _begin(arena: RelayArena, text: bytes, closing: AsyncExitStack) -> Connection:
    """Send a request but for its end, and hold the connection."""
    host, _, port = urlsplit(arena.door.url).netloc.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    closing.callback(writer.transport.abort)
    for at in range(0, len(text), 1 << 16):
        writer.write(text[at : at + (1 << 16)])
        await writer.drain()
    return reader, writer


async def _end(rest: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    """Send the end; the status of the answer."""
    writer.write(rest)
    return int((await reader.readline()).split()[1])


def clear_peak(arena: RelayArena) -> float:
    """Let the peak be that of from now on; the MiB that the door has now."""
    Path(f"/proc/{arena.door.pid}/clear_refs").write_text("5")
    return peak_mib(arena)


def peak_mib(arena: RelayArena) -> float:
    """The most memory that the door had since its peak was cleared."""
    status = Path(f"/proc/{arena.door.pid}/status").read_text()
    [line] = [each for each in status.splitlines() if each.startswith("VmHWM")]
    return int(line.split()[1]) / 1024
