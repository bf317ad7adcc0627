"""Bodies of jobs as the tests of reading them need them."""

from __future__ import annotations

import json
from typing import Any

from service.tubes.envelope import REQUESTS_TUBE, decode_request
from tracking.request import FIELDS, Slug, TrackingRequest

NUMBER = "9405903699300184125060"
NOW = 1_770_000_000.0
COURIERS = {
    "usps": (Slug("usps"), ""),
    "hkpost": (Slug("hong-kong-post"), ""),
    "estes": (Slug("estes"), "-"),
}


def decode(body: bytes, age_seconds: float = 0.0) -> TrackingRequest:
    return decode_request(body, COURIERS.get, age_seconds, lambda: NOW)


def body(payload: Any, kind: Any = REQUESTS_TUBE, **more: Any) -> bytes:
    return json.dumps({"type": kind, "payload": payload} | more).encode()


def request(**more: Any) -> bytes:
    return body({"slug": "usps", "number": NUMBER} | more)


OPTIONAL = ("id", "origin", "max_age", "expires_in", *FIELDS)
