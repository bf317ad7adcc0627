"""Hermes Germany's Shipment Info API, after its OpenAPI text.

====== ======================================================= =======================
method path                                                    an unknown number
====== ======================================================= =======================
POST   /hermes-de/authorization-facade/oauth2/access_token     --
GET    /hermes-de/shipmentinfo?shipmentID=N                    200 with e001 inside
====== ======================================================= =======================
"""

from __future__ import annotations

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import Form, forms
from devstack.site.shapes.reply import Asked, Reply, encode, give_token, needs_token
from devstack.site.shapes.several import several

SLUG = "hermes-de"
EVENTS = {
    "Shipping label created": "000000000",
    "Accepted at the post office": "045001008",
    "Arrived at the sorting centre": "030000006",
    "Out for delivery": "050001000",
    "Delivered, front door": "090000000",
    "Incorrect address": "060002004",
}


def read(asked: Asked) -> Reply | None:
    """Answer one request to Hermes."""
    match asked.method, asked.parts:
        case "POST", ("authorization-facade", "oauth2", "access_token"):
            return give_token(SLUG)
        case "GET", ("shipmentinfo",):
            numbers = asked.each("shipmentID") or [""]
            return needs_token(SLUG, asked, numbers[0]) or several(numbers, _one, "shipmentinfo")
    return None


def _one(number: str) -> Reply:
    missing = {"code": "e001", "message": "There is no information for the entered value."}
    unknown = (200, encode({"shipmentinfo": [{"shipmentID": number, "result": missing}]}))
    if not parcel.known(number):
        return Reply(SLUG, number, *unknown, unknown=unknown)
    found = {
        "shipmentID": number,
        "result": {"code": "i001", "message": "Success"},
        "status": [_event(scan) for scan in reversed(parcel.scans(number))],
    }
    return Reply(SLUG, number, 200, encode({"shipmentinfo": [found]}), unknown=unknown)


def _event(scan: parcel.Scan) -> dict[str, object]:
    return {
        "timestamp": f"{scan.at.isoformat()}+01:00",
        "code": EVENTS[scan.message],
        "description": scan.message,
        "scanningUnit": {"name": "Hermes Germany", "city": scan.city, "countryCode": "DEU"},
    }


def _errors(code: str, words: str) -> dict[str, object]:
    return {"listOfResultCodes": [{"code": code, "message": words}]}


FAILURES = forms(
    Form(403, _errors("e900", "You are not authorized to perform this functionality.")),
    Form(429, {"message": "Too many requests"}),
    Form(500, _errors("e999", "General technical error.")),
)

PROBLEM = "Exception_007"
"""Subtag of "the address is wrong", as finely as the courier tells it."""

IMPOSSIBLE = "0000/10"
"""A number that the module refuses by itself: the courier has no answer for one."""
