"""Shipments and parcels as tests store them; AfterShip's envelope, opened as its SDKs open it."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pymongo
from aiohttp import ClientResponse
from door_ground import USPS, Client

AT = "/tracking/2026-07/trackings"


NUMBER = USPS["number"]


SCANNED = dt.datetime(2026, 5, 4, 8, 0, 1, 250_000, dt.UTC)


DOCUMENT: dict[str, Any] = {
    "_id": f"usps:{NUMBER}",
    "slug": "usps",
    "tracking_number": NUMBER,
    "fields": {"tracking_postal_code": "8000"},
    "tag": "InTransit",
    "subtag": "InTransit_002",
    "active": True,
    "checkpoints": [
        {
            "checkpoint_time": "2026-05-04T10:00:01",
            "checkpoint_offset": "+02:00",
            "checkpoint_utc": SCANNED,
            "message": "accepted",
            "tag": "InTransit",
            "subtag": "InTransit_002",
            "postal_code": "8000",
            "raw_tag": None,
        }
    ],
    "tracked_count": 3,
    "attempts": [],
    "created_at": SCANNED,
    "updated_at": SCANNED,
}


Bucket = pymongo.database.Database[dict[str, Any]]


async def create(api: Client, **members: Any) -> dict[str, Any]:
    made: dict[str, Any] = await answer_of(await api.post(AT, json=members), 201)
    return made


async def listed(api: Client, query: str = "") -> list[str]:
    data = await answer_of(await api.get(f"{AT}?{query}"))
    return [each["tracking_number"] for each in data["trackings"]]


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
