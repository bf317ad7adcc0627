"""Queries and bodies, read as the types that describe them in `/openapi.json`."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
from aiohttp import web
from msgspec.structs import fields

from service.api.bodies import body_of, insist_on_json, json_of
from service.api.problems import Problem
from service.api.routes import Parameter

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


async def read_body(request: web.Request, kind: type[T]) -> T:
    """Read a JSON body. Raises Problem: 400 for no JSON, 422 for other members than described."""
    insist_on_json(request)
    body = await body_of(request)
    json_of(body)  # what msgspec does not mind: a name that is there twice
    with _naming(kind, HTTPStatus.UNPROCESSABLE_ENTITY):
        return msgspec.json.decode(body, type=kind)


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
