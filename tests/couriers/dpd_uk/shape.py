"""DPD UK, after the feed behind its public tracking page (unofficial).

====== ======================================= =====================================================
method path                                    answers
====== ======================================= =====================================================
GET    /dpd-uk/v1/reference?referenceNumber=N  the parcel's code; 404 with its own words if unknown
GET    /dpd-uk/v1/parcels/CODE                 what the parcel is
GET    /dpd-uk/v1/parcels/CODE/parcelevents    its events, newest first
====== ======================================= =====================================================
"""

from __future__ import annotations

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import PAUSE, Form, forms
from devstack.site.shapes.reply import Asked, Reply, encode

SLUG = "dpd-uk"
CODE_TAIL = "*20416"

WORDS = {
    "Shipping label created": (
        "We've received your order details, but have not yet received your parcel"
    ),
    "Accepted at the post office": "We have your parcel and it's on its way to our depot",
    "Arrived at the sorting centre": "Your parcel is at our depot",
    "Out for delivery": "Your parcel will be with you today",
    "Delivered, front door": "Your parcel has been delivered",
    "Incorrect address": "We're unable to deliver your parcel: it has an incorrect address",
}

UNKNOWN = (
    404,
    encode(
        {
            "error": {
                "statusCode": 404,
                "error": "Not Found",
                "message": "Your reference number could not be found",
            }
        }
    ),
)


def read(asked: Asked) -> Reply | None:
    """Answer one request to DPD UK."""
    match asked.method, asked.parts:
        case "GET", ("v1", "reference"):
            number = asked.query.get("referenceNumber", "")
            return _reply(number, [_names(number)])
        case "GET", ("v1", "parcels", code):
            number = code.removesuffix(CODE_TAIL)
            return _reply(number, _parcel(number))
        case "GET", ("v1", "parcels", code, "parcelevents"):
            number = code.removesuffix(CODE_TAIL)
            return _reply(number, _events(number))
    return None


def _reply(number: str, data: object) -> Reply:
    if not parcel.known(number):
        return Reply(SLUG, number, *UNKNOWN, unknown=UNKNOWN)
    return Reply(SLUG, number, 200, encode({"data": data}), unknown=UNKNOWN)


def _names(number: str) -> dict[str, object]:
    spaced = f"{number[:4]} {number[4:8]} {number[8:11]} {number[11:]}".strip()
    return {"parcelNumber": spaced, "parcelCode": number + CODE_TAIL}


def _parcel(number: str) -> dict[str, object]:
    scans = parcel.scans(number)
    last = scans[-1]
    when = f"{last.at:%H:%M} on {last.at:%a} {last.at.day} {last.at:%B %Y}"
    return {
        **_names(number),
        "trackingStatusCurrent": f"{WORDS[last.message]} at {when}",
        "shipperDetails": {"customerDisplayName": "A Shop"},
        "shipmentDate": f"{scans[0].at:%Y-%m-%d}",
    }


def _events(number: str) -> list[dict[str, object]]:
    return [
        {
            "eventDate": f"{scan.at:%Y-%m-%d %H:%M:%S}",
            "eventLocation": "DPD",
            "eventText": WORDS[scan.message],
        }
        for scan in reversed(parcel.scans(number))
    ]


FAILURES = forms(
    Form(403, {"message": "Forbidden"}),
    Form(429, {"message": "Too Many Requests"}, PAUSE),
    Form(502, {"message": "Bad Gateway"}),
)

PROBLEM = "Exception_007"
"""Subtag of "the address is wrong", as finely as the courier tells it."""

IMPOSSIBLE = "000010"
"""A number that the module refuses by itself: the courier has no answer for one."""

READ_AGAIN = False
"""The first answer only says where the second is: reading it again would lead nowhere."""
