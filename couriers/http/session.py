"""The one HTTP session of a process: no byte of a tracking request leaves it without its permit.

Two public hooks of aiohttp carry it. A middleware, a new one for each request, hands the gate to
the request object; the session's `request_class` opens it with the connection in hand.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Coroutine
from typing import Any, ClassVar

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_middlewares import ClientHandlerType
from aiohttp.connector import Connection
from aiohttp.http import StreamWriter

from tracking.call import Permit
from tracking.errors import CourierDown, NotStarted
from tracking.network import network_reason

_TCP_INFO: int | None = getattr(socket, "TCP_INFO", None)
_LAST_DATA_RECEIVED = 52
"""Where tcpi_last_data_recv stands in Linux' struct tcp_info: 32 bits, in ms."""


def courier_down(host: str | None, broken: Exception) -> CourierDown:
    """Word a failure of the network; aiohttp's own text may hold the address, and that a key."""
    reason = network_reason(broken) or type(broken).__name__
    return CourierDown(f"{host} does not answer ({reason})")


class Gate:
    """Lets one HTTP request through, once, at the instant its permit names.

    aiohttp sends an idempotent request a second time by itself when a reused connection breaks.
    That would be an arrival nobody counted: the middleware turns the broken connection into
    CourierDown before aiohttp sees it, and `open` refuses a second passage whatever the reason.
    `opened_at`: when it let the request through, by `time.monotonic()`. `whole`: the body is the
    whole request, with its request line and its headers, and nothing of aiohttp's goes before it.
    """

    def __init__(self, permit: Permit, *, whole: bool = False) -> None:
        self._permit = permit
        self.whole = whole
        self.opened_at: float | None = None
        self._socket: socket.socket | None = None

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Serve as aiohttp's middleware. Raises CourierDown, NotStarted."""
        if not isinstance(request, GatedRequest):
            raise TypeError("the session must come from couriers.http.session.open_session")
        request.gate = self
        try:
            response = await handler(request)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as broken:
            raise courier_down(request.url.host, broken) from broken
        self._permit.answered(_silent_for(self._socket))
        return response

    async def open(self, connection: Connection) -> None:
        """Wait for the permitted instant. Raises NotStarted, and then no byte has left."""
        if self.opened_at is not None:
            raise CourierDown("the connection broke before an answer came")
        try:
            await self._permit.before_send()
        except NotStarted:
            # Nothing was written, so the next request may have the connection.
            connection.release()
            raise
        self.opened_at = time.monotonic()

    def stamp(self, connection: Connection, connected: socket.socket | None) -> None:
        """Report the send, if the operating system has taken every byte.

        Otherwise the true instant is still to come. It is then not reported at all: the permit
        counts as used at the last permitted instant, which is safe, while an early stamp is not.
        """
        transport, self._socket = connection.transport, connected
        if transport is None or not transport.get_write_buffer_size():
            self._permit.after_send()


class GatedRequest(aiohttp.ClientRequest):
    """A request that waits for its gate; one without a gate (a token's) goes straight out."""

    gate: Gate | None = None
    kept_below: ClassVar[int] = sys.maxsize
    """A connection whose descriptor is not below this is closed after the answer. Descriptors are
    given out from the lowest on, so this bounds how many files are open beside those of calls."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        """Write the request, gate first, stamp after. Called by aiohttp, connection in hand."""
        transport = conn.transport
        connected = transport.get_extra_info("socket") if transport else None
        if conn.protocol is not None and connected and connected.fileno() >= self.kept_below:
            conn.protocol.force_close()
        gate = self.gate
        if gate is None:
            return await super().send(conn)
        await gate.open(conn)
        response = await super().send(conn)
        # Before Python 3.12 a task of its own writes headers and body: `close` waits for it.
        await self.close()
        gate.stamp(conn, connected)
        return response

    def write_bytes(
        self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
    ) -> Coroutine[Any, Any, None]:
        """Write the body, and what `writer` holds of a head before it. Called by aiohttp."""
        if self.gate is not None and self.gate.whole and conn.protocol is not None:
            writer = StreamWriter(conn.protocol, self.loop)  # which holds no head
        return super().write_bytes(writer, conn, content_length)


def _silent_for(connected: socket.socket | None) -> float:
    """Seconds since the kernel took the last bytes, 0 where it does not say.

    A busy event loop reads an answer late, and that is not the courier's.
    """
    if connected is None or _TCP_INFO is None:
        return 0.0
    try:
        told = connected.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _LAST_DATA_RECEIVED + 4)
    except OSError:
        return 0.0  # closed with the answer
    return int.from_bytes(told[_LAST_DATA_RECEIVED:], sys.byteorder) / 1000


CONNECT_SECONDS = 10.0
KEEPALIVE_SECONDS = 30.0
"""Shorter than the minute after which many couriers' front ends drop an idle connection."""

DNS_CACHE_SECONDS = 60
USER_AGENT = "courier-tracking-worker"


def open_session(
    kept_below: int = sys.maxsize,
    *,
    keepalive_seconds: float = KEEPALIVE_SECONDS,
    decompresses: bool = True,
    **connecting: Any,
) -> aiohttp.ClientSession:
    """Open the session that every `Fetch` of this process uses; close it when the worker stops.

    Call it inside the running loop. No limit on connections: Redis decides how many calls run, and
    a second limit here would hold a granted call back unseen. Those whose descriptor is below
    `kept_below` are kept for a while after their answer: so few that calls find files to open.
    No cookies, no proxy or credentials from the environment. The deadline of a call is its
    permit's, so only connecting has a time-out of its own. `connecting`: further settings of its
    aiohttp.TCPConnector.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0,
            limit_per_host=0,
            keepalive_timeout=keepalive_seconds,
            ttl_dns_cache=DNS_CACHE_SECONDS,
            **connecting,
        ),
        auto_decompress=decompresses,
        request_class=type("Request", (GatedRequest,), {"kept_below": kept_below}),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        headers={"User-Agent": USER_AGENT, "Accept": "application/json"},
    )
