"""What AfterShip's SDKs send: which version they speak, and bodies, checked member by member."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TypeVar

import msgspec
from aiohttp import web

from service.api.aftership.envelope import Code, refusal
from service.api.bodies import body_of, insist_on_json, json_of
from service.api.problems import Problem

VERSIONS = ("2026-07", "2026-01", "2025-07")
"""The newest first."""

T = TypeVar("T")

_CODES = {"tracking_number": Code.BAD_NUMBER, "slug": Code.BAD_SLUG, "id": Code.BAD_ID}
_MISSING = re.compile(r"missing required field `(\w+)`")
_WHERE = re.compile(r" - at `\$?\.?(.+)`\Z")


def version_of(request: web.Request) -> str:
    """Tell which version is spoken. Raises Problem."""
    version = request.match_info["version"]
    if version not in VERSIONS:
        why = f"the version {version[:20]!r} is not served here: ask for {', '.join(VERSIONS)}"
        raise Problem(HTTPStatus.NOT_FOUND, why)
    return version


async def read(request: web.Request, kind: type[T]) -> T:
    """Read a body; members that `kind` does not name are ignored. Raises Problem."""
    insist_on_json(request)
    body = await body_of(request)
    try:
        posted = json_of(body)
        # Half a character: it is JSON, and no text that anybody could store or send.
        msgspec.json.encode(posted)
    except Problem as problem:
        raise refusal(Code.BAD_JSON, problem.detail) from problem
    except UnicodeEncodeError as error:
        raise refusal(Code.BAD_JSON, "a text holds half of a surrogate pair") from error
    if not isinstance(posted, dict):
        raise refusal(Code.BAD_JSON, "the body is no JSON object")
    try:
        return msgspec.convert(posted, kind)
    except msgspec.ValidationError as error:
        raise _refused(str(error)) from error


def _refused(why: str) -> Problem:
    """Word what msgspec finds wrong."""
    if missing := _MISSING.search(why):
        name = missing[1]
        code = Code.NO_NUMBER if name == "tracking_number" else Code.NO_VALUE
        return refusal(code, f"{name} is required.")
    name = where[1] if (where := _WHERE.search(why)) else "the body"
    return refusal(
        _CODES.get(name, Code.BAD_VALUE), f"The value of {name} is invalid: {_WHERE.sub('', why)}."
    )
