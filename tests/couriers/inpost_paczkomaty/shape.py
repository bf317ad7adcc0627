"""InPost's Tracking in ShipX, after its description.

====== ===================================== ==================================
method path                                  an unknown number
====== ===================================== ==================================
GET    /inpost-paczkomaty/v1/tracking/N      404 with resource_not_found
====== ===================================== ==================================
"""

from __future__ import annotations

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import PAUSE, Form, forms
from devstack.site.shapes.reply import Asked, Reply, encode

SLUG = "inpost-paczkomaty"
STATUSES = {
    "Shipping label created": "confirmed",
    "Accepted at the post office": "dispatched_by_sender",
    "Arrived at the sorting centre": "adopted_at_sorting_center",
    "Out for delivery": "out_for_delivery",
    "Delivered, front door": "delivered",
    "Incorrect address": "undelivered_wrong_address",
}


def _error(status: int, name: str) -> dict[str, object]:
    return {"status": status, "error": name, "message": "The request failed.", "details": {}}


UNKNOWN = (404, encode(_error(404, "resource_not_found")))


def read(asked: Asked) -> Reply | None:
    """Answer one request to InPost."""
    match asked.method, asked.parts:
        case "GET", ("v1", "tracking", number):
            return _one(number)
    return None


def _one(number: str) -> Reply:
    if not parcel.known(number):
        return Reply(SLUG, number, *UNKNOWN, unknown=UNKNOWN)
    events = [
        {
            "status": STATUSES[scan.message],
            "origin_status": "X",
            "agency": scan.city,
            "datetime": f"{scan.at.isoformat()}.000+01:00",
        }
        for scan in reversed(parcel.scans(number))
    ]
    body = {
        "tracking_number": number,
        "service": "inpost_locker_standard",
        "status": events[0]["status"],
        "tracking_details": events,
        "expected_flow": [],
    }
    return Reply(SLUG, number, 200, encode(body), unknown=UNKNOWN)


FAILURES = forms(
    Form(401, _error(401, "unauthorized")),
    Form(429, _error(429, "too_many_requests"), PAUSE),
    Form(503, _error(503, "service_unavailable")),
)

PROBLEM = "Exception_007"
"""Subtag of "the address is wrong", as finely as the courier tells it."""

IMPOSSIBLE = "0000/10"
"""A number that the module refuses by itself: the courier has no answer for one."""
