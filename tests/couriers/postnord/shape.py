"""PostNord's Track and Trace, version 5, after its OpenAPI text.

====== =================================================================== ==================
method path                                                                an unknown number
====== =================================================================== ==================
GET    /postnord/rest/shipment/v5/trackandtrace/findByIdentifier.json?id=N no shipments
====== =================================================================== ==================
"""

from __future__ import annotations

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import PAUSE, Form, forms
from devstack.site.shapes.reply import Asked, Reply, encode

SLUG = "postnord"
PATH = ("rest", "shipment", "v5", "trackandtrace", "findByIdentifier.json")
STATUSES = {
    "InfoReceived": "INFORMED",
    "InTransit": "EN_ROUTE",
    "OutForDelivery": "EN_ROUTE",
    "Delivered": "DELIVERED",
    "Exception": "STOPPED",
}
UNKNOWN = (200, encode({"TrackingInformationResponse": {"shipments": []}}))


def read(asked: Asked) -> Reply | None:
    """Answer one request to PostNord."""
    if (asked.method, asked.parts) != ("GET", PATH):
        return None
    number = asked.query.get("id", "")
    if not parcel.known(number):
        return Reply(SLUG, number, *UNKNOWN, unknown=UNKNOWN)
    scans = parcel.scans(number)
    item = {
        "itemId": number,
        "status": STATUSES[scans[-1].stage],
        "events": [_event(scan) for scan in scans],
    }
    shipments = [{"shipmentId": number, "items": [item]}]
    body = encode({"TrackingInformationResponse": {"shipments": shipments}})
    return Reply(SLUG, number, 200, body, unknown=UNKNOWN)


def _event(scan: parcel.Scan) -> dict[str, object]:
    return {
        "eventTime": scan.at.isoformat(),
        "status": STATUSES[scan.stage],
        "eventDescription": scan.message,
        "location": {"city": scan.city, "displayName": scan.city, "countryCode": "SE"},
    }


def _fault(code: str, words: str) -> dict[str, object]:
    return {"compositeFault": {"faults": [{"faultCode": code, "explanationText": words}]}}


FAILURES = forms(
    Form(403, _fault("forbidden", "Invalid apikey")),
    Form(429, _fault("tooManyRequests", "Rate limit exceeded"), PAUSE),
    Form(500, _fault("internalError", "Internal error")),
    Form(400, _fault("invalidIdentifier", "The identifier is invalid")),
)

PROBLEM = "Exception_007"
"""Subtag of "the address is wrong", as finely as the courier tells it."""
