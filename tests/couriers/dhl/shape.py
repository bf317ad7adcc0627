"""DHL's Unified Shipment Tracking and MyDHL, after their API references.

====== ======================================= ==========================================
method path                                    an unknown number
====== ======================================= ==========================================
GET    /dhl/track/shipments?trackingNumber=N   404 with the title "No result found"
GET    /dhl/shipments/N/tracking               404 with the detail "No data found"
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


UNKNOWN_EXPRESS = (
    404,
    encode({"title": "Not data found", "status": "404", "detail": "No data found"}),
)
EXPRESS = {
    "Shipping label created": None,
    "Accepted at the post office": "PU",
    "Arrived at the sorting centre": "AF",
    "Out for delivery": "WC",
    "Delivered, front door": "OK",
    "Incorrect address": "BA",
}
"""By MyDHL's codes; it has no event before the pick-up."""


def read(asked: Asked) -> Reply | None:
    """Answer one request to DHL."""
    match asked.method, asked.parts:
        case "GET", ("track", "shipments"):
            return _unified(asked.query.get("trackingNumber", ""))
        case "GET", ("shipments", number, "tracking"):
            return _express(number)
    return None


def _unified(number: str) -> Reply:
    if not parcel.known(number):
        return Reply(SLUG, number, *UNKNOWN, unknown=UNKNOWN)
    events = [_event(scan) for scan in reversed(parcel.scans(number))]
    shipment = {"id": number, "service": "express", "status": events[0], "events": events}
    return Reply(SLUG, number, 200, encode({"shipments": [shipment]}), unknown=UNKNOWN)


def _express(number: str) -> Reply:
    if not parcel.known(number):
        return Reply(SLUG, number, *UNKNOWN_EXPRESS, unknown=UNKNOWN_EXPRESS)
    events = [
        {
            "date": f"{scan.at:%Y-%m-%d}",
            "time": f"{scan.at:%H:%M:%S}",
            "GMTOffset": "+01:00",
            "typeCode": code,
            "description": scan.message,
            "serviceArea": [{"code": "AAA", "description": f"{scan.city.upper()}-GB"}],
        }
        for scan in parcel.scans(number)
        if (code := EXPRESS[scan.message])
    ]
    shipment = {"shipmentTrackingNumber": number, "status": "Success", "events": events}
    return Reply(SLUG, number, 200, encode({"shipments": [shipment]}), unknown=UNKNOWN_EXPRESS)


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
