"""Connections that are kept for the next call: no more than may be open beside those of calls."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import aiohttp
from aiohttp import web
from loopback import Courier

from couriers.http.session import open_session

CALLS = 12


class Site:
    """Answers once CALLS requests are there, and knows which connections are open."""

    def __init__(self) -> None:
        self.connections: set[asyncio.Transport] = set()
        self._all = asyncio.Barrier(CALLS)

    async def answer(self, request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        self.connections.add(request.transport)
        await self._all.wait()
        return web.Response(text="answer")

    @property
    def open(self) -> int:
        return sum(not each.is_closing() for each in self.connections)


async def asked(http: aiohttp.ClientSession, url: str) -> None:
    async with http.get(url) as response:
        assert await response.text() == "answer"


async def calls_at_once(courier: Courier, kept_below: int, right: Callable[[int], bool]) -> None:
    """Make CALLS at once, and wait until the right number of connections is open."""
    site = Site()
    url = await courier(site.answer)
    async with open_session(kept_below) as http:
        await asyncio.gather(*(asked(http, url) for _ in range(CALLS)))
        async with asyncio.timeout(5):
            while not right(site.open):  # noqa: ASYNC110 - the site is not told
                await asyncio.sleep(0.01)


async def test_connections_stay_open_for_the_next_call(courier: Courier) -> None:
    await calls_at_once(courier, 10_000, lambda open_: open_ == CALLS)


async def test_one_whose_descriptor_is_too_high_is_closed_after_its_answer(
    courier: Courier,
) -> None:
    lowest_free = os.dup(0)
    os.close(lowest_free)

    await calls_at_once(courier, lowest_free, lambda open_: open_ == 0)
    await calls_at_once(courier, lowest_free + CALLS, lambda open_: 0 < open_ < CALLS)
