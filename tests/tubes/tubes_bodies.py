"""Bodies of jobs as the tests of reading them need them."""

from __future__ import annotations

import json
from typing import Any

from service.worker.tubes.envelope import REQUESTS_TUBE, decode_request
from tracking.errors import MalformedJob
from tracking.request import FIELDS, Slug, TrackingRequest

NUMBER = "9405903699300184125060"
NOW = 1_770_000_000.0
COURIERS = {
    "usps": (Slug("usps"), ""),
    "hkpost": (Slug("hong-kong-post"), ""),
    "hong-kong-post": (Slug("hong-kong-post"), ""),
    "estes": (Slug("estes"), "-"),
}


def resolve(slug: str) -> tuple[Slug, str]:
    if slug not in COURIERS:
        raise MalformedJob("unknown_slug", f"no courier is called {slug!r}")
    return COURIERS[slug]


def decode(body: bytes, age_seconds: float = 0.0) -> TrackingRequest:
    return decode_request(body, resolve, age_seconds, lambda: NOW)


def body(payload: Any, kind: Any = REQUESTS_TUBE, **more: Any) -> bytes:
    return json.dumps({"type": kind, "payload": payload} | more).encode()


def request(**more: Any) -> bytes:
    return body({"slug": "usps", "number": NUMBER} | more)


OPTIONAL = ("id", "origin", "max_age", "expires_in", *FIELDS)
