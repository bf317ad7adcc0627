"""The exchange that all routes share: their descriptions, reading of bodies, writing of errors.

No route is made without what `/openapi.json` says about it. Queries and bodies are read as the
types that describe them there; bodies are JSON, whole, and here in time.

Errors are `application/problem+json` (RFC 9457); no caller ever sees a traceback. Every answer
names its request in X-Request-Id: as the client called it, or as we do.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Literal, NamedTuple

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from service.http.meanings import type_of
from service.observe.log import emit_unexpected
from service.operator.deliveries import UnknownDelivery
from service.operator.keys import Scope
from service.operator.parcels import Narrow
from service.operator.quotas import QuotaUsedUp
from service.operator.services import BadWish, NoKeys, UnknownService
from tracking.errors import MalformedJob, NotDone, NotNow, StoreError

RETRY_SECONDS = 5
"""When to come again while a server is away: it is tried as often."""


class Problem(Exception):
    """Ends a request. `detail` says what is wrong and what to send instead; `more` are members."""

    def __init__(
        self, status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers
        self.more = more

    def body(self, *, linked: bool = True) -> bytes:
        """Write what is sent; not `linked` at a host where nothing explains it."""
        status = int(self.status)
        kind = {"type": type_of(status)} if linked else {}
        said = {"title": self.status.phrase, "status": status, "detail": self.detail}
        return msgspec.json.encode(kind | said | self.more) + b"\n"

    def response(self) -> web.Response:
        """Make the answer."""
        return web.Response(
            status=self.status, body=self.body(), content_type=PROBLEM, headers=self.headers
        )


def come_later(why: str, **more: Any) -> Problem:
    """Make the problem of what cannot be done now, and can soon."""
    later = {"Retry-After": str(RETRY_SECONDS)}
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, why, later, **more)


def malformed(error: MalformedJob, status: HTTPStatus) -> Problem:
    """Make the problem of a request that means nothing."""
    return Problem(status, error.detail, reason=error.reason)


PROBLEM = "application/problem+json"

ALWAYS = {
    "Cache-Control": "no-store",
    "Server": "courier-tracking",  # and not the versions of what serves it
    "X-Content-Type-Options": "nosniff",
}
"""Headers of each answer that does not say otherwise."""

REQUEST_ID = web.RequestKey("REQUEST_ID", str)
"""Under this a request knows its name, for answers that begin before they are whole."""

Writing = Callable[[web.Request, Problem], web.Response]

Check = Callable[[web.Request], Awaitable[None]]
"""Raises Problem for a request that is not to be served."""

Note = Callable[[web.Request, int, float], None]
"""Takes a request, the status of its answer and when it began, of `time.monotonic()`."""

MISSING: web.AppKey[Handler] = web.AppKey("MISSING")
"""Shows people, where there are pages, that there is nothing at a path."""


def _is_lost(request: web.Request, problem: Problem) -> bool:
    """Whether somebody with a browser asks for a path that nobody serves."""
    unknown = request.match_info.http_exception is not None
    return (
        unknown
        and problem.status is HTTPStatus.NOT_FOUND
        and request.method in {"GET", "HEAD"}
        and "text/html" in request.headers.get("Accept", "")
    )


def problems(
    check: Check, elsewhere: Mapping[str, Writing] | None = None, note: Note = lambda *_: None
) -> Middleware:
    """Make what turns whatever ends a request early into a problem; `check` may end any.

    Below the paths of `elsewhere` problems are written as these say. `note` hears of each answer.
    """

    def written(request: web.Request, problem: Problem) -> web.Response:
        for path, write in (elsewhere or {}).items():
            if request.path.startswith(path):
                return write(request, problem)
        return problem.response()

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        began = time.monotonic()
        request[REQUEST_ID] = name = name_of(request)
        try:
            await check(request)
            response = await handler(request)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are served on
            problem = problem_of(error, name)
            missing = request.app.get(MISSING) if _is_lost(request, problem) else None
            response = await missing(request) if missing else written(request, problem)
        finish(response, name)
        note(request, response.status, began)
        return response

    return answer


def name_of(request: web.BaseRequest | None) -> str:
    """Name a request as its client does, or else as nobody did yet."""
    name = "" if request is None else request.headers.get("X-Request-Id", "")
    return name if _NAME.fullmatch(name) else f"{_START}-{next(_count)}"


def insist_on_plain_coding(request: web.BaseRequest) -> None:
    """Raises Problem for a body that is neither chunked nor whole."""
    coding = ",".join(request.headers.getall("Transfer-Encoding", ["chunked"]))
    if coding.strip().lower() != "chunked":  # the parser takes the last one alone for all
        why = "send the body chunked or whole, in no other coding"
        raise Problem(HTTPStatus.NOT_IMPLEMENTED, why)


def insist_on_host(request: web.BaseRequest) -> str:
    """Give the header Host; addresses of links begin with it. Raises Problem."""
    host = request.headers.get("Host", "")
    if not _HOST.fullmatch(host):
        raise Problem(HTTPStatus.BAD_REQUEST, f"the header Host names no host: {host[:80]!r}")
    return host


def is_last(request: web.BaseRequest) -> bool:
    """Whether a request is the last one of its connection.

    The parser gives a trailer behind chunks to the next request, which may be somebody else's where
    a proxy uses the connection for several clients. Behind an upgrade comes another protocol.
    """
    return "Transfer-Encoding" in request.headers or "Upgrade" in request.headers


def name_in(host: str) -> str:
    """Take the port off a Host header."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower().rstrip(".")


