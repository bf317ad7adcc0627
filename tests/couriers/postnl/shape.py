"""PostNL's Shippingstatus, version 2, after its OpenAPI text.

====== ============================================ ===============================
method path                                         an unknown number
====== ============================================ ===============================
GET    /postnl/shipment/v2/status/barcode/N         200 with a warning
====== ============================================ ===============================
"""

from __future__ import annotations

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import Form, apigee, forms
from devstack.site.shapes.reply import Asked, Reply, encode

SLUG = "postnl"
CODES = {
    "Shipping label created": ("1", "01A"),
    "Accepted at the post office": ("2", "01B"),
    "Arrived at the sorting centre": ("5", "01J"),
    "Out for delivery": ("7", "05J"),
    "Delivered, front door": ("11", "01I"),
    "Incorrect address": ("6", "01Y"),
}
"""Code of the status and of the event, at each scan."""

WARNING = {"Message": "No shipment found", "Code": "2"}
UNKNOWN = (200, encode({"CurrentStatus": {}, "Warnings": [WARNING]}))


def read(asked: Asked) -> Reply | None:
    """Answer one request to PostNL."""
    match asked.method, asked.parts:
        case "GET", ("shipment", "v2", "status", "barcode", number):
            return _one(number)
    return None


def _one(number: str) -> Reply:
    if not parcel.known(number):
        return Reply(SLUG, number, *UNKNOWN, unknown=UNKNOWN)
    events = [
        {
            "Code": CODES[scan.message][1],
            "Description": scan.message,
            "TimeStamp": f"{scan.at:%d-%m-%Y %H:%M:%S}",
            "RouteName": {},
        }
        for scan in reversed(parcel.scans(number))
    ]
    last = parcel.scans(number)[-1]
    status = {"StatusCode": CODES[last.message][0], "TimeStamp": events[0]["TimeStamp"]}
    shipment = {"Barcode": number, "MainBarcode": number, "Event": events, "Status": status}
    body = encode({"CompleteStatus": {"Shipment": shipment}})
    return Reply(SLUG, number, 200, body, unknown=UNKNOWN)


FAILURES = forms(
    Form(401, apigee("Invalid ApiKey", "oauth.v2.InvalidApiKey")),
    Form(429, apigee("Rate limit quota violation", "policies.ratelimit.QuotaViolation")),
    Form(500, apigee("Internal server error", "InternalServerError")),
    Form(400, {"Errors": [{"Message": "Invalid barcode", "Code": "5"}]}),
)

PROBLEM = "Exception_007"
"""Subtag of "the address is wrong", as finely as the courier tells it."""
