"""Connections of clients that may be slow, many, or speak no HTTP.

What aiohttp.web has no bound for: the time that a request's line and headers may take, and the
number of connections. What it words itself is worded here as a problem.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from service.api.problems import PROBLEM, Problem
from service.observe.log import emit_unexpected

HEADER_SECONDS = 10.0
"""From the first byte of a request to the end of its headers."""

IDLE_SECONDS = 75.0
"""Without any request: longer than the 60 s for which nginx keeps a connection, so that it ends it
and no request crosses its end."""


class Connections:
    """How many there are, and how many there may be."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.open = 0


class ClientConnection(RequestHandler):
    """One connection, for `loop.create_server`; made by `factory`."""

    __slots__ = ("_all", "_refused", "_slow")

    def __init__(self, server: web.Server, connections: Connections, **options: Any) -> None:
        super().__init__(server, **options)
        self._all = connections
        self._refused = False
        self._slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, or refuse; asyncio calls it."""
        self._all.open += 1
        if self._all.open > self._all.most and isinstance(transport, asyncio.Transport):
            self._refused = True
            transport.write(_FULL)
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
            self._slow = self._loop.call_later(HEADER_SECONDS, self.force_close)

    def handle_error(
        self,
        request: web.BaseRequest,  # noqa: ARG002 - aiohttp's
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - aiohttp's
    ) -> web.StreamResponse:
        """Answer what is no HTTP, and end the connection."""
        self.close()
        if isinstance(exc, Problem):
            return exc.response()
        if isinstance(exc, Exception) and status == HTTPStatus.INTERNAL_SERVER_ERROR:
            emit_unexpected(exc)
        said = HTTPStatus(status)
        detail = "this is no HTTP request" if said is HTTPStatus.BAD_REQUEST else said.description
        return Problem(said, detail).response()

    def _in_time(self) -> None:
        if self._slow:
            self._slow.cancel()
            self._slow = None


async def refuse_expectations(request: web.Request) -> None:
    """Answer `Expect: 100-continue`, and refuse what else a client may expect."""
    if request.headers.get("Expect", "").lower() != "100-continue":
        why = "the header Expect may say 100-continue, and nothing else"
        raise Problem(HTTPStatus.EXPECTATION_FAILED, why)
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def _full() -> bytes:
    why = "there are as many connections as [http] connections allows"
    body = Problem(HTTPStatus.SERVICE_UNAVAILABLE, why).body()
    head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: {PROBLEM}\r\nRetry-After: 1\r\n"
    return f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


_FULL = _full()
