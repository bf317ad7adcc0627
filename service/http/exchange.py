"""The exchange that all routes share: their descriptions, reading of bodies, writing of errors.

No route is made without what `/openapi.json` says about it. Queries and bodies are read as the
types that describe them there; bodies are JSON, whole, and here in time.

Errors are `application/problem+json` (RFC 9457); no caller ever sees a traceback. Every answer
names its request in X-Request-Id: as the client called it, or as we do.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import functools
import itertools
import math
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar, get_args, get_type_hints

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware
from msgspec import Meta
from msgspec.structs import fields

from service.http.backend.operators import read_behind
from service.observe.log import emit_unexpected
from service.operator.accounts import NotDone, NotNow
from service.operator.deliveries import UnknownDelivery
from service.operator.keys import Scope
from service.operator.parcels import Narrow
from service.operator.put import read_posted
from service.operator.quotas import QuotaUsedUp
from service.operator.services import BadWish, NoKeys, UnknownService
from tracking.errors import MalformedJob, StoreError

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

    def body(self) -> bytes:
        """Write what is sent."""
        said = {"title": self.status.phrase, "status": int(self.status), "detail": self.detail}
        return msgspec.json.encode(said | self.more) + b"\n"

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
            response = written(request, problem_of(error, name))
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
                return Problem(HTTPStatus.FORBIDDEN, f"{error}", **error.members)
            headers = {"Retry-After": f"{wait}"}
            return Problem(HTTPStatus.TOO_MANY_REQUESTS, f"{error}", headers, **error.members)
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

BODY_SECONDS = 30.0
"""How long a body may take to arrive."""

_BODY = web.RequestKey("BODY", bytes)


def insist_on_json(request: web.Request, *forms: str) -> str:
    """Give the media type of a body: JSON, or one of `forms`. Raises Problem for all else."""
    headers = request.headers
    if headers.get("Content-Type") == JSON and "Content-Encoding" not in headers:
        return JSON  # as nearly all say it: nothing is to be taken apart
    kind, charset = request.content_type, (request.charset or "utf-8").lower()
    if kind not in (JSON, *forms) or charset not in {"utf-8", "utf8"}:
        named = " or ".join((JSON, *forms[:1]))
        why = f"send JSON in UTF-8: Content-Type: {named}"
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, why)
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        why = "send the body as it is, without Content-Encoding"
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, why)
    return kind


async def body_of(request: web.Request) -> bytes:
    """Read a body, also once more. Raises Problem."""
    try:
        body: bytes | None = request.get(_BODY)
        if body is None and request.content.is_eof():
            body = request.content.read_nowait()  # it is all here; `read` goes a longer way
        elif body is None:
            async with asyncio.timeout(BODY_SECONDS):
                body = await request.read()
    except (ConnectionError, web.RequestPayloadError, HttpProcessingError) as error:
        raise Problem(HTTPStatus.BAD_REQUEST, "the body is not whole, or not HTTP") from error
    except TimeoutError as error:
        why = f"the body was not here within {BODY_SECONDS:g} s"
        raise Problem(HTTPStatus.REQUEST_TIMEOUT, why) from error
    if len(body) > (most := request.client_max_size):
        raise web.HTTPRequestEntityTooLarge(most, len(body))
    request[_BODY] = body
    return body


def json_of(body: bytes) -> object:
    """Read a body as one JSON value. Raises Problem."""
    try:
        return read_posted(body)
    except MalformedJob as error:
        raise malformed(error, HTTPStatus.BAD_REQUEST) from error


_YES, _NO = frozenset({"1", "true"}), frozenset({"", "0", "false"})
FLAG = Literal["1", "0"]

T = TypeVar("T", bound=msgspec.Struct)

_PLACE = re.compile(r" - at `\$\.(\w+)")
_UNKNOWN = re.compile(r"unknown field `(.*)`", re.DOTALL)


def parameters_of(kind: type[msgspec.Struct]) -> tuple[Parameter, ...]:
    """Describe the query that is read as this type."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(Parameter(name, hints[name]) for name in kind.__struct_fields__)


