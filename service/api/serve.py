"""The HTTP server: its routes, and its life until a signal."""

from __future__ import annotations

import asyncio
import contextlib
import re
import resource
import signal
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType

from service.api.aftership.couriers import CourierRoutes
from service.api.aftership.envelope import PREFIX, Envelope
from service.api.aftership.trackings import TrackingRoutes
from service.api.callers import Callers
from service.api.connection import IDLE_SECONDS, ClientConnection, Connections, refuse_expectations
from service.api.dead import DeadRoutes
from service.api.events import EventRoutes
from service.api.exchange import (
    BODY_MOST,
    RETRY_SECONDS,
    About,
    Check,
    Problem,
    Route,
    answer,
    problems,
)
from service.api.figures import FigureRoutes
from service.api.lines import LineRoutes
from service.api.links import LinkRoutes
from service.api.openapi import with_document
from service.api.operations import OperationRoutes
from service.api.parcels import ParcelRoutes
from service.api.requests import Requests
from service.client.catalogue import Catalogue
from service.client.door import Door, open_door
from service.client.keyring import Keyring
from service.client.links import Links
from service.client.operations import Operations, open_operations
from service.client.shipments import Shipments
from service.config.address import host_and_port, is_loopback
from service.config.schema import Config, Http
from service.observe.background import Background
from service.observe.collector import calm_the_collector, give_large_blocks_back
from service.observe.events import Event
from service.observe.log import emit
from tracking.errors import ResultsDown

STOP_SECONDS = 15.0
"""How long requests that run may still take after SIGTERM: longer than a server is waited for."""

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})


_HOST = re.compile(r"[A-Za-z0-9._:%\[\]-]*")

DEFAULT = Http()


class NoKey(Exception):
    """Other machines may reach the address, and no key tells who may ask."""


