"""Errors as `application/problem+json` (RFC 9457); no caller ever sees a traceback.

Every answer names its request in X-Request-Id: as the client called it, or as we do.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from service.observe.log import emit_unexpected
from tracking.errors import StoreError

RETRY_SECONDS = 5
"""When to come again while a server is away: it is tried as often."""


class Problem(Exception):
    """Ends a request. `detail` says what is wrong and what to send instead; `more` are members."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers
        self.more = more

    def body(self) -> bytes:
        """Write what is sent."""
        said = {"title": self.status.phrase, "status": int(self.status), "detail": self.detail}
        return msgspec.json.encode(said | self.more)

    def response(self) -> web.Response:
        """Make the answer."""
        return web.Response(
            status=self.status,
            body=self.body(),
            content_type=PROBLEM,
            headers=self.headers,
        )


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
    check: Check,
    elsewhere: Mapping[str, Writing] | None = None,
    note: Note = lambda *_: None,
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
            response = written(request, _problem_of(error, name))
        finish(response, name)
        note(request, response.status, began)
        return response

    return answer


def name_of(request: web.BaseRequest | None) -> str:
    """Name a request as its client does, or else as nobody did yet."""
    name = "" if request is None else request.headers.get("X-Request-Id", "")
    return name if _NAME.fullmatch(name) else f"{_START}-{next(_count)}"


def finish(response: web.StreamResponse, name: str) -> None:
    """Give an answer the headers that all have; `name` is that of its request."""
    if not response.prepared:
        for header, value in ALWAYS.items():
            response.headers.setdefault(header, value)
        response.headers["X-Request-Id"] = name


def _problem_of(error: Exception, name: str) -> Problem:
    """Say what ended a request, which has this name in the log."""
    match error:
        case Problem():
            return error
        case web.HTTPException():
            status = HTTPStatus(error.status)
            headers = {"Allow": allow} if (allow := error.headers.get("Allow")) else None
            return Problem(status, _DETAILS.get(status, error.reason), headers)
        case StoreError():
            later = {"Retry-After": str(RETRY_SECONDS)}
            return Problem(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}", later)
    emit_unexpected(error, request=name)
    detail = "this is a defect of the service: its log says more under this X-Request-Id"
    return Problem(HTTPStatus.INTERNAL_SERVER_ERROR, detail)


BODY_MOST = 1 << 20
"""Bytes of a body: a thousand requests of 1 KiB each."""

_DETAILS = {
    HTTPStatus.NOT_FOUND: "there is nothing at this path: docs/http.md lists what there is",
    HTTPStatus.METHOD_NOT_ALLOWED: "this path takes other methods: the header Allow names them",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: f"the body is too large: send {BODY_MOST} bytes at most",
}
_NAME = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_START = os.urandom(6).hex()
_count = itertools.count(1)
