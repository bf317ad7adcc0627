"""AfterShip's envelope around every answer: `{"meta": {"code", "type", "message"}, "data": …}`.

What ends a request early is a Problem here too; its member `code` is AfterShip's, where that is
another number than the status.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType

import msgspec
from aiohttp import web

from service.http.backend.shipments import Code
from service.http.callers import Callers
from service.http.exchange import JSON, Problem

PREFIX = "/tracking/"
"""What is asked below this path is answered in the envelope."""

BELOW = f"{PREFIX}{{version}}"

_TYPES: Mapping[int, str] = MappingProxyType(
    {
        HTTPStatus.UNAUTHORIZED: "Unauthorized",
        HTTPStatus.FORBIDDEN: "Forbidden",
        HTTPStatus.NOT_FOUND: "NotFound",
        HTTPStatus.TOO_MANY_REQUESTS: "TooManyRequests",
    }
)


def refusal(code: Code, why: str) -> Problem:
    """Refuse with one of AfterShip's codes."""
    status = HTTPStatus.NOT_FOUND if code is Code.UNKNOWN else HTTPStatus.BAD_REQUEST
    return Problem(status, why, code=int(code))


class Envelope:
    """Writes answers, and in their headers how often who asks may do so."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    def answered(
        self, request: web.Request, data: object, status: int = HTTPStatus.OK
    ) -> web.Response:
        """Answer with data."""
        return self._written(request, status, {"code": int(status)}, data)

    def refused(self, request: web.Request, problem: Problem) -> web.Response:
        """Answer with what ended a request early."""
        meta = {
            "code": problem.more.get("code", int(problem.status)),
            "type": type_of(problem.status),
            "message": problem.detail,
        }
        response = self._written(request, problem.status, meta, problem.more.get("data", {}))
        response.headers.update(problem.headers or {})
        return response

    def _written(
        self, request: web.Request, status: int, meta: Mapping[str, object], data: object
    ) -> web.Response:
        body = msgspec.json.encode({"meta": meta, "data": data})
        response = web.Response(status=status, body=body, content_type=JSON)
        if allowed := self._callers.rate_limit_status(request):
            response.headers.update(rate_headers(allowed, time.time()))
        return response


def type_of(status: int) -> str:
    """Name the class of error that the SDKs raise for a status."""
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "InternalError"
    return _TYPES.get(status, "BadRequest")


def rate_headers(allowed: tuple[int, int, float], now: float) -> dict[str, str]:
    """Write how often a key may be used: a second, just now, and from when on so often again."""
    limit, left, seconds = allowed
    return {
        "X-RateLimit-Limit": f"{limit}",
        "X-RateLimit-Remaining": f"{left}",
        "X-RateLimit-Reset": f"{math.ceil(now + seconds)}",
    }
