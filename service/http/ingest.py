"""Foreign requests: what other systems send to relays, saved at once and answered when durable.

A request comes in under an ingest label: at a host below `[ingest] domain`, or below the path
`/in/`. A label that nobody was given is 404 before anything of the body is read, and leaves no
trace but a count. All else is in front of the routes, which such a host never reaches.

======= ============================================================================================
status  of a request under a genuine label
======= ============================================================================================
202     it is durable (or the status that its service wants); 200: a handshake (handshakes.py)
4xx     nobody could deliver it: its form, its size; or its service's rate is used up (429)
503     nothing takes it now; where that is sure only after the body came, standard output has it
======= ============================================================================================
"""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import math
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from http.client import responses
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
from aiohttp import HttpVersion11, StreamReader, web
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http_exceptions import HttpProcessingError

from service.config.schema import Config
from service.http.backend.bodies import Bodies, Body, TooLarge
from service.http.backend.door import Door, TooSlow
from service.http.backend.keyring import Keyring
from service.http.callers import Allowance
from service.http.exchange import (
    ALWAYS,
    JSON,
    Problem,
    come_later,
    finish,
    insist_on_host,
    insist_on_plain_coding,
    is_last,
    name_in,
    name_of,
)
from service.http.handshakes import answer_of
from service.http.reading import BODY_SECONDS
from service.observe.counts import Key
from service.observe.log import emit_unexpected
from service.observe.metrics import RELAYED, RELAYED_SPOOLED, RELAYED_WAITING
from service.worker.deliveries.foreign_request import (
    BODY_MOST,
    END_AT_A_HOP,
    HEAD_MOST,
    METHOD_MOST,
    ForeignRequest,
    encode_foreign,
    head_bytes,
    is_target,
    new_request_ids,
)
from service.worker.deliveries.ingest_label import PATH, IngestLabel, is_genuine, parse_label
from service.worker.deliveries.service import NO_INGEST, Ingest
from tracking.errors import StoreError

BODY_TEXT_MOST = 1_024
"""Bytes of an answer."""

_TEXT = "text/plain"
_SANDBOX = {
    kind: {"Content-Security-Policy": "sandbox", "Content-Type": kind} for kind in (_TEXT, JSON)
}
_BODILESS = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.RESET_CONTENT})
_END = re.compile(r"[/?#]")
_DROPPED = frozenset(each.encode() for each in (*END_AT_A_HOP, "host"))
_METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
_NO_METHODS = frozenset({"CONNECT", "TRACE"})

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Addressed(NamedTuple):
    """Where a request goes: the text in the place of a label, and the target behind it.

    `on_own_host`: at a host that serves the API or pages.
    """

    label: str
    target: str
    on_own_host: bool = False


class _Rate(NamedTuple):
    """What is left of a service's rates, by these settings."""

    ingest: Ingest
    requests: Allowance
    bytes: Allowance


class _Sent(NamedTuple):
    """A request with its name for the log, and what is known of it before its body is."""

    request: web.BaseRequest
    name: str
    label: IngestLabel
    target: str
    rate: _Rate


