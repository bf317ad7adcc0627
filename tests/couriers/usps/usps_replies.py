"""Answers of USPS for its tests, written after its schema."""

from __future__ import annotations

import json
from typing import Any

from couriers import usps
from tracking.checkpoint import Tracking

NUMBER = "9400100000000000000017"


def event(what: str, at: str, code: str, **more: object) -> dict[str, object]:
    return {
        "eventType": what,
        "eventTimestamp": at,
        "eventCountry": None,
        "eventCity": "SALEM",
        "eventState": "OR",
        "eventZIP": "97301",
        "firm": None,
        "name": None,
        "authorizedAgent": "false",
        "eventCode": code,
        "additionalProp": None,
    } | more


LABEL = event("Shipping Label Created, USPS Awaiting Item", "2026-03-02T09:30:00", "GX")
ACCEPTED = event("USPS in possession of item", "2026-03-03T17:40:00", "03", GMTOffset="-08:00")
OUT = event("Out for Delivery", "2026-03-05T08:10:00", "OF", GMTOffset="-08:00")
DELIVERED = event(
    "Delivered, Left with Individual",
    "2026-03-05T13:05:00",
    "01",
    GMTOffset="-08:00",
    GMTTimestamp="2026-03-05T21:05:31Z",
    name="J DOE",
)


def item(category: str, *events: dict[str, object], **more: object) -> dict[str, object]:
    return {
        "trackingNumber": NUMBER,
        "statusCategory": category,
        "status": events[0]["eventType"] if events else "",
        "mailClass": "Priority Mail<SUP>&reg;</SUP>",
        "services": "USPS Tracking<SUP>&#174;</SUP>",
        "originCity": "BEND",
        "originState": "OR",
        "destinationCity": "SALEM",
        "destinationState": "OR",
        "trackingEvents": list(events),
    } | more


def parse(body: object, status: int = 200, **headers: str) -> Tracking:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return usps.parse(status, headers, data, NUMBER)


def refusal(code: str = "", status: str = "400", title: str = "no") -> dict[str, Any]:
    errors = [{"title": title, "detail": "", "code": code}]
    return {
        "apiVersion": "/tracking/v3",
        "error": {"code": status, "message": title, "errors": errors},
    }
