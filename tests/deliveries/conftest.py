"""A sender, and receivers on the loopback interface that speak raw HTTP; and services."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from post_office import OPERATORS, Post, serving
from receiving import BODY, FOREIGN, HERE, SERVICE, Permit, Send, Serve, Wire, at_localhost
from services_ground import config_of

from service.config.schema import Config, Mail
from service.operator.connections import Collections, collections_of
from service.operator.services import Services
from service.worker.deliveries.destination import Allowed
from service.worker.deliveries.sender import Sender, Sent
from service.worker.deliveries.service import Service


@pytest.fixture
async def closing() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
def wire(closing: AsyncExitStack) -> Wire:
    """Serve raw connections on the loopback interface; gives the port."""

    async def begin(serve: Serve, tls: ssl.SSLContext | None = None) -> int:
        serving: set[asyncio.Task[None]] = set()

        async def one(reader: StreamReader, writer: StreamWriter) -> None:
            with contextlib.suppress(asyncio.IncompleteReadError, OSError):
                await serve(reader, writer)

        def accept(reader: StreamReader, writer: StreamWriter) -> None:
            task = asyncio.create_task(one(reader, writer))
            task.add_done_callback(lambda _: writer.close())
            serving.add(task)

        async def stop() -> None:
            server.close()
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)

        server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
        closing.push_async_callback(stop)
        port: int = server.sockets[0].getsockname()[1]
        return port

    return begin


@pytest.fixture
def permit() -> Permit:
    return Permit()


@pytest.fixture
def send(closing: AsyncExitStack, permit: Permit) -> Send:
    """Send to a port of this machine, as an operator allows it."""
    senders: dict[int, Sender] = {}

    async def sending(
        port: int, service: Service = SERVICE, body: bytes = BODY, **more: Any
    ) -> Sent:
        if port not in senders:
            allowed = Allowed((HERE,), http=True, ports=frozenset({port}))
            tls = more.get("tls", True)
            senders[port] = Sender(lambda _: allowed, addresses=at_localhost, tls=tls)
            closing.push_async_callback(senders[port].close)
        scheme = "https" if "tls" in more else "http"
        there = replace(service, destination=f"{scheme}://shop.example:{port}/hook?shop=1")
        headers, using = more.get("headers", {}), more.get("using", permit)
        foreign = more.get("foreign")
        foreign = foreign and replace(foreign, body=body)
        return await senders[port].send(there, headers, body, using, foreign)

    return sending


@pytest.fixture(params=[None, FOREIGN], ids=["webhook", "relayed"])
def deliver(request: pytest.FixtureRequest, send: Send) -> Send:
    """Send a webhook, then a foreign request: what no receiver can do, it can do with neither."""
    return functools.partial(send, foreign=request.param)


@pytest.fixture
async def post() -> AsyncIterator[Post]:
    made = Post()
    server = await serving(made)
    yield made
    server.close()
    await server.wait_closed()


@pytest.fixture
def smtp(post: Post) -> Mail:
    return Mail(
        host="127.0.0.1",
        port=post.port,
        tls="none",
        sender="tracker@tracker.example",
        operators=OPERATORS,
    )


@pytest.fixture
def config(mongo_uri: str, database: str, redis_url: str) -> Config:
    """Of the test's servers, with keys for secrets."""
    return config_of(mongo_uri, database, redis_url)


@pytest.fixture
def stores(config: Config) -> Iterator[Collections]:
    with collections_of(config) as opened:
        yield opened


@pytest.fixture
def ours(config: Config, stores: Collections) -> Services:
    """The services of all accounts, as people and programs change them."""
    return Services(config, stores)


@pytest.fixture
def database(indexed: str) -> str:
    return indexed
