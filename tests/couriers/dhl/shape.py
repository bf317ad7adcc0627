"""DHL's Unified Shipment Tracking, after its API reference.

====== ======================================= ==========================================
method path                                    an unknown number
====== ======================================= ==========================================
GET    /dhl/track/shipments?trackingNumber=N   404 with the detail "No result found"
====== ======================================= ==========================================
"""

from __future__ import annotations

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import Form, forms
from devstack.site.shapes.reply import Asked, Reply, encode

SLUG = "dhl"
CODES = {
    "InfoReceived": "pre-transit",
    "InTransit": "transit",
    "OutForDelivery": "transit",
    "Delivered": "delivered",
    "Exception": "failure",
}
UNKNOWN = (
    404,
    encode(
        {
            "title": "No result found",
            "status": 404,
            "detail": "No shipment with given number found.",
        }
    ),
)


def read(asked: Asked) -> Reply | None:
    """Answer one request to DHL."""
    if (asked.method, asked.parts) != ("GET", ("track", "shipments")):
        return None
    number = asked.query.get("trackingNumber", "")
    if not parcel.known(number):
        return Reply(SLUG, number, *UNKNOWN, unknown=UNKNOWN)
    events = [_event(scan) for scan in reversed(parcel.scans(number))]
    shipment = {"id": number, "service": "express", "status": events[0], "events": events}
    return Reply(SLUG, number, 200, encode({"shipments": [shipment]}), unknown=UNKNOWN)


def _event(scan: parcel.Scan) -> dict[str, object]:
    return {
        "timestamp": scan.at.isoformat(),
        "statusCode": CODES[scan.stage],
        "description": scan.message,
        "location": {"address": {"addressLocality": scan.city, "countryCode": "GB"}},
    }


def _problem(status: int, title: str) -> dict[str, object]:
    return {"title": title, "status": status, "detail": title}


FAILURES = forms(
    Form(401, _problem(401, "Unauthorized")),
    Form(429, _problem(429, "Too Many Requests")),
    Form(503, _problem(503, "Service Unavailable")),
)

PROBLEM = "Exception_007"
"""Subtag of "the address is wrong", as finely as the courier tells it."""

IMPOSSIBLE = "0000/10"
"""A number that the module refuses by itself: the courier has no answer for one."""