def finish(response: web.StreamResponse, name: str) -> None:
    """Give an answer the headers that all have; `name` is that of its request."""
    if not response.prepared:
        for header, value in ALWAYS.items():
            response.headers.setdefault(header, value)
        response.headers["X-Request-Id"] = name


def problem_of(error: Exception, name: str) -> Problem:
    """Say what ended a request, which has this name in the log."""
    match error:
        case Problem():
            return error
        case web.HTTPException():
            status = HTTPStatus(error.status)
            headers = {"Allow": allow} if (allow := error.headers.get("Allow")) else None
            return Problem(status, _DETAILS.get(status, error.reason), headers)
        case StoreError() | NoKeys():
            return come_later(f"{error}")
        case Narrow():
            return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}", reason="narrow")
        case NotDone():
            return _not_done(error)
    emit_unexpected(error, request=name)
    detail = "this is a defect of the service: its log says more under this X-Request-Id"
    return Problem(HTTPStatus.INTERNAL_SERVER_ERROR, detail)


def _not_done(error: NotDone) -> Problem:
    """Say what cannot be done: a conflict, where it is nothing else."""
    match error:
        case UnknownService() | UnknownDelivery():
            return Problem(HTTPStatus.NOT_FOUND, _UNKNOWN[type(error)])
        case BadWish(parameter=name):
            return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}", parameter=name)
        case NotNow(seconds=wait):
            headers = {"Retry-After": f"{max(math.ceil(wait), RETRY_SECONDS)}"}
            return Problem(HTTPStatus.TOO_MANY_REQUESTS, f"{error}", headers)
        case QuotaUsedUp(seconds=wait):
            if wait is None:
                return Problem(HTTPStatus.FORBIDDEN, f"{error}", None, **error.members)
            later = {"Retry-After": f"{wait}"}
            return Problem(HTTPStatus.TOO_MANY_REQUESTS, f"{error}", later, **error.members)
    return Problem(HTTPStatus.CONFLICT, f"{error}")


_UNKNOWN: Mapping[type, str] = {
    UnknownService: "there is no such service: GET /v1/services lists them",
    UnknownDelivery: "there is no such delivery, or it is over for long: look into the list",
}

BODY_MOST = 1 << 20
"""Bytes of a body: a thousand requests of 1 KiB each."""

_DETAILS = {
    HTTPStatus.NOT_FOUND: "there is nothing at this path: docs/http.md lists what there is",
    HTTPStatus.METHOD_NOT_ALLOWED: "this path takes other methods: the header Allow names them",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: f"the body is too large: send {BODY_MOST} bytes at most",
}
_NAME = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_HOST = re.compile(r"[A-Za-z0-9._:%\[\]-]*")
_START = os.urandom(6).hex()
_count = itertools.count(1)

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A member of the query, or a header. `kind` is its type, with bounds and meaning in a Meta."""

    name: str
    kind: Any
    where: Literal["query", "header"] = "query"


@dataclass(frozen=True, slots=True)
class About:
    """The description of a route for programs.

    `summary` is a sentence. `scope` is what a key must be good for, None where none is needed.
    `answers` are the types of good answers by their status: one, several in a tuple, or None where
    there is no body. All else that is
    answered is a problem: `refusals` are the statuses that only this route gives, beside those of
    every route that needs a key, takes parameters or a body (`openapi` adds those).
    `body` is the type of what is posted, in each of `takes`; answers are written as `gives`.
    """

    summary: str
    scope: Scope | None
    answers: Mapping[int, Any]
    refusals: tuple[int, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    body: Any = None
    takes: tuple[str, ...] = (JSON,)
    gives: tuple[str, ...] = (JSON,)


class Route(NamedTuple):
    """A route that the application mounts. `path` is aiohttp's: `{name}` is one part of it."""

    method: str
    path: str
    handler: Handler
    about: About | None


NOT_IN_THE_DOCUMENT: Final = None
"""Stands for the `About` of routes that somebody else documents: AfterShip does its own."""


def answer(value: object, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """Write JSON, with a newline at its end: terminals show it."""
    body = msgspec.json.encode(value) + b"\n"
    return web.Response(status=status, body=body, content_type="application/json")


class Written(web.Response):
    """An answer that calls `then` once its bytes were written; not where its client has gone."""

    def __init__(self, answered: web.Response, then: Callable[[], Awaitable[None]]) -> None:
        super().__init__(
            status=answered.status, body=answered.body, content_type=answered.content_type
        )
        self._then: Callable[[], Awaitable[None]] | None = then

    async def write_eof(self, data: bytes = b"") -> None:
        """Write the rest."""
        await super().write_eof(data)
        then, self._then = self._then, None
        if then is not None:
            await then()
