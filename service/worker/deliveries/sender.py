"""The sender: makes one attempt of a delivery over HTTP, through the permit of its call.

An account chose the destination, so nothing of the answer is trusted. What no receiver can do:

=================================== ================================================================
a receiver that                     meets
=================================== ================================================================
has a name that leads inside        `Guard`, which makes each socket (destination.py)
redirects                           nobody: the redirect is the answer, and a failure
answers with a gzip bomb            nobody: nothing is unpacked
answers without end                 an end after BODY_MOST bytes, and a closed connection
answers a byte at a time            the time-out, which is over the whole attempt
sends headers without end           aiohttp's bounds: 8 KiB a line, 128 lines
sends cookies                       nobody: none are kept
has a slow name server              threads of deliveries alone: couriers' names are found by others
is this service, through a proxy    `CDN-Loop` (RFC 8586): what came through here twice goes nowhere
=================================== ================================================================

Certificates are always verified, and no proxy is taken from the environment.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import io
import socket
import ssl
import sys
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from couriers.http.session import USER_AGENT, Gate, open_session
from service.worker.deliveries.attempt import Ending, Failure, ending_of
from service.worker.deliveries.destination import (
    Allowed,
    BadDestination,
    Forbidden,
    Guard,
    is_header,
    parse_destination,
)
from service.worker.deliveries.foreign_request import ForeignRequest
from service.worker.deliveries.relayed import head_of
from service.worker.deliveries.service import Service
from tracking.call import Permit
from tracking.errors import CourierDown, NotStarted
from tracking.network import causes
from tracking.request import Account

BODY_MOST = 16 * 1024
"""Bytes of an answer that are read, and kept for the account to see."""

HEADERS_KEPT = 50
HEADER_KEPT = 300
"""Headers of an answer that are kept, and characters of each."""

KEEPALIVE_SECONDS = 1.5
"""Shorter than the 2 s after which the hastiest of common servers close an idle connection: what is
sent into a connection that closes fails, and is one attempt less."""

URLS_MOST = 10_000
"""Destinations that are kept parsed: some MB."""

NAMES_AT_ONCE = 8
"""Names that are found at once; each may take 10 s where a name server hangs."""

CDN_LOOP = "cdn-loop"

_OVER_HERE = 1
"""How often a delivery may have come through here before: the request that a relay delivers has."""

_PLAIN = {"Content-Type": "application/json", "Accept": "*/*", "Accept-Encoding": "identity"}

AllowedOf = Callable[[Account], Allowed]
Addresses = Callable[..., list[Any]]


@dataclass(frozen=True, slots=True)
class Sent:
    """An attempt that was made: how it ended, in how many ms, and what the receiver answered.

    `headers` by names in lower case; `body` is its beginning. `at`: when it began.
    """

    ending: Ending
    ms: int
    at: dt.datetime
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Sender:
    """Sends the deliveries of a process; close it when the process stops.

    Accounts that are allowed the same share connections, and others do not: the socket of a
    connection was judged by what is allowed to the account.
    """

    def __init__(
        self,
        allowed_of: AllowedOf,
        own: Collection[str] = (),
        kept_below: int = sys.maxsize,
        *,
        addresses: Addresses = socket.getaddrinfo,
        tls: ssl.SSLContext | Literal[True] = True,
    ) -> None:
        """`own`: as of `own_names_of`; `kept_below`: as for `open_session`.

        `tls`: True verifies certificates by those that the system trusts.
        """
        self._allowed_of = allowed_of
        self._parsed = functools.lru_cache(URLS_MOST)(functools.partial(parse_destination, own=own))
        self._kept_below = kept_below
        self._resolver = Resolver(addresses)
        self._tls = tls
        self._sessions: dict[Allowed, aiohttp.ClientSession] = {}

    async def send(
        self,
        service: Service,
        headers: Mapping[str, str],
        body: bytes,
        permit: Permit,
        foreign: ForeignRequest | None = None,
    ) -> Sent:
        """POST `body` to the service's destination, with `headers` over those of the service.

        Of a `foreign` request all goes as it came, and `headers` behind it (relayed.py). Raises
        NotStarted where the permit could not be used: nothing was sent. Whatever a receiver or the
        network does is a Sent.
        """
        began, at = time.monotonic(), dt.datetime.now(dt.UTC)
        seconds = min(service.timeout_seconds, permit.deadline - began)
        if seconds <= 0:
            raise NotStarted("the delivery's call came too late")
        allowed = self._allowed_of(service.account)
        try:
            url = self._parsed(service.destination, allowed)
            request: Mapping[str, Any]
            if foreign is None:
                request = {"method": "POST", "headers": headers_of(service, headers), "data": body}
            else:
                request = _as_it_came(foreign, url, service, headers)
        except BadDestination:
            return Sent(Ending(Failure.FORBIDDEN_ADDRESS), 0, at)
        gate, answer = Gate(permit, whole=foreign is not None), _Answer()
        try:
            async with asyncio.timeout(seconds):
                await answer.read(self._ask(allowed, url, gate, request))
        except (CourierDown, aiohttp.ClientError, OSError, ValueError) as broken:
            answer.failure = _failure_of(broken)  # the error would keep all of the attempt
        finally:
            answer.close()
        ms = round((time.monotonic() - (gate.opened_at or began)) * 1_000)
        return Sent(answer.ending, ms, at, answer.headers, bytes(answer.body))

    async def _ask(
        self, allowed: Allowed, url: URL, gate: Gate, request: Mapping[str, Any]
    ) -> aiohttp.ClientResponse:
        http = self._session(allowed)
        return await http.request(url=url, allow_redirects=False, middlewares=(gate,), **request)

    def _session(self, allowed: Allowed) -> aiohttp.ClientSession:
        if (found := self._sessions.get(allowed)) is None:
            found = self._sessions[allowed] = open_session(
                self._kept_below,
                keepalive_seconds=KEEPALIVE_SECONDS,
                decompresses=False,
                resolver=self._resolver,
                socket_factory=Guard(allowed),
                ssl=self._tls,
            )
        return found

    async def close(self) -> None:
        """Close all connections."""
        for each in self._sessions.values():
            await each.close()
        self._sessions.clear()
        await self._resolver.close()


class _Answer:
    """What has arrived of an answer, and why none came."""

    def __init__(self) -> None:
        self.body = bytearray()
        self.failure = Failure.CONNECTION
        self._response: aiohttp.ClientResponse | None = None

    async def read(self, asking: Any) -> None:
        """Await the answer and read its beginning."""
        self._response = await asking
        async for chunk in self._response.content.iter_chunked(BODY_MOST):
            self.body += chunk
            if len(self.body) >= BODY_MOST:
                del self.body[BODY_MOST:]
                return

    def close(self) -> None:
        """Give the connection back after an answer that was read to its end; else close it."""
        if self._response is not None:
            self._response.close()

    @property
    def headers(self) -> Mapping[str, str]:
        """What is kept of its headers."""
        return {
            name: value[:HEADER_KEPT] for name, value in list(self._all().items())[:HEADERS_KEPT]
        }

    @property
    def ending(self) -> Ending:
        """How the attempt ended: by the status line, where one came."""
        if self._response is not None:
            return ending_of(self._response.status, self._all())
        return Ending(self.failure)

    def _all(self) -> dict[str, str]:
        if self._response is None:
            return {}
        return {name.lower(): value for name, value in self._response.headers.items()}


def _as_it_came(
    foreign: ForeignRequest, url: URL, service: Service, headers: Mapping[str, str]
) -> Mapping[str, Any]:
    """Write a foreign request, for aiohttp a body: whole, and of any size as a file.

    aiohttp only learns whether an answer has a body: one to HEAD has none.
    """
    loop = {CDN_LOOP: ", ".join(foreign.values(CDN_LOOP))}
    head = head_of(foreign, url, headers_of(service, {**headers, **loop}, plain={}))
    method = "HEAD" if foreign.method == "HEAD" else "POST"
    return {"method": method, "data": io.BytesIO(head + foreign.body)}


def headers_of(
    service: Service, headers: Mapping[str, str], plain: Mapping[str, str] = _PLAIN
) -> dict[str, str]:
    """Write the headers of an attempt: the account's own, then ours in their place.

    `plain`: ours where `headers` says nothing else. Raises BadDestination for what came through
    here too often.
    """
    added = {
        name: value for name, value in (service.headers or {}).items() if is_header(name, value)
    }
    ours = {name.lower(): value for name, value in headers.items()}
    before = ours.pop(CDN_LOOP, "")
    if passages(before) > _OVER_HERE:
        raise BadDestination("it came through here before: its destination leads back to us")
    ours[CDN_LOOP] = f"{before}, {USER_AGENT}" if before else USER_AGENT
    plain = {name: value for name, value in plain.items() if name.lower() not in ours}
    return added | plain | ours


def passages(loop: str) -> int:
    """Count in a CDN-Loop header how often a request came through here."""
    names = (each.partition(";")[0].strip().lower() for each in loop.split(","))
    return sum(name == USER_AGENT for name in names)


def _failure_of(broken: BaseException) -> Failure:
    """Name what broke an attempt before its status line came."""
    for each in causes(broken):
        match each:
            case Forbidden() | aiohttp.InvalidURL():
                return Failure.FORBIDDEN_ADDRESS
            case ssl.SSLError():
                return Failure.TLS
            case TimeoutError():
                return Failure.TIMEOUT
            case aiohttp.ClientResponseError():
                return Failure.NOT_HTTP
    return Failure.CONNECTION


class Resolver(AbstractResolver):
    """Finds the addresses of names, in threads of its own: a name server may let us wait."""

    def __init__(self, addresses: Addresses = socket.getaddrinfo) -> None:
        self._addresses = addresses
        self._threads = ThreadPoolExecutor(NAMES_AT_ONCE, "names of destinations")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Look a name up, as aiohttp wants it. Raises OSError."""

        def finding() -> list[Any]:
            return self._addresses(host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)

        found = await asyncio.get_running_loop().run_in_executor(self._threads, finding)
        return [
            ResolveResult(
                hostname=host,
                host=_with_zone(address),
                port=port,
                family=of,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for of, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        """Start no more searches; those under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _with_zone(address: tuple[Any, ...]) -> str:
    """Write an address with its zone, without which a link-local one leads nowhere."""
    match address:
        case (str(host), _, _, int(zone)) if zone:
            return f"{host}%{zone}"
    return str(address[0])
