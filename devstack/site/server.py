"""The site's HTTP server: every request is stamped as its first byte arrives.

============================== ==================================================================
address                        is
============================== ==================================================================
/feed, /usps, /dpd-uk, …       the couriers: `devstack.site.found`
POST /hook/<name>              a receiver of webhooks: `devstack.site.shapes.hook`
GET /_calls?slug=              every request recorded since the last reset, oldest first
GET /_calls/summary            the judge's view per slug; `?per_second=` sets the rate of the shares
POST, GET /_control/<slug>     set or read how a courier behaves: `devstack.site.behaviour`
POST /_reset                   forget all requests, let every courier behave
============================== ==================================================================
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest

from devstack.judge import Call
from devstack.site.attention import Attention
from devstack.site.behaviour import Behaviour, Fault, Temper
from devstack.site.found import SHAPES
from devstack.site.ledger import FOLLOWED, Entry, Ledger
from devstack.site.play import play
from devstack.site.shapes.failures import SILENT, instead
from devstack.site.shapes.reply import Asked, Kind, Reply, encode

PER_SECOND = 2
CONTROLS = frozenset({"_calls", "_control", "_reset"})
NO_ADDRESS = Reply(FOLLOWED, "", 404, encode({"error": "this courier has no such address"}))


class Stamping(RequestHandler):
    """Notes when the first byte of each request arrives: that is what a courier's limit sees.

    `lost_ns` is when the caller hung up, None while it did not.
    """

    def __init__(self, manager: web.Server, attention: Attention, **settings: Any) -> None:
        super().__init__(manager, **settings)
        self._attention = attention
        self._arrived_ns: int | None = None
        self._late_ns = 0
        self.lost_ns: int | None = None

    def data_received(self, data: bytes) -> None:
        """Stamp before anything is parsed."""
        if self._arrived_ns is None:
            self._arrived_ns = time.monotonic_ns()
            self._late_ns = self._attention.late_ns(self._arrived_ns)
        super().data_received(data)

    def eof_received(self) -> None:
        """Stamp the caller's hanging up: its handler learns of it turns of the loop later.

        Meanwhile the next call may arrive that its end made room for.
        """
        self._stamp_loss()
        super().eof_received()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stamp a reset, which no eof announces."""
        self._stamp_loss()
        super().connection_lost(exc)

    def _stamp_loss(self) -> None:
        self.lost_ns = self.lost_ns or time.monotonic_ns()

    def take_arrival(self) -> tuple[int, int]:
        """Give the stamp of the request that was just read to its end, and how late it may be."""
        arrived_ns, self._arrived_ns = self._arrived_ns, None
        return arrived_ns or time.monotonic_ns(), self._late_ns


class StampingServer(web.Server):
    """Makes a stamping protocol for every connection."""

    def __init__(self, site: Site, attention: Attention) -> None:
        """`attention` is the selector of the loop that serves."""
        super().__init__(site.handle, handler_cancellation=True)
        self._attention = attention

    def __call__(self) -> RequestHandler:
        """Make the protocol of one connection."""
        loop = asyncio.get_running_loop()
        return Stamping(self, self._attention, loop=loop, access_log=None)


class Site:
    """All couriers, what they are to do, and what they saw."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self._tempers: dict[str, Temper] = defaultdict(lambda: Temper(Behaviour()))

    async def handle(self, request: BaseRequest) -> web.StreamResponse:
        """Answer one request, whatever it is for."""
        body = await request.read()
        protocol = request.protocol
        assert isinstance(protocol, Stamping)  # noqa: S101 - StampingServer makes no others
        arrived_ns, late_ns = protocol.take_arrival()
        parts = tuple(part for part in request.path.split("/") if part)
        if request.path.startswith("/_") and parts[0] in CONTROLS:
            return self._control(request, parts, body)
        asked = Asked(request.method, parts[1:], request.query, request.headers, body)
        reply = _reply(parts, asked)
        call = Call(reply.slug, reply.number, arrived_ns, late_ns=late_ns, riders=reply.riders)
        entry = self.ledger.begin(call, reply.kind, asked if reply.keeps else None)
        return await self._call(request, reply, entry, protocol)

    async def _call(
        self, request: BaseRequest, reply: Reply, entry: Entry, caller: Stamping
    ) -> web.StreamResponse:
        response = None
        try:
            temper = self._tempers[reply.slug]
            entry.fault = temper.fault(reply.kind, reply.numbers)
            if any(number.startswith(SILENT) for number in reply.numbers):
                entry.fault = Fault.HANG
            if reply.kind is Kind.CALL:
                await temper.hold_back()
            response = await play(request, temper.mixed_up(reply), entry.fault, temper.behaviour)
        finally:
            if response is None:
                entry.end(None, caller.lost_ns)
            else:
                entry.end(response.status)
        return response or web.Response()  # for a lost connection it does not matter which

    def _control(
        self, request: BaseRequest, parts: tuple[str, ...], body: bytes
    ) -> web.StreamResponse:
        match request.method, parts:
            case "GET", ("_calls",):
                slug = request.query.get("slug")
                return _json(
                    [entry.plain(whole=slug is not None) for entry in self.ledger.of(slug)]
                )
            case "GET", ("_calls", "summary"):
                per_second = int(request.query.get("per_second", PER_SECOND))
                return _json(self.ledger.summary(per_second))
            case "POST", ("_reset",):
                self.ledger.entries.clear()
                for temper in self._tempers.values():
                    temper.replaced.set()
                self._tempers.clear()
                return _json({})
            case "GET" | "POST", ("_control", slug):
                return self._behave(request.method, slug, body)
        return _json({"error": "no such control"}, 404)

    def _behave(self, method: str, slug: str, body: bytes) -> web.Response:
        if method == "POST":
            try:
                behaviour = msgspec.json.decode(body, type=Behaviour)
            except msgspec.DecodeError as error:
                return _json({"error": str(error)}, 400)
            self._tempers[slug].replaced.set()
            self._tempers[slug] = Temper(behaviour)
        return _json(msgspec.to_builtins(self._tempers[slug].behaviour))


def _reply(parts: tuple[str, ...], asked: Asked) -> Reply:
    shape = SHAPES.get(parts[0]) if parts else None
    reply = (shape.read(asked) if shape else None) or NO_ADDRESS
    return instead(reply, getattr(shape, "FAILURES", {}))


def _json(value: object, status: int = 200) -> web.Response:
    body = msgspec.json.encode(value)
    return web.Response(status=status, body=body, content_type="application/json")
