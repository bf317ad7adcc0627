"""The application: its routes, what each request must pass, its readiness and its figures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType

from service.config.schema import Http
from service.http.aftership.couriers import CourierRoutes
from service.http.aftership.envelope import PREFIX, Envelope
from service.http.aftership.trackings import TrackingRoutes
from service.http.backend.door import Door
from service.http.backend.figures import (
    figures_of_door,
    figures_of_lines,
    figures_of_plans,
    figures_of_violations,
    figures_of_webhooks,
)
from service.http.backend.links import Links
from service.http.backend.operations import Operations
from service.http.backend.shipments import Shipments
from service.http.callers import Callers
from service.http.couriers import CouriersRoutes
from service.http.dead import DeadRoutes
from service.http.deliveries import DeliveryRoutes
from service.http.events import EventRoutes
from service.http.exchange import (
    BODY_MOST,
    About,
    Check,
    Problem,
    Route,
    answer,
    come_later,
    insist_on_host,
    insist_on_plain_coding,
    name_in,
    problems,
)
from service.http.inbox import InboxRoutes
from service.http.ingest import RELAYS
from service.http.lines import LineRoutes
from service.http.links import LinkRoutes
from service.http.openapi import with_document
from service.http.operations import OperationRoutes
from service.http.parcels import ParcelRoutes
from service.http.quotas import QuotaRoutes
from service.http.requests import Requests
from service.http.services import ServiceRoutes
from service.observe.counts import Counts
from service.observe.exposition import CONTENT_TYPE, text
from service.observe.metrics import HTTP_TIMES, REQUESTS, By
from service.operator.catalogue import Catalogue
from service.operator.keys import Scope
from service.operator.look import behind_in, webhooks_in
from service.operator.services import Services

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})

DEFAULT = Http()


def application(
    door: Door,
    catalogue: Catalogue,
    callers: Callers,
    http: Http = DEFAULT,
    operations: Operations | None = None,
) -> web.Application:
    """Make the application, with all of its routes; without `operations` it is the door alone."""

    async def readiness(request: web.Request) -> web.Response:
        return await _ready(door, operations, request, known=callers.knows(request))

    envelope = Envelope(callers)
    elsewhere = {} if operations is None else {PREFIX: envelope.refused}
    figures = FigureRoutes(door, operations, catalogue, callers)
    answering = problems(_checking(http.hosts, callers), elsewhere, figures.note)
    made = web.Application(middlewares=[answering], client_max_size=BODY_MOST)
    made.on_response_prepare.append(callers.tell_rates)
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
        routes += _by_hand(operations, catalogue, callers)
        routes += EventRoutes(operations, asked).routes()
        links = Links(operations.stored, door, catalogue)
        routes += LinkRoutes(links, callers, http).routes()
        made.on_shutdown.append(asked.release)
    mount(made, with_document(routes))
    return made


def mount(made: web.Application, routes: Sequence[Route]) -> None:
    """Add routes; the document of the others says nothing of these, where they come later."""
    for method, path, handler, _ in routes:
        # Monitors and proxies ask by HEAD: the same answer, of which aiohttp sends the head.
        for verb in ("GET", "HEAD") if method == "GET" else (method,):
            made.router.add_route(verb, path, handler, expect_handler=refuse_expectations)


def _by_hand(operations: Operations, catalogue: Catalogue, callers: Callers) -> list[Route]:
    """Name the routes of what operators, and accounts with their services, do by hand."""
    operators = operations.operators
    services = Services(operators.config, operations.stored.stores)
    return [
        *CouriersRoutes(operators.config, operations.stored.stores, catalogue, callers).routes(),
        *LineRoutes(operators, catalogue, callers).routes(),
        *DeadRoutes(operators, catalogue, callers).routes(),
        *ServiceRoutes(services, callers).routes(),
        *DeliveryRoutes(services, callers).routes(),
        *InboxRoutes(operators.config, services, callers).routes(),
        *QuotaRoutes(operators.config, operations.stored.stores, callers).routes(),
    ]


def _checking(hosts: tuple[str, ...], callers: Callers) -> Check:
    """Make what refuses a request whatever it asks for, and looks at its signature."""

    async def check(request: web.Request) -> None:
        insist_on_plain_coding(request)
        host = insist_on_host(request)
        if hosts or not callers.need_keys:
            name = name_in(host)
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
    """Whether a page of another origin asks; for an image, say, browsers name no Origin.

    A link that somebody clicks is theirs to follow, but below /v1/ a GET may put a request.
    """
    if request.headers.get("Sec-Fetch-Site", "none") in {"none", "same-origin"}:
        return False
    clicked = request.headers.get("Sec-Fetch-Mode") == "navigate"
    return not clicked or request.path.startswith("/v1/")


async def to_docs(_: web.Request) -> web.Response:
    """Lead people to what describes the routes, where there are no pages."""
    return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": "/docs"})


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
    relays: Annotated[str | UnsetType, Meta(description="why no relay takes requests")] = UNSET


_LIVENESS = About("Answer as long as the process serves.", None, {200: Liveness})
_READINESS = About("Tell whether a request that comes now would be taken.", None, {200: Readiness})


async def _lives(_: web.Request) -> web.Response:
    return answer(Liveness(alive=True))


async def _ready(
    door: Door, operations: Operations | None, request: web.Request, *, known: bool
) -> web.Response:
    """Answer whether a request would be taken now; with the reasons, for clients that are `known`.

    Without Redis it is ready all the same: no other `api` could answer more.
    """
    health, refused = await door.health(), ""
    if relays := request.app.get(RELAYS):
        refused = await relays.refusal()
    said: dict[str, Any] = {}
    if known:
        said = {"tubes": health.tubes, "spool": health.spool, "spooled": health.spooled}
        said |= {"relays": refused} if refused else {}
        if operations is not None:
            said["redis"] = await operations.refusal()
    if health.ready and not refused:
        return answer(Readiness(ready=True, **said))
    raise come_later("nothing durable can be reached", **said)


_NONE = "other"


async def refuse_expectations(request: web.Request) -> None:
    """Answer `Expect: 100-continue`, and refuse what else a client may expect."""
    if request.headers.get("Expect", "").lower() != "100-continue":
        why = "the header Expect may say 100-continue, and nothing else"
        raise Problem(HTTPStatus.EXPECTATION_FAILED, why)
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")


class FigureRoutes:
    """The route, and what it counts of all others."""

    def __init__(
        self, door: Door, operations: Operations | None, catalogue: Catalogue, callers: Callers
    ) -> None:
        self._counts = Counts()
        self._door = door
        self._operations = operations
        self._couriers = catalogue.slugs
        self._callers = callers

    def routes(self) -> list[Route]:
        """Name it."""
        return [Route("GET", "/metrics", self.figures, _METRICS)]

    def note(self, request: web.Request, status: int, began: float) -> None:
        """Count a request that was answered; it `began` at this time of `time.monotonic()`."""
        resource = request.match_info.route.resource
        # What clients call methods and paths that there are not is theirs, and without end.
        method, route = (_NONE, _NONE) if resource is None else (request.method, resource.canonical)
        self._counts.add((REQUESTS.name, method, route, str(status)))
        self._counts.time(HTTP_TIMES.name, route, round((time.monotonic() - began) * 1e6))

    async def figures(self, request: web.Request) -> web.Response:
        """Write all figures for Prometheus. Raises Problem."""
        self._callers.operator(request)
        kinds, standing = {By.DOOR}, await figures_of_door(self._door)
        if relays := request.app.get(RELAYS):
            kinds.add(By.INGEST)
            standing |= await relays.figures()
        if self._operations is not None:
            kinds.add(By.API)
            standing |= await figures_of_lines(self._operations.standings, self._couriers)
            standing |= figures_of_violations(self._operations.violations)
            behind = await behind_in(self._operations.stored.stores.tracking)
            standing |= figures_of_plans(behind)
            standing |= figures_of_webhooks(await webhooks_in(self._operations.stored.stores))
        # Of a thousand lines it takes a while, in which others want their replies.
        body = await asyncio.to_thread(text, kinds, self._counts, standing)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})


_METRICS = About(
    "Tell Prometheus how this process and the lines do.",
    Scope.ADMIN,
    {200: str},
    (404,),
    gives=("text/plain",),
)
