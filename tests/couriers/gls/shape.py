"""GLS Group's Track and Trace, version 1, after its OpenAPI text.

====== ====================================================== ==========================
method path                                                   an unknown number
====== ====================================================== ==========================
POST   /gls/oauth2/v2/token                                   --
GET    /gls/track-and-trace-v1/tracking/simple/trackids/N,N   200 with E_404_01 inside
====== ====================================================== ==========================
"""

from __future__ import annotations

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import Form, apigee, forms
from devstack.site.shapes.reply import Asked, Reply, encode, give_token, needs_token
from devstack.site.shapes.several import several

SLUG = "gls"
EVENTS = {
    "Shipping label created": ("PREADVICE", "INTIAL.PREADVICE"),
    "Accepted at the post office": ("INTRANSIT", "INTIAL.NORMAL"),
    "Arrived at the sorting centre": ("INTRANSIT", "INBOUD.NORMAL"),
    "Out for delivery": ("INDELIVERY", "OUTDEL.NORMAL"),
    "Delivered, front door": ("DELIVERED", "DELIVD.NORMAL"),
    "Incorrect address": ("NOTDELIVERED", "NODELI.ADDRESS"),
}
"""Status of the parcel and code of the event, at each scan."""


def read(asked: Asked) -> Reply | None:
    """Answer one request to GLS."""
    match asked.method, asked.parts:
        case "POST", ("oauth2", "v2", "token"):
            return give_token(SLUG)
        case "GET", ("track-and-trace-v1", "tracking", "simple", "trackids", numbers):
            listed = numbers.split(",")
            return needs_token(SLUG, asked, listed[0]) or several(listed, _one, "parcels")
    return None


def _one(number: str) -> Reply:
    missing = {"requested": number, "errorCode": "E_404_01", "errorMessage": "Resource Not Found"}
    unknown = (200, encode({"parcels": [missing]}))
    if not parcel.known(number):
        return Reply(SLUG, number, *unknown, unknown=unknown)
    scans = parcel.scans(number)
    found = {
        "requested": number,
        "unitno": number,
        "status": EVENTS[scans[-1].message][0],
        "events": [_event(scan) for scan in reversed(scans)],
    }
    return Reply(SLUG, number, 200, encode({"parcels": [found]}), unknown=unknown)


def _event(scan: parcel.Scan) -> dict[str, object]:
    return {
        "code": EVENTS[scan.message][1],
        "description": scan.message,
        "eventDateTime": f"{scan.at.isoformat()}+0100",
        "city": scan.city,
        "country": "DE",
    }


def _error(code: str) -> dict[str, object]:
    parcel = {"requested": "{N}", "errorCode": code, "errorMessage": "The request failed."}
    return {"parcels": [parcel]}


FAILURES = forms(
    Form(401, apigee("Token expired", "steps.jwt.TokenExpired")),
    Form(429, apigee("Rate limit", "policies.ratelimit.QuotaViolation")),
    Form(200, _error("E_500_01")),
    Form(200, _error("E_400_01")),
)

PROBLEM = "Exception_007"
"""Subtag of "the address is wrong", as finely as the courier tells it."""

UNKNOWN_CODES = ("NODELI.ADDRESS",)
"""Codes in the stories above that the module has no meaning for."""
