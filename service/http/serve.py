"""The HTTP server: its life until a signal, and connections of clients that may be slow or many.

What aiohttp.web has no bound for is bounded here: the time that a request's line and headers may
take, and the number of connections. What it words itself is worded here as a problem.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage, HttpProcessingError, LineTooLong
from aiohttp.typedefs import Handler
from aiohttp.web_protocol import RequestHandler

from service.config.address import host_and_port, is_loopback
from service.config.machine import calm_the_collector, give_large_blocks_back
from service.config.schema import Config
from service.http.application import application, mount, to_docs
from service.http.backend.bodies import Bodies
from service.http.backend.door import Door, open_door, open_relays_door
from service.http.backend.keyring import Keyring
from service.http.backend.operations import Operations, open_operations
from service.http.backend.parcel_room import ParcelRoom
from service.http.callers import Callers
from service.http.exchange import MISSING, Problem, Route, finish, is_last, name_of
from service.http.heads import Heads
from service.http.ingest import RELAYS, Relays
from service.observe.background import Background
from service.observe.events import Event
from service.observe.log import emit, emit_unexpected
from service.operator.catalogue import Catalogue
from service.worker.deliveries.foreign_request import HEAD_MOST
from tracking.errors import ResultsDown

STOP_SECONDS = 15.0
"""How long requests that run may still take after SIGTERM: longer than a server is waited for."""


class NoKey(Exception):
    """Other machines may reach the address, and no key tells who may ask."""


class Backing(NamedTuple):
    """What the routes of `api` stand on, for the pages beside them."""

    config: Config
    door: Door
    catalogue: Catalogue
    operations: Operations


class Opened(NamedTuple):
    """Pages that are open: their routes, and what shows that there is nothing at a path."""

    routes: Sequence[Route]
    missing: Handler | None = None


Pages = Callable[[Backing], contextlib.AbstractAsyncContextManager[Opened]]
"""Opens the pages."""


def serve(
    config: Config, listen: str, beside: Path, *, door_alone: bool, pages: Pages | None = None
) -> bool:
    """Serve at `listen` until SIGTERM or SIGINT; the files of `[ingest]` lie `beside` it.

    False: it stopped by itself, as a task in the background kept ending. `door_alone`: nothing but
    the door, which asks no Redis. Raises OSError where nobody can listen there, NoKey, and
    ResultsDown where nobody knows whether there is a key.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a connection for each reply held
    return asyncio.run(until_stopped(config, listen, beside, door_alone=door_alone, pages=pages))


async def until_stopped(
    config: Config, listen: str, beside: Path, *, door_alone: bool, pages: Pages | None = None
) -> bool:
    """Do it, in the event loop that runs."""
    stopped, background, operations = _on_signals(), Background(), None
    async with contextlib.AsyncExitStack() as closing:
        keyring = Keyring(config, beside / config.ingest.keys)
        closing.push_async_callback(keyring.close)
        if not is_loopback(listen):
            await _insist_on_a_key(keyring)
        if not door_alone:
            asking = open_operations(config, background.beside)
            operations = await closing.enter_async_context(asking)
        noting = operations.note_put if operations else None
        door = open_door(config, beside / config.ingest.spool, noting)
        closing.push_async_callback(door.close)
        always = config.http.require_key or not is_loopback(listen)
        callers = Callers(keyring, config.http.per_second, always=always)
        door.insist, catalogue = ParcelRoom(keyring).insist, Catalogue(config)
        made = application(door, catalogue, callers, config.http, operations)
        if operations:
            shown = (pages or _no_pages)(Backing(config, door, catalogue, operations))
            _show(made, await closing.enter_async_context(shown))
        runner = web.AppRunner(made, access_log=None, shutdown_timeout=STOP_SECONDS)
        if door_alone:
            opening = relaying(config, keyring, beside, background)
            made[RELAYS] = await closing.enter_async_context(opening)
        await runner.setup()
        closing.push_async_callback(runner.cleanup)
        server = await listening(runner, listen, config.http.connections)
        closing.callback(server.close)
        await closing.enter_async_context(background.beside("spool", door.empty_spool))
        await closing.enter_async_context(background.beside("keys", keyring.keep_fresh))
        health = await door.health()
        calm_the_collector()
        give_large_blocks_back()
        emit(Event.DOOR_OPEN, server=listen, spooled=health.spooled)
        await _either(stopped, background.unfit)
    emit(Event.DOOR_CLOSED, server=listen)
    return not background.unfit.is_set()


@contextlib.asynccontextmanager
async def relaying(
    config: Config, keyring: Keyring, beside: Path, background: Background
) -> AsyncIterator[Relays]:
    """Open what takes foreign requests, with a door of its own, for the `with` block."""
    door, bodies = open_relays_door(config, beside), Bodies((beside / config.ingest.spool).parent)
    try:
        await door.health()  # so that it knows how large a job the servers take
        async with background.beside("relays", door.empty_spool):
            yield Relays(config, keyring, door, bodies)
    finally:
        bodies.close()
        await door.close()


def _show(made: web.Application, pages: Opened) -> None:
    """Add pages to the application."""
    mount(made, pages.routes)
    if pages.missing:
        made[MISSING] = pages.missing


