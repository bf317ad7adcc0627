"""Bodies of requests: JSON only, whole, and here in time."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from service.api.problems import BODY_MOST, Problem
from service.api.routes import JSON
from service.client.put import read_posted
from tracking.errors import MalformedJob

BODY_SECONDS = 30.0
"""How long a body may take to arrive."""

_BODY = web.RequestKey("BODY", bytes)


def insist_on_json(request: web.Request, *forms: str) -> str:
    """Tell which of JSON and these other `forms` a body is in. Raises Problem for all else."""
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
    if len(body) > BODY_MOST:
        raise web.HTTPRequestEntityTooLarge(BODY_MOST, len(body))
    request[_BODY] = body
    return body


def json_of(body: bytes) -> object:
    """Read a body as one JSON value. Raises Problem."""
    try:
        return read_posted(body)
    except MalformedJob as error:
        raise Problem(HTTPStatus.BAD_REQUEST, error.detail, reason=error.reason) from error
