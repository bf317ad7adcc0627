"""AfterShip's envelope, opened as its SDKs open it."""

from __future__ import annotations

from typing import Any

from aiohttp import ClientResponse


async def answer_of(response: ClientResponse, status: int = 200) -> Any:
    told = await response.json()
    assert response.status == status, told
    assert told["meta"]["code"] == status
    assert {"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} <= set(
        response.headers
    )
    return told["data"]


async def refusal_of(response: ClientResponse, status: int) -> dict[str, Any]:
    assert response.content_type == "application/json"
    told = await response.json()
    assert response.status == status, told
    meta: dict[str, Any] = told["meta"]
    assert meta["message"]
    return meta