@contextlib.asynccontextmanager
async def _no_pages(_: Backing) -> AsyncIterator[Opened]:
    yield Opened([Route("GET", "/", to_docs, None)])


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
    kind = ClientConnection
    server = runner.server
    assert server is not None  # noqa: S101 - it is set up
    if relays := runner.app.get(RELAYS):
        relays.stand_before(server)
        kind = SenderConnection
    host, port = host_and_port(listen)
    return await loop.create_server(
        lambda: kind(
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


HEADER_SECONDS = 10.0
"""From the first byte of a request to the end of its headers."""

IDLE_SECONDS = 75.0
"""Without any request: longer than the 60 s for which nginx keeps a connection, so that it ends it
and no request crosses its end."""

LINE_MOST = 8_190
"""Bytes of a path with its query."""

FIELD_MOST = 8_192
"""Bytes of a header: not as many as LINE_MOST, for the parser tells the two by their bounds."""

HEADERS_MOST = 128

READ_BYTES = 16 * 1024
"""Bytes that are read at once: asyncio reads all clients who send before it serves any of them, and
256 KiB of each, its own measure, were 250 MiB of a thousand."""


class Connections:
    """The connections: how many there are, and how many there may be."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.open = 0


class ClientConnection(RequestHandler):
    """One connection, for `loop.create_server`; made by `factory`."""

    __slots__ = ("_all", "_refused", "_slow")

    def __init__(self, server: web.Server, connections: Connections, **options: Any) -> None:
        super().__init__(
            server,
            max_line_size=LINE_MOST,
            max_field_size=FIELD_MOST,
            max_headers=HEADERS_MOST,
            **options,
        )
        self._all = connections
        self._refused = False
        self._slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, or refuse; asyncio calls it."""
        self._all.open += 1
        transport.max_size = READ_BYTES  # type: ignore[attr-defined] # of asyncio's own ones
        if self._all.open > self._all.most and isinstance(transport, asyncio.Transport):
            self._refused = True
            transport.write(_full())
            transport.close()
        else:
            super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End; asyncio calls it."""
        self._all.open -= 1
        self._in_time()
        if not self._refused:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read; asyncio calls it."""
        if self._refused:
            return
        begun = self._request_count
        super().data_received(data)
        if self._request_count != begun:
            self._in_time()
        elif self._slow is None and self._current_request is None:
            self._slow = self._loop.call_later(HEADER_SECONDS, self._too_late)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Answer, and end the connection behind some requests; aiohttp calls it."""
        if is_last(request):
            resp.force_close()
        return await super().finish_response(request, resp, start_time)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - aiohttp's
    ) -> web.StreamResponse:
        """Answer what is no HTTP, and end the connection."""
        self.close()
        if isinstance(exc, Exception) and not isinstance(exc, Problem | HttpProcessingError):
            emit_unexpected(exc)
        response = (
            exc if isinstance(exc, Problem) else _problem(HTTPStatus(status), exc)
        ).response()
        finish(response, name_of(request))
        return response

    def _too_late(self) -> None:
        self._slow = None
        # Of a request whose headers are here, its body came before somebody took it up.
        if self._current_request is None and not self._messages:
            self.force_close()

    def _in_time(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None


class SenderConnection(ClientConnection):
    """A connection of who may send to a relay: of its requests nothing is refused that HTTP has."""

    __slots__ = ()

    def __init__(self, server: web.Server, connections: Connections, **options: Any) -> None:
        super().__init__(server, connections, **options)
        self._parser = Heads(
            self,
            loop=self._loop,
            limit=self._read_bufsize,
            max_line_size=LINE_MOST,
            max_field_size=FIELD_MOST,
            max_headers=HEADERS_MOST,
            max_msg_queue_size=self._max_msg_queue_size,
        )

    def log_exception(self, *about: Any, exc_info: BaseException, **more: Any) -> None:
        """Log a defect; aiohttp also calls it for a body that is no HTTP, which was answered."""
        if not isinstance(exc_info, web.RequestPayloadError | HttpProcessingError):
            super().log_exception(*about, exc_info=exc_info, **more)


def _problem(status: HTTPStatus, error: BaseException | None) -> Problem:
    """Say what is wrong with what is no HTTP, or too much of it."""
    match error:
        case LineTooLong(args=(_, limit, *_)) if limit == LINE_MOST:
            why = f"the path and its query are too long: send {LINE_MOST} bytes at most"
            return Problem(HTTPStatus.REQUEST_URI_TOO_LONG, why)
        case LineTooLong(args=(_, limit, *_)) if limit == HEAD_MOST:
            why = f"line and headers have too many bytes: send {HEAD_MOST} at most"
            return Problem(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, why)
        case LineTooLong():
            why = f"a header is too long: send {FIELD_MOST} bytes at most"
            return Problem(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, why)
        case BadHttpMessage(message=str(text)) if text.startswith("Too many headers"):
            why = f"there are too many: send {HEADERS_MOST} headers at most"
            return Problem(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, why)
    if status is HTTPStatus.BAD_REQUEST:
        return Problem(status, "this is no HTTP request")
    return Problem(status, status.description)


def _full() -> bytes:
    """Write an answer without aiohttp, which does not hear of this connection."""
    why = "there are as many connections as [http] connections allows"
    problem = Problem(HTTPStatus.SERVICE_UNAVAILABLE, why, {"Retry-After": "1"}).response()
    finish(problem, name_of(None))
    assert isinstance(problem.body, bytes)  # noqa: S101 - it is JSON
    problem.headers.update({"Connection": "close", "Content-Length": f"{len(problem.body)}"})
    head = "".join(f"{name}: {value}\r\n" for name, value in problem.headers.items())
    return f"HTTP/1.1 503 Service Unavailable\r\n{head}\r\n".encode() + problem.body