class Relays:
    """Takes foreign requests, for one event loop; hands all others to `others`."""

    def __init__(self, config: Config, keyring: Keyring, door: Door, bodies: Bodies) -> None:
        public = urlsplit(config.http.public_url).hostname
        self.others: Handle = _nobody
        self._own = frozenset(config.http.hosts) | ({public} if public else set())
        self._below = f".{config.ingest.domain}" if config.ingest.domain else None
        self._keyring = keyring
        self._door = door
        self.bodies = bodies
        self._rates: dict[str, _Rate] = {}
        self._genuine_labels: dict[tuple[bytes, str], IngestLabel] = {}
        """No more than were made: of all others nothing is kept."""
        self._outcomes: Counter[str] = Counter()
        self._ids = new_request_ids()

    def stand_before(self, server: web.Server) -> None:
        """Take what a server reads, and hand on to its own handler what is not ours."""
        self.others, server.request_handler = server.request_handler, self.answer

    async def refusal(self) -> str:
        """Say why no foreign request would be taken now; "" where no relay was ever made."""
        if not self._keyring.keys.ingest_key:
            return ""
        health = await self._door.health()
        return "" if health.ready else health.small or f"{health.tubes}; {health.spool}"

    async def figures(self) -> dict[Key, float]:
        """Measure what was taken, and what waits."""
        health = await self._door.health()
        figures: dict[Key, float] = {(RELAYED_WAITING.name,): self._door.waiting.bytes}
        if health.spooled is not None:
            figures[RELAYED_SPOOLED.name,] = health.spooled
        return figures | {(RELAYED.name, name): n for name, n in self._outcomes.items()}

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer any request."""
        addressed = self._addressed(request)
        if addressed is None:
            return await self.others(request)
        name = name_of(request)
        try:
            return await self._answer(request, addressed, name)
        except Problem as problem:
            self._outcomes[_outcome_of(problem.status)] += 1
            response = _told(problem)
        except ConnectionError:
            raise  # the sender is gone
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are served on
            self._outcomes["unavailable"] += 1
            emit_unexpected(error, request=name)
            response = _told(Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "this is a defect"))
        finish(response, name)
        return response

    def _addressed(self, request: web.BaseRequest) -> Addressed | None:
        """Find the label under which a request comes, None for those of the routes."""
        host, path = name_in(request.headers.get("Host", "")), request.raw_path
        own = host in self._own
        if self._below and not own and host.endswith(self._below):
            return Addressed(host.removesuffix(self._below), path)
        if not path.startswith(PATH):
            return None
        end = _END.search(path, len(PATH))
        at = len(path) if end is None else end.start()
        slash = "" if path.startswith("/", at) else "/"
        return Addressed(path[len(PATH) : at], slash + path[at:], on_own_host=own)

    async def _answer(
        self, request: web.BaseRequest, addressed: Addressed, name: str
    ) -> web.StreamResponse:
        """Save a request, and answer it. Raises Problem."""
        if addressed.on_own_host:
            why = "this host serves other things: send to one that [http] does not name"
            raise Problem(HTTPStatus.MISDIRECTED_REQUEST, why)
        label = self._genuine(addressed.label)
        _insist_on_form(request, addressed.target)
        rate = self._rate_of(str(label))
        _use(rate.requests, 1, "requests")
        sent = _Sent(request, name, label, addressed.target, rate)
        size = request.content_length
        if size is not None:
            _insist_on_size(size)
            _use(rate.bytes, size, "bytes")
        try:
            self._door.insist_on_pace()
            if request.headers.get("Expect", "").lower() == "100-continue":
                await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            content, at_once = request.content, size is not None and size <= self.bodies.room
            if at_once and content.is_eof() and content.exception() is None:
                whole = content.read_nowait()
                return await self._take(sent, len(whole), lambda: whole)
            with Body(self.bodies) as body:
                await _read(content, body)
                return await self._take(sent, body.size, body.whole)
        except StoreError as error:
            slow = "more comes than becomes durable in time" if isinstance(error, TooSlow) else ""
            raise come_later(slow or "nothing durable can be reached") from error

    def _genuine(self, text: str) -> IngestLabel:
        """Read a label. Raises Problem: it was never made, or nobody here knows yet."""
        key = self._keyring.keys.ingest_key
        if (found := self._genuine_labels.get((key, text.lower()))) is not None:
            return found
        label = parse_label(text)
        if label is not None and not key:
            raise come_later("this door does not know yet which labels were made")
        if label is None or not is_genuine(label, key):
            raise Problem(HTTPStatus.NOT_FOUND, "there is nothing at this address")
        self._genuine_labels[key, text.lower()] = label
        return label

    def _rate_of(self, label: str) -> _Rate:
        ingest = self._keyring.keys.ingests.get(label, NO_INGEST)
        found = self._rates.get(label)
        if found is None or found.ingest != ingest:
            now = time.monotonic()
            found = self._rates[label] = _Rate(
                ingest,
                Allowance(ingest.per_second, now),
                Allowance(ingest.bytes_per_second, now),
            )
        return found

    async def _take(self, sent: _Sent, size: int, whole: Callable[[], bytes]) -> web.StreamResponse:
        """Save a request of which all is here, and answer it; `whole` gives its body in its turn.

        Raises Problem, StoreError.
        """
        if sent.request.content_length is None:
            _insist_on_size(size)
            _use(sent.rate.bytes, size, "bytes")
        await self.bodies.wait_for(size)
        try:
            foreign = self._foreign(sent, whole())
            return _said(sent, *await self._save(sent.rate.ingest, foreign))
        finally:
            self.bodies.leave(size)

    def _foreign(self, sent: _Sent, body: bytes) -> ForeignRequest:
        request = sent.request
        # The proxy in front knows whether it was TLS; what it says is in the sender's address only.
        secure = request.headers.get("X-Forwarded-Proto", "https").lower() != "http"
        host, scheme = request.headers.get("Host", ""), "https" if secure else "http"
        return ForeignRequest(
            next(self._ids),
            sent.label,
            dt.datetime.now(dt.UTC),
            request.method,
            sent.target,
            f"{scheme}://{host}{request.raw_path}",
            tuple(_end_to_end(request.raw_headers)),
            body,
        )

    async def _save(self, ingest: Ingest, foreign: ForeignRequest) -> tuple[int, bytes]:
        """Make a request durable, unless it is a handshake; gives status and body of its answer.

        Raises Problem, StoreError.
        """
        if (said := answer_of(ingest, foreign)) is not None:
            self._outcomes["handshake"] += 1
            return HTTPStatus.OK, said
        job, most = encode_foreign(foreign), self._door.job_most()
        if most is not None and len(job) > most:
            raise Problem(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"head and body make {len(job)} bytes: {most} at most can be kept",
            )
        [spooled] = await self._door.take_jobs([job])
        self._outcomes["spooled" if spooled else "taken"] += 1
        return ingest.status, ingest.body.encode()[:BODY_TEXT_MOST]


RELAYS: Final = web.AppKey("RELAYS", Relays)
"""Under this the routes of readiness and of figures find what takes foreign requests."""


async def _nobody(_: web.BaseRequest) -> web.StreamResponse:
    raise Problem(HTTPStatus.NOT_FOUND, "there is nothing at this address")


def _insist_on_form(request: web.BaseRequest, target: str) -> None:
    """Raises Problem for what could not be delivered as it came."""
    if len(request.method) > METHOD_MOST:
        why = f"the method has {len(request.method)} characters: send {METHOD_MOST} at most"
        raise Problem(HTTPStatus.NOT_IMPLEMENTED, why)
    if request.method.upper() in _NO_METHODS:
        why = "this method is not relayed"
        raise Problem(HTTPStatus.METHOD_NOT_ALLOWED, why, {"Allow": _METHODS})
    if coded := "Transfer-Encoding" in request.headers:
        insist_on_plain_coding(request)
    if coded and request.version != HttpVersion11:
        why = "send HTTP/1.1, or HTTP/1.0 without Transfer-Encoding"
        raise Problem(HTTPStatus.BAD_REQUEST, why)
    insist_on_host(request)
    head = head_bytes(request.method, request.raw_path, request.raw_headers)
    if head > HEAD_MOST:
        why = f"line and headers have {head} bytes: send {HEAD_MOST} at most"
        raise Problem(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, why)
    if not is_target(target):
        why = "the path begins with / and has no segments of dots, the query no fragment"
        raise Problem(HTTPStatus.BAD_REQUEST, why)


def _insist_on_size(size: int) -> None:
    if size > BODY_MOST:
        why = f"the body is too large: send {BODY_MOST} bytes at most"
        raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)


def _use(allowance: Allowance, uses: int, of: str) -> None:
    """Raises Problem where so many are too many now."""
    if wait := allowance.wait(time.monotonic(), uses):
        why = f"more {of} a second than the service takes"
        raise Problem(HTTPStatus.TOO_MANY_REQUESTS, why, {"Retry-After": f"{math.ceil(wait)}"})


async def _read(content: StreamReader, body: Body) -> None:
    """Read a body. Raises Problem, SpoolDown."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while body.add(await content.readany()):  # nothing is named: it would be kept meanwhile
                pass
    except TooLarge:
        _insist_on_size(BODY_MOST + 1)
    except (ConnectionError, web.RequestPayloadError, HttpProcessingError) as error:
        raise Problem(HTTPStatus.BAD_REQUEST, "the body is not whole, or not HTTP") from error
    except TimeoutError as error:
        why = f"the body was not here within {BODY_SECONDS:g} s"
        raise Problem(HTTPStatus.REQUEST_TIMEOUT, why) from error


