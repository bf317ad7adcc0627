"""Connections of clients that may be slow, many, or speak no HTTP.

What aiohttp.web has no bound for: the time that a request's line and headers may take, and the
number of connections. What it words itself is worded here as a problem.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage, HttpProcessingError, LineTooLong
from aiohttp.web_protocol import RequestHandler

from service.api.exchange import Problem, finish, name_of
from service.observe.log import emit_unexpected

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


class Connections:
    """How many there are, and how many there may be."""

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


async def refuse_expectations(request: web.Request) -> None:
    """Answer `Expect: 100-continue`, and refuse what else a client may expect."""
    if request.headers.get("Expect", "").lower() != "100-continue":
        why = "the header Expect may say 100-continue, and nothing else"
        raise Problem(HTTPStatus.EXPECTATION_FAILED, why)
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def _problem(status: HTTPStatus, error: BaseException | None) -> Problem:
    """Say what is wrong with what is no HTTP, or too much of it."""
    match error:
        case LineTooLong(args=(_, limit, *_)) if limit == LINE_MOST:
            why = f"the path and its query are too long: send {LINE_MOST} bytes at most"
            return Problem(HTTPStatus.REQUEST_URI_TOO_LONG, why)
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
