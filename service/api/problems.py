"""Errors as `application/problem+json` (RFC 9457); no caller ever sees a traceback."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from aiohttp import web

from service.observe.log import emit_unexpected

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


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

    def response(self) -> web.Response:
        """Write it."""
        said = {"title": self.status.phrase, "status": int(self.status), "detail": self.detail}
        return web.Response(
            status=self.status,
            body=msgspec.json.encode(said | self.more),
            content_type="application/problem+json",
            headers=self.headers,
        )


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn whatever ends a request early into a problem."""
    try:
        return await handler(request)
    except Problem as problem:
        return problem.response()
    except web.HTTPException as error:
        status = HTTPStatus(error.status)
        headers = {"Allow": allow} if (allow := error.headers.get("Allow")) else None
        return Problem(status, _DETAILS.get(status, error.reason), headers).response()
    except Exception as error:  # noqa: BLE001 - whatever it is, the others are served on
        emit_unexpected(error)
        detail = "this is a defect of the service: its log says more"
        return Problem(HTTPStatus.INTERNAL_SERVER_ERROR, detail).response()


BODY_MOST = 1 << 20
"""Bytes of a body: a thousand requests of 1 KiB each."""

_DETAILS = {
    HTTPStatus.NOT_FOUND: "there is nothing at this path: docs/http.md lists what there is",
    HTTPStatus.METHOD_NOT_ALLOWED: "this path takes other methods: the header Allow names them",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: f"the body is too large: send {BODY_MOST} bytes at most",
}
