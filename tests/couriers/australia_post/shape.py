"""Australia Post's Shipping and Tracking, after its reference.

====== ================================================== ========================
method path                                               an unknown number
====== ================================================== ========================
GET    /australia-post/shipping/v1/track?tracking_ids=N   400 with the error 51104, among
                                                          several an error of its own
====== ================================================== ========================
"""

from __future__ import annotations

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import Form, forms, listed
from devstack.site.shapes.reply import Asked, Reply, encode
from devstack.site.shapes.several import several

SLUG = "australia-post"
WORDS = {
    "Shipping label created": "Shipping information received by Australia Post",
    "Accepted at the post office": "Received by Australia Post",
    "Arrived at the sorting centre": "Arrived at facility",
    "Out for delivery": "Onboard for delivery",
    "Delivered, front door": "Delivered",
    "Incorrect address": "Unable to be delivered - incorrect address",
}
STATUSES = {"Delivered": "Delivered", "Exception": "Cannot be delivered"}
UNKNOWN = (
    400,
    encode({"errors": [{"code": "51104", "name": "INVALID_TRACKING_ID", "message": "not found"}]}),
)


def read(asked: Asked) -> Reply | None:
    """Answer one request to Australia Post."""
    if (asked.method, asked.parts) != ("GET", ("shipping", "v1", "track")):
        return None
    numbers = asked.query.get("tracking_ids", "").split(",")
    if len(numbers) == 1:
        return _one(numbers[0], UNKNOWN)
    return several(numbers, lambda number: _one(number, _missing(number)), "tracking_results")


def _missing(number: str) -> tuple[int, bytes]:
    error = {"code": "51104", "name": "INVALID_TRACKING_ID", "message": "not found"}
    return 200, encode({"tracking_results": [{"tracking_id": number, "errors": [error]}]})


def _one(number: str, unknown: tuple[int, bytes]) -> Reply:
    if not parcel.known(number):
        return Reply(SLUG, number, *unknown, unknown=unknown)
    events = [
        {
            "description": WORDS[scan.message],
            "date": f"{scan.at.isoformat()}+10:00",
            "location": f"{scan.city.upper()} VIC",
        }
        for scan in reversed(parcel.scans(number))
    ]
    status = STATUSES.get(parcel.stages(number)[-1][0], "In transit")
    article = {"article_id": number, "status": status, "events": events}
    result = {"tracking_id": number, "status": status, "trackable_items": [article]}
    return Reply(SLUG, number, 200, encode({"tracking_results": [result]}), unknown=unknown)


def _inside(code: str, words: str) -> dict[str, object]:
    error = {"code": code, "name": words, "message": words}
    return {"tracking_results": [{"tracking_id": "{N}", "errors": [error]}]}


FAILURES = forms(
    Form(401, listed("API_001", "Unauthenticated")),
    Form(429, {"errors": [{"error_code": "API_002", "message": "Too many requests"}]}),
    Form(200, _inside("ESB-20050", "System Error")),
    Form(200, _inside("ESB-10001", "Invalid tracking ID")),
)

PROBLEM = "Exception_007"
"""Subtag of "the address is wrong", as finely as the courier tells it."""
