"""Queries and bodies, read as the types that describe them in `/openapi.json`.

Bodies are JSON, whole, and here in time.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import functools
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from msgspec import Meta
from msgspec.structs import fields

from service.http.backend.operators import read_behind
from service.http.exchange import BODY_MOST, JSON, Parameter, Problem, malformed
from service.operator.catalogue import Catalogue
from service.operator.put import read_posted
from tracking.errors import MalformedJob
from tracking.request import Number, Slug

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


def parcel_of(request: web.Request, catalogue: Catalogue) -> tuple[Slug, Number]:
    """Read which parcel a path is about. Raises Problem."""
    named = request.match_info
    try:
        return catalogue.parcel(named["slug"], named["number"])
    except MalformedJob as error:
        raise malformed(error, HTTPStatus.NOT_FOUND) from error


def courier_of(request: web.Request, catalogue: Catalogue) -> Slug:
    """Read which courier a path is about. Raises Problem."""
    try:
        return catalogue.resolve(request.match_info["slug"])[0]
    except MalformedJob as error:
        raise malformed(error, HTTPStatus.NOT_FOUND) from error


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
