"""Tiny couriers on loopback, and a permit that writes down how it is used.

============ ===================================================================================
fixture      is
============ ===================================================================================
`wire`       starts a server out of one coroutine per connection; for what a library would hide
`courier`    starts a server out of one coroutine per request (aiohttp); returns its address
`permit`     a `RecordingPermit`
`fetch_for`  makes a `Fetch` on a real session, for an address and a permit
============ ===================================================================================
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress

import aiohttp
import pytest
from aiohttp import web
from loopback import Asked, Connected, Courier, FetchFor, RecordingPermit, Wire

from couriers.http.credentials import CourierSettings
from couriers.http.fetch import Fetch, TokenCache
from couriers.http.session import open_session
from tracking.request import Slug


@pytest.fixture
async def cleanup() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
def permit() -> RecordingPermit:
    return RecordingPermit()


@pytest.fixture
def wire(cleanup: AsyncExitStack) -> Wire:
    async def start(connected: Connected) -> str:
        serving: set[asyncio.Task[None]] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await connected(reader, writer)

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(serve(reader, writer))
            task.add_done_callback(lambda _: writer.close())
            serving.add(task)

        async def stop() -> None:
            server.close()
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        cleanup.push_async_callback(stop)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    return start


@pytest.fixture
def courier(cleanup: AsyncExitStack) -> Courier:
    async def start(asked: Asked) -> str:
        runner = web.ServerRunner(web.Server(asked), shutdown_timeout=0.1)  # type: ignore[arg-type]
        await runner.setup()
        cleanup.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    return start


@pytest.fixture
async def http(cleanup: AsyncExitStack) -> aiohttp.ClientSession:
    return await cleanup.enter_async_context(open_session())


@pytest.fixture
def fetch_for(http: aiohttp.ClientSession, permit: RecordingPermit) -> FetchFor:
    tokens = TokenCache()

    def make(base_url: str, *, own_permit: RecordingPermit | None = None, **more: object) -> Fetch:
        slug = Slug(str(more.pop("slug", "usps")))
        credentials = {"client_id": "the-client", "client_secret": "the-secret"}
        settings = CourierSettings(
            slug=slug,
            base_url=base_url,
            token_url=str(more.pop("token_url", f"{base_url}/token")),
            credentials=more.pop("credentials", credentials),  # type: ignore[arg-type]
        )
        assert not more
        return Fetch(http, settings, own_permit or permit, tokens)

    return make
