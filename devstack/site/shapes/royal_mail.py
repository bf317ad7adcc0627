"""Royal Mail Tracking API v2, after its specification.

====== ====================================== =================================
method path                                   an unknown number
====== ====================================== =================================
GET    /royal-mail/mailpieces/v2/N/events     404 with the error code E1284
====== ====================================== =================================
"""

from __future__ import annotations

from devstack.site.shapes import parcel
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
