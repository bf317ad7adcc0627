"""The measure of all things here: aiohttp asked for one URL after the other, and nothing else.

Run as `python -m benchmarks.bare_loop URL CALLS` in a process of its own; prints JSON. A new URL
per call, 50 callers, no cookies, no time-outs, the body read and decoded: what is left when
everything that makes a worker is taken away.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import aiohttp

CALLERS = 50
WARM_UP = 500
SLUGS = 50


async def loop(url: str, calls: int) -> dict[str, float]:
    """Make `calls` calls. Returns calls per second, and CPU microseconds per call."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:
        await _ask(session, url, 0, WARM_UP)
        began, spent = time.perf_counter(), time.process_time()
        await _ask(session, url, WARM_UP, WARM_UP + calls)
        seconds = time.perf_counter() - began
        cpu_us = (time.process_time() - spent) * 1_000_000
    return {"per_second": calls / seconds, "cpu_us": cpu_us / calls}


async def _ask(session: aiohttp.ClientSession, url: str, first: int, last: int) -> None:
    numbers = iter(range(first, last))

    async def caller() -> None:
        for number in numbers:
            async with session.get(f"{url}/bench-{number % SLUGS:04}/BARE{number:012}") as response:
                json.loads(await response.read())

    await asyncio.gather(*(caller() for _ in range(CALLERS)))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(loop(sys.argv[1], int(sys.argv[2])))))