def serve(config: Config, listen: str, beside: Path, *, door_alone: bool) -> bool:
    """Serve at `listen` until SIGTERM or SIGINT; the files of `[ingest]` lie `beside` it.

    False: it stopped by itself, as a task in the background kept ending. `door_alone`: nothing but
    the door, which asks no Redis. Raises OSError where nobody can listen there, NoKey, and
    ResultsDown where nobody knows whether there is a key.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a connection for each reply held
    return asyncio.run(until_stopped(config, listen, beside, door_alone=door_alone))


async def until_stopped(config: Config, listen: str, beside: Path, *, door_alone: bool) -> bool:
    """Do it, in the event loop that runs."""
    stopped, background = _on_signals(), Background()
    async with contextlib.AsyncExitStack() as closing:
        keyring = Keyring(config, beside / config.ingest.keys)
        closing.push_async_callback(keyring.close)
        if not is_loopback(listen):
            await _insist_on_a_key(keyring)
        operations = None
        if not door_alone:
            operations = await closing.enter_async_context(
                open_operations(config, background.beside)
            )
        note = operations.note_put if operations else None
        door = open_door(config, beside / config.ingest.spool, note)
        closing.push_async_callback(door.close)
        always = config.http.require_key or not is_loopback(listen)
        callers = Callers(keyring, config.http.per_second, always=always)
        made = application(door, Catalogue(config), callers, config.http, operations)
        runner = web.AppRunner(made, access_log=None, shutdown_timeout=STOP_SECONDS)
        await runner.setup()
        closing.push_async_callback(runner.cleanup)
        server = await listening(runner, listen, config.http.connections)
        closing.callback(server.close)
        await closing.enter_async_context(background.beside("spool", door.empty_spool))
        await closing.enter_async_context(background.beside("keys", keyring.keep_fresh))
        standing = await door.standing()
        calm_the_collector()
        give_large_blocks_back()
        emit(Event.DOOR_OPEN, server=listen, spooled=standing.spooled)
        await _either(stopped, background.unfit)
    emit(Event.DOOR_CLOSED, server=listen)
    return not background.unfit.is_set()


async def _either(*events: asyncio.Event) -> None:
    waiting = [asyncio.create_task(each.wait()) for each in events]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()


async def _insist_on_a_key(keyring: Keyring) -> None:
    try:
        await keyring.look()
    except ResultsDown:
        if not keyring.keys.known:
            raise
    if not keyring.keys.known:
        raise NoKey


async def listening(runner: web.AppRunner, listen: str, most: int) -> asyncio.Server:
    """Take connections for an application that is set up, `most` at once."""
    loop, connections = asyncio.get_running_loop(), Connections(most)
    server = runner.server
    assert server is not None  # noqa: S101 - it is set up
    host, port = host_and_port(listen)
    return await loop.create_server(
        lambda: ClientConnection(
            server,
            connections,
            loop=loop,
            access_log=None,
            keepalive_timeout=IDLE_SECONDS,
            auto_decompress=False,  # a body is refused where it is packed, and never unpacked
        ),
        host,
        port,
        backlog=min(most, 1_024),
    )


def application(
    door: Door,
    catalogue: Catalogue,
    callers: Callers,
    http: Http = DEFAULT,
    operations: Operations | None = None,
) -> web.Application:
    """Make the application, with all of its routes; without `operations` it is the door alone."""

    async def readiness(request: web.Request) -> web.Response:
        return await _ready(door, operations, known=callers.knows(request))

    envelope = Envelope(callers)
    elsewhere = {} if operations is None else {PREFIX: envelope.refused}
    figures = FigureRoutes(door, operations, catalogue, callers)
    answering = problems(_checking(http.hosts, callers), elsewhere, figures.note)
    made = web.Application(middlewares=[answering], client_max_size=BODY_MOST)
    routes = [
        *Requests(door, catalogue, callers).routes(),
        Route("GET", "/livez", _lives, _LIVENESS),
        Route("GET", "/readyz", readiness, _READINESS),
        *figures.routes(),
    ]
    if operations is not None:
        asked = OperationRoutes(operations, door, callers)
        routes += asked.routes() + ParcelRoutes(operations, asked, catalogue, door).routes()
        shipments = Shipments(operations.stored, door, catalogue)
        routes += TrackingRoutes(shipments, catalogue, callers, envelope).routes()
        routes += CourierRoutes(catalogue, callers, envelope).routes()
        routes += LineRoutes(operations.operators, catalogue, callers).routes()
        routes += DeadRoutes(operations.operators, catalogue, callers).routes()
        routes += EventRoutes(operations, asked).routes()
        links = Links(operations.stored, door, catalogue)
        routes += LinkRoutes(links, callers, http).routes()
        made.on_shutdown.append(asked.release)
    for method, path, handler, _ in with_document(routes):
        # Monitors and proxies ask by HEAD: the same answer, of which aiohttp sends the head.
        for verb in ("GET", "HEAD") if method == "GET" else (method,):
            made.router.add_route(verb, path, handler, expect_handler=refuse_expectations)
    return made


def _checking(hosts: tuple[str, ...], callers: Callers) -> Check:
    """Make what refuses a request whatever it asks for, and looks at its signature."""

    async def check(request: web.Request) -> None:
        coding = ",".join(request.headers.getall("Transfer-Encoding", ["chunked"]))
        if coding.strip().lower() != "chunked":  # the parser takes the last one alone for all
            why = "send the body chunked or whole, in no other coding"
            raise Problem(HTTPStatus.NOT_IMPLEMENTED, why)
        host = request.headers.get("Host", "")
        if not _HOST.fullmatch(host):  # addresses of links begin with it
            raise Problem(HTTPStatus.BAD_REQUEST, f"the header Host names no host: {host[:80]!r}")
        if hosts or not callers.need_keys:
            name = _name_of(host)
            if name not in (hosts or LOOPBACK):
                why = f"{name!r} is not served here: http.hosts lists the names that are"
                raise Problem(HTTPStatus.MISDIRECTED_REQUEST, why)
        # Without keys a page of anybody's in a browser here could post what needs no body.
        if callers.need_keys:
            await callers.check_signature(request)
            return
        origin = request.headers.get("Origin")
        if origin is not None and origin.partition("://")[2] != host:
            why = f"a page of {origin!r} asks: without a key no other origin is served"
            raise Problem(HTTPStatus.FORBIDDEN, why)
        if _of_another_page(request):
            why = "a page of another origin asks: without a key none is served"
            raise Problem(HTTPStatus.FORBIDDEN, why)

    return check


def _of_another_page(request: web.Request) -> bool:
    """Tell whether a page of another origin asks; for an image, say, browsers name no Origin.

    A link that somebody clicks is theirs to follow, but below /v1/ a GET may put a request.
    """
    if request.headers.get("Sec-Fetch-Site", "none") in {"none", "same-origin"}:
        return False
    clicked = request.headers.get("Sec-Fetch-Mode") == "navigate"
    return not clicked or request.path.startswith("/v1/")


def _name_of(host: str) -> str:
    """Take the port off a Host header."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower().rstrip(".")


class Liveness(msgspec.Struct):
    """That the process serves."""

    alive: bool


class Readiness(msgspec.Struct):
    """That a request which comes now would be taken; the rest for those who have a key."""

    ready: bool
    tubes: Annotated[str | UnsetType, Meta(description="why no beanstalkd takes requests")] = UNSET
    spool: Annotated[str | UnsetType, Meta(description="why the spool takes none")] = UNSET
    spooled: Annotated[int | UnsetType | None, Meta(description="requests in the spool")] = UNSET
    redis: Annotated[str | UnsetType, Meta(description="why no operation can be asked for")] = UNSET


_LIVENESS = About("Answer as long as the process serves.", None, {200: Liveness})
_READINESS = About("Tell whether a request that comes now would be taken.", None, {200: Readiness})


async def _lives(_: web.Request) -> web.Response:
    return answer(Liveness(alive=True))


async def _ready(door: Door, operations: Operations | None, *, known: bool) -> web.Response:
    """Tell whether a request that comes now would be taken; and how, where they are `known`.

    Without Redis it is ready all the same: no other `api` could answer more.
    """
    standing = await door.standing()
    said: dict[str, Any] = {}
    if known:
        said = {"tubes": standing.tubes, "spool": standing.spool, "spooled": standing.spooled}
        if operations is not None:
            said["redis"] = await operations.refusal()
    if standing.ready:
        return answer(Readiness(ready=True, **said))
    raise Problem(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "nothing durable can be reached",
        {"Retry-After": str(RETRY_SECONDS)},
        **said,
    )


def _on_signals() -> asyncio.Event:
    """The first signal stops in good order, another one at once."""
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()

    def stop() -> None:
        stopped.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    return stopped
