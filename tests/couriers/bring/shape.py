"""Bring and Posten's Tracking, version 2, after its reference.

====== ============================================ ==================================
method path                                         an unknown number
====== ============================================ ==================================
GET    /bring/tracking/api/v2/tracking.json?q=N     200 with an error 404 inside
====== ============================================ ==================================
"""

from __future__ import annotations

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import PAUSE, Form, forms
from devstack.site.shapes.reply import Asked, Reply, encode

SLUG = "bring"
PATH = ("tracking", "api", "v2", "tracking.json")
STATUSES = {
    "Shipping label created": "PRE_NOTIFIED",
    "Accepted at the post office": "HANDED_IN",
    "Arrived at the sorting centre": "IN_TRANSIT",
    "Out for delivery": "TRANSPORT_TO_RECIPIENT",
    "Delivered, front door": "DELIVERED",
    "Incorrect address": "DEVIATION",
}
ERROR = {"code": 404, "message": "No shipments found"}
UNKNOWN = (200, encode({"apiVersion": "2", "consignmentSet": [{"error": ERROR}]}))


def read(asked: Asked) -> Reply | None:
    """Answer one request to Bring."""
    if (asked.method, asked.parts) != ("GET", PATH):
        return None
    number = asked.query.get("q", "")
    if not parcel.known(number):
        return Reply(SLUG, number, *UNKNOWN, unknown=UNKNOWN)
    events = [
        {
            "description": scan.message,
            "status": STATUSES[scan.message],
            "dateIso": f"{scan.at.isoformat()}+01:00",
            "city": scan.city.upper(),
            "countryCode": "NO",
            "insignificant": False,
        }
        for scan in reversed(parcel.scans(number))
    ]
    package = {"packageNumber": number, "eventSet": events}
    consignment = {"consignmentId": f"C{number}", "packageSet": [package]}
    body = encode({"apiVersion": "2", "consignmentSet": [consignment]})
    return Reply(SLUG, number, 200, body, unknown=UNKNOWN)


def _error(code: int, words: str) -> dict[str, object]:
    return {"apiVersion": "2", "consignmentSet": [{"error": {"code": code, "message": words}}]}


FAILURES = forms(
    Form(401, {"message": "Authentication failed"}),
    Form(429, {"message": "Too many requests"}, PAUSE),
    Form(200, _error(500, "Tracking is not available")),
    Form(200, _error(400, "Invalid query")),
)

PROBLEM = "Exception_001"
"""Subtag of "the address is wrong", as finely as the courier tells it."""
