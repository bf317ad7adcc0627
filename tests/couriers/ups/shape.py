"""UPS: token and Track API v1, after its published OpenAPI text.

====== ================================== ====================== ================================
method path                               asks                   an unknown number
====== ================================== ====================== ================================
POST   /ups/security/v1/oauth/token       a token                --
GET    /ups/api/track/v1/details/N        one number             200 with the warning TW0001
====== ================================== ====================== ================================
"""

from __future__ import annotations

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import Form, forms
from devstack.site.shapes.reply import Asked, Reply, encode, give_token, needs_token

SLUG = "ups"
CODES = {
    "Shipping label created": ("M", "003"),
    "Accepted at the post office": ("P", "038"),
    "Arrived at the sorting centre": ("I", "005"),
    "Out for delivery": ("O", "021"),
    "Delivered, front door": ("D", "011"),
    "Incorrect address": ("X", "050"),
}
"""Type and status code of each scan."""


def read(asked: Asked) -> Reply | None:
    """Answer one request to UPS."""
    match asked.method, asked.parts:
        case "POST", ("security", "v1", "oauth", "token"):
            return give_token(SLUG)
        case "GET", ("api", "track", "v1", "details", number):
            return needs_token(SLUG, asked, number) or _one(number)
    return None


def _one(number: str) -> Reply:
    warning = {"code": "TW0001", "message": "Tracking Information Not Found"}
    shipment: dict[str, object] = {"inquiryNumber": number, "warnings": [warning]}
    unknown = (200, encode({"trackResponse": {"shipment": [shipment]}}))
    if not parcel.known(number):
        return Reply(SLUG, number, *unknown, unknown=unknown)
    activity = [_activity(scan) for scan in reversed(parcel.scans(number))]
    package = {
        "trackingNumber": number,
        "activity": activity,
        "currentStatus": {"code": CODES[parcel.scans(number)[-1].message][1]},
    }
    body = {"trackResponse": {"shipment": [{"inquiryNumber": number, "package": [package]}]}}
    return Reply(SLUG, number, 200, encode(body), unknown=unknown)


def _activity(scan: parcel.Scan) -> dict[str, object]:
    kind, code = CODES[scan.message]
    address = {"city": scan.city, "countryCode": "US"}
    return {
        "date": f"{scan.at:%Y%m%d}",
        "time": f"{scan.at:%H%M%S}",
        "gmtOffset": "-08:00",
        "status": {"type": kind, "statusCode": code, "description": scan.message},
        "location": {"address": address},
    }


def _errors(code: str, words: str) -> dict[str, object]:
    return {"response": {"errors": [{"code": code, "message": words}]}}


FAILURES = forms(
    Form(401, _errors("250003", "Invalid Access License number")),
    Form(429, _errors("10429", "Quota Limit Exceeded")),
    Form(503, _errors("10503", "Service unavailable")),
    Form(400, _errors("TV1002", "Invalid inquiry number")),
)

PROBLEM = "Exception_007"
"""Subtag of "the address is wrong", as finely as the courier tells it."""
