"""`/v1/events`: the ends of an account's operations, as server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Annotated

import msgspec
from aiohttp import web
from msgspec import Meta

from service.http.backend.listeners import EventId, EventIds, Kind, Listener, Told
from service.http.backend.operation_view import OperationView
from service.http.backend.operations import Operations, Place
from service.http.exchange import REQUEST_ID, About, Parameter, Problem, Route, come_later, finish
from service.http.operations import OperationRoutes, Output, own_id
from service.http.reading import FLAG, flag
from service.operator.keys import Scope
from tracking.errors import StoreError
from tracking.request import Account, account_and_id

EVENTS = "text/event-stream"

HEARTBEAT_SECONDS = 15.0
"""Proxies end a connection on which nothing is said for a minute, some after 30 s."""

WRITE_SECONDS = 30.0
"""How long a client may take nothing of what is written to it."""

NAMED_MOST = 100
"""Operations that one listener names."""

NAMES = Annotated[list[str], Meta(max_length=NAMED_MOST, description="hear of these only")]
PROGRESS = Annotated[FLAG, Meta(description="hear also how those named by `id` come along")]
LAST = Annotated[str, Meta(description="the id of the last event that was read: go on behind it")]

# Proxies are not to collect what is to be read at once.
_HEADERS = {"Content-Type": EVENTS, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_BEGIN = b"retry: 2000\n\n"
_RESET = b'{"detail":"you may miss some ends: ask for the operations that you wait for"}'


class NamedOperation(msgspec.Struct, rename="camel"):
    """An operation and its parcel, null where nothing more is known of it."""

    id: str
    slug: str | None
    number: str | None


class EndedOperation(NamedOperation):
    """What `ended` tells."""

    status: str
    finished_at: str | None
    output: Output | None


class OperationProgress(NamedOperation):
    """What `progress` tells."""

    status: str
    started_at: str | None
    place: Place | None


class EventRoutes:
    """The route."""

    def __init__(self, operations: Operations, held: OperationRoutes) -> None:
        self._operations = operations
        self._held = held

    def routes(self) -> list[Route]:
        """Name it."""
        about = About(
            "Tell of operations that end, as they end (server-sent events).",
            Scope.READ,
            {200: str},
            refusals=(404,),
            parameters=(
                Parameter("id", NAMES),
                Parameter("progress", PROGRESS),
                Parameter("Last-Event-ID", LAST, "header"),
            ),
            gives=(EVENTS,),
        )
        return [Route("GET", "/v1/events", self.listen, about)]

    async def listen(self, request: web.Request) -> web.StreamResponse:
        """Stream ends until the client goes. Raises Problem, StoreError before it begins."""
        account = self._held.callers.account(request, Scope.READ)
        only, progress = _only(request, account), flag(request, "progress")
        if progress and not only:
            why = "progress goes with id: name the operations, `?progress=1&id=…&id=…`"
            raise Problem(HTTPStatus.BAD_REQUEST, why)
        callers = self._held.callers

        async def knows(request: web.Request) -> bool:
            return callers.knows(request)

        whose = account if callers.need_keys else None
        with self._held.holding(request):
            return await Stream(self._operations, knows).tell(
                request, account, only, whose=whose, progress=progress
            )


class Stream:
    """Tells a client of ends, and of progress, until it goes; for the route, and for pages."""

    def __init__(
        self, operations: Operations, knows: Callable[[web.Request], Awaitable[bool]]
    ) -> None:
        """`knows`: whether the client may still hear; it is asked before anything is written."""
        self._operations = operations
        self._knows = knows

    async def tell(
        self,
        request: web.Request,
        account: Account,
        only: frozenset[str],
        *,
        whose: Account | None,
        progress: bool,
    ) -> web.StreamResponse:
        """Tell of an account's operations, or of `only` these.

        `whose`: with whom it shares the room for progress, None for all. Raises Problem, StoreError
        before it begins.
        """
        if request.method == "HEAD":
            return web.Response(headers=_HEADERS)  # of what does not end there is no other head
        listener = Listener(account, only, lambda: _abort(request))
        if progress and not self._operations.progress.take(listener, whose):
            why = "clients watch the progress of too many operations: ask without it, or later"
            raise come_later(why)
        try:
            ids = await self._operations.listeners.ids()
            return await self._tell(request, listener, ids, progress=progress)
        finally:
            self._operations.listeners.leave(listener)
            self._operations.progress.leave(listener)

    async def _tell(
        self, request: web.Request, listener: Listener, ids: EventIds, *, progress: bool
    ) -> web.StreamResponse:
        read = request.headers.get("Last-Event-ID")
        last = ids.opened(read) if read else None
        response = web.StreamResponse(headers=_HEADERS)
        finish(response, request[REQUEST_ID])
        async with contextlib.aclosing(self._operations.listeners.missed(listener, last)) as missed:
            first = await anext(missed)  # while Redis is away it is refused with a problem
            await response.prepare(request)
            # After any of these the client comes again, with the id of what it read last.
            with contextlib.suppress(ConnectionError, StoreError):
                await self._write(request, response, _BEGIN + _written(first, ids))
                async for told in missed:
                    await self._write(request, response, _written(told, ids))
                await self._write(request, response, _heartbeat(listener, ids))
                if progress:
                    self._operations.progress.watch(listener)
                while not listener.over:
                    told = await listener.next(HEARTBEAT_SECONDS)
                    text = _written(told, ids) or _heartbeat(listener, ids)
                    await self._write(request, response, text)
        return response

    async def _write(self, request: web.Request, response: web.StreamResponse, text: bytes) -> None:
        """Write to a client. Raises ConnectionError when it may not have it or takes nothing."""
        if not await self._knows(request):
            raise ConnectionAbortedError  # its key, or its session, ended meanwhile
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await response.write(text)
        except TimeoutError as error:
            _abort(request)
            raise ConnectionAbortedError from error


def _only(request: web.Request, account: Account) -> frozenset[str]:
    """Read which operations are named. Raises Problem."""
    named = request.query.getall("id", [])
    if len(named) > NAMED_MOST:
        why = f"{len(named)} operations: name {NAMED_MOST} at most, or none to hear of all"
        raise Problem(HTTPStatus.BAD_REQUEST, why)
    return frozenset(own_id(each, account) for each in named)


def _written(told: Sequence[Told], ids: EventIds) -> bytes:
    """Write events as a stream of them has it."""
    return b"".join(_event(each, ids) for each in told)


def _event(told: Told, ids: EventIds) -> bytes:
    what = _RESET if told.operation is None else msgspec.json.encode(_told(told, told.operation))
    return b"event: %s\n%sdata: %s\n\n" % (told.kind.value.encode(), _id(told.at, ids), what)


def _id(at: EventId | None, ids: EventIds) -> bytes:
    return b"" if at is None else f"id: {ids.sealed(at)}\n".encode()


def _told(told: Told, known: OperationView) -> EndedOperation | OperationProgress:
    members, identity = known.members, account_and_id(known.id)[1]
    if told.kind is Kind.ENDED:
        return EndedOperation(
            identity,
            known.slug,
            known.number,
            status=members["status"],
            finished_at=members["finishedAt"],
            output=members["output"],
        )
    return OperationProgress(
        identity,
        known.slug,
        known.number,
        status=members["status"],
        started_at=members["startedAt"],
        place=known.place,
    )


def _heartbeat(listener: Listener, ids: EventIds) -> bytes:
    """Say that there is nothing, and up to where: a client that is cut off goes on from there."""
    return b": nothing new\n%s\n" % _id(listener.told_until, ids)


def _abort(request: web.Request) -> None:
    if request.transport:
        request.transport.abort()