def read_query(request: web.Request, kind: type[T]) -> T:
    """Read the query; a member that is a tuple may be there several times. Raises Problem: 400."""
    several = {each.name for each in fields(kind) if isinstance(each.default, tuple)}
    given: dict[str, Any] = {}
    for name in request.query:
        values = request.query.getall(name)
        given[name] = values if name in several or len(values) > 1 else values[0]
    for name in _times(kind).intersection(given):
        try:
            given[name] = msgspec.convert(given[name], dt.datetime)
        except msgspec.ValidationError as error:
            why = f"{name} is {_meaning(kind, name)}"
            raise Problem(HTTPStatus.BAD_REQUEST, why, parameter=name) from error
    with _naming(kind, HTTPStatus.BAD_REQUEST):
        return msgspec.convert(given, kind, strict=False)


async def read_body(request: web.Request, kind: type[T], most: int = BODY_MOST) -> T:
    """Read a JSON body. Raises Problem: 400 for no JSON, 422 for other members than described."""
    insist_on_json(request)
    body = await body_of(request if most == BODY_MOST else request.clone(client_max_size=most))
    json_of(body)  # what msgspec does not mind: a name that is there twice
    with _naming(kind, HTTPStatus.UNPROCESSABLE_ENTITY):
        return msgspec.json.decode(body, type=kind)


def flag(request: web.Request, name: str) -> bool:
    """Read a yes or no of the query; no without one. Raises Problem."""
    if not request.query_string:
        return False
    value = request.query.get(name, "")
    if value.lower() not in _YES | _NO:
        raise Problem(HTTPStatus.BAD_REQUEST, f"{name} is 1 or 0")
    return value.lower() in _YES


def seconds_of(request: web.Request, name: str, most: float) -> float | None:
    """Read a number of seconds of the query; None without one. Raises Problem."""
    text = request.query.get(name) if request.query_string else None
    if text is None:
        return None
    with contextlib.suppress(ValueError):
        if 0 <= (seconds := float(text)) <= most:
            return seconds
    raise Problem(HTTPStatus.BAD_REQUEST, f"{name} is a number of seconds from 0 to {most:g}")


TIME = "a time with its zone, like 2026-05-04T08:00:00Z"
MOMENT = Annotated[dt.datetime, Meta(tz=True)]
CURSOR = Annotated[str | None, Meta(description="the cursor of the answer before: what follows it")]


def in_utc(moment: dt.datetime | None, name: str, status: HTTPStatus) -> dt.datetime | None:
    """Write the time that a member names in UTC; None is none. Raises Problem."""
    try:
        return moment and moment.astimezone(dt.UTC)  # of the years 1 and 9999 some times have none
    except OverflowError as error:
        raise Problem(status, f"{name} is {TIME}", parameter=name) from error


def place_of(cursor: str | None, status: HTTPStatus) -> tuple[dt.datetime, str] | None:
    """Read behind which time and id a page begins; None without a cursor. Raises Problem."""
    try:
        return None if cursor is None else read_behind(cursor)
    except ValueError as error:
        why = "cursor is what the answer before named as its cursor"
        raise Problem(status, why, parameter="cursor") from error


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


@functools.cache
def _times(kind: type[msgspec.Struct]) -> frozenset[str]:
    """Name the members that are times: not strict, msgspec takes digits for Unix seconds."""
    hints = get_type_hints(kind).items()
    return frozenset(name for name, hint in hints if dt.datetime in (hint, *get_args(hint)))


@contextlib.contextmanager
def _naming(kind: type[msgspec.Struct], status: HTTPStatus) -> Iterator[None]:
    """Name what is wrong, and say what to send instead."""
    try:
        yield
    except msgspec.ValidationError as error:
        names = kind.__struct_fields__
        if found := _PLACE.search(f"{error}"):
            name = found[1]
            raise Problem(status, f"{name} is {_meaning(kind, name)}", parameter=name) from error
        if found := _UNKNOWN.search(f"{error}"):
            name = found[1]
            why = f"{name} means nothing here: there are {', '.join(names)}"
            raise Problem(status, why, parameter=name) from error
        why = f"the body is not what it should be: send an object of {', '.join(names)}"
        raise Problem(status, why) from error
    except msgspec.DecodeError as error:
        raise Problem(HTTPStatus.BAD_REQUEST, f"this is no JSON: {error}") from error


def _meaning(kind: type[msgspec.Struct], name: str) -> str:
    metas: tuple[msgspec.Meta, ...] = get_type_hints(kind, include_extras=True)[name].__metadata__
    return next(each.description for each in metas if each.description)