def _end_to_end(raw: tuple[tuple[bytes, bytes], ...]) -> Iterator[tuple[str, str]]:
    """List headers in order, without those that end here."""
    lower = [name.lower() for name, _ in raw]
    dropped = _DROPPED
    if b"connection" in lower:
        for name, (_, value) in zip(lower, raw, strict=True):
            if name == b"connection":
                dropped = dropped.union(each.strip().lower() for each in value.split(b","))
    for name, (own, value) in zip(lower, raw, strict=True):
        if name not in dropped:
            yield own.decode("latin-1"), value.decode("latin-1")


class _Written(web.StreamResponse):
    """An answer as it goes over the wire: what aiohttp does for each takes a tenth of a post."""

    keep_alive = True

    def __init__(self, written: bytes) -> None:
        super().__init__()
        self._written = written

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write all of it; aiohttp calls it."""
        await request.writer.write(self._written)
        await request.writer.drain()

    async def write_eof(self, data: bytes = b"") -> None:
        """Write nothing more; aiohttp calls it."""


def _said(sent: _Sent, status: int, said: bytes) -> web.StreamResponse:
    """Write an answer: JSON where it is some, else text, which no browser takes for a page."""
    (request, name, *_), kind = sent, _kind_of(said)
    last = not request.keep_alive or is_last(request)
    if last or request.version != HttpVersion11 or request.method == "HEAD" or status in _BODILESS:
        response = web.Response(status=status, body=said, headers=_SANDBOX[kind])
        finish(response, name)
        return response
    own = f"Content-Length: {len(said)}\r\nDate: {rfc822_formatted_time()}\r\nX-Request-Id: {name}"
    return _Written(f"{_head_of(status, kind)}{own}\r\n\r\n".encode() + said)


def _kind_of(said: bytes) -> str:
    if said[:1] in {b"{", b"["}:
        try:
            msgspec.json.decode(said)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _TEXT
        return JSON
    return _TEXT


@functools.cache
def _head_of(status: int, kind: str) -> str:
    """Write what is alike in the heads of answers."""
    lines = [f"{header}: {value}" for header, value in (_SANDBOX[kind] | ALWAYS).items()]
    return "\r\n".join([f"HTTP/1.1 {status} {responses.get(status, '')}", *lines, ""])


def _told(problem: Problem) -> web.Response:
    body = problem.body(linked=False)
    response = web.Response(status=problem.status, body=body, headers=_SANDBOX[JSON])
    response.headers.update(problem.headers or {})
    return response


def _outcome_of(status: HTTPStatus) -> str:
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "unavailable"
    known = {HTTPStatus.NOT_FOUND: "forged", HTTPStatus.TOO_MANY_REQUESTS: "limited"}
    return known.get(status, "refused")
