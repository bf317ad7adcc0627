"""Records and operations of one parcel, for `resend`."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import redis

NUMBER = "94000001"
BODY = {"type": "requests_flow", "payload": {"slug": "usps", "number": NUMBER, "id": "order-1"}}


def dead(collections: Any, identity: str, hours: float = 0.0, **members: Any) -> None:
    """A record that is so old."""
    document = {
        "_id": identity,
        "slug": "usps",
        "number": NUMBER,
        "operations": ["order-1"],
        "reason": "courier_down",
        "detail": "503 five times",
        "body": json.dumps(BODY),
        "server": None,
        "job": None,
        "at": dt.datetime.now(dt.UTC) - dt.timedelta(hours=hours),
    }
    collections.dead.insert_one(document | members)


def stands(store: redis.Redis, identity: str, status: str, at: int = 1, **members: Any) -> None:
    """An operation of this parcel."""
    told = {"status": status, "tracking": f"usps:{NUMBER}", "at": at, **members}
    store.set(f"tracking:status:{identity}", json.dumps(told))
    store.zadd(f"tracking:operations:usps:{NUMBER}", {identity: at})
