"""Royal Mail Tracking API v2, after its specification.

====== ====================================== =================================
method path                                   an unknown number
====== ====================================== =================================
GET    /royal-mail/mailpieces/v2/N/events     404 with the error code E1284
====== ====================================== =================================
"""

from __future__ import annotations

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import Form, forms
from devstack.site.shapes.reply import Asked, Reply, encode

SLUG = "royal-mail"
CODES = {
    "Shipping label created": "EVAIE",
    "Accepted at the post office": "EVPPA",
    "Arrived at the sorting centre": "EVDAV",
    "Out for delivery": "EVGPD",
    "Delivered, front door": "EVKOP",
    "Incorrect address": "EVNRT",
}
ERROR = {"errorCode": "E1284", "errorDescription": "No update is available yet"}
UNKNOWN = (404, encode({"httpCode": "404", "httpMessage": "Not Found", "errors": [ERROR]}))


def read(asked: Asked) -> Reply | None:
    """Answer one request to Royal Mail."""
    match asked.method, asked.parts:
        case "GET", ("mailpieces", "v2", number, "events"):
            return _one(number)
    return None


def _one(number: str) -> Reply:
    if not parcel.known(number):
        return Reply(SLUG, number, *UNKNOWN, unknown=UNKNOWN)
    events = [
        {
            "eventCode": CODES[scan.message],
            "eventName": scan.message,
            "eventDateTime": f"{scan.at.isoformat()}+00:00",
            "locationName": f"{scan.city} DO",
        }
        for scan in reversed(parcel.scans(number))
    ]
    piece = {"mailPieceId": number, "summary": {"oneDBarcode": number}, "events": events}
    return Reply(SLUG, number, 200, encode({"mailPieces": piece}), unknown=UNKNOWN)


def _errors(status: int, code: str, words: str) -> dict[str, object]:
    error = {"errorCode": code, "errorDescription": words}
    return {"httpCode": str(status), "httpMessage": words, "errors": [error]}


FAILURES = forms(
    Form(401, {"httpCode": "401", "httpMessage": "Unauthorized"}),
    Form(429, _errors(429, "E0010", "Too Many Requests")),
    Form(200, _errors(503, "E1307", "The service is unavailable")),
    Form(400, _errors(400, "E1142", "Barcode reference isn't recognised")),
)

PROBLEM = "Exception_001"
"""Subtag of "the address is wrong", as finely as the courier tells it."""
