"""New Zealand Post's ParcelTrack, version 3.0, after its description.

====== ================================================== ==========================
method path                                               an unknown number
====== ================================================== ==========================
POST   /new-zealand-post/as/token.oauth2                  --
GET    /new-zealand-post/parceltrack/3.0/parcels/N        200 without events
====== ================================================== ==========================
"""

from __future__ import annotations

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import PAUSE, Form, forms
from devstack.site.shapes.reply import Asked, Reply, encode, give_token, needs_token

SLUG = "new-zealand-post"
CODES = {
    "Shipping label created": "78",
    "Accepted at the post office": "13",
    "Arrived at the sorting centre": "8",
    "Out for delivery": "32",
    "Delivered, front door": "22",
    "Incorrect address": "544",
}


def read(asked: Asked) -> Reply | None:
    """Answer one request to New Zealand Post."""
    match asked.method, asked.parts:
        case "POST", ("as", "token.oauth2"):
            return give_token(SLUG)
        case "GET", ("parceltrack", "3.0", "parcels", number):
            return needs_token(SLUG, asked, number) or _one(number)
    return None


def _one(number: str) -> Reply:
    results: dict[str, object] = {"tracking_reference": number, "carrier": "CourierPost"}
    unknown = (200, encode({"success": True, "results": results}))
    if not parcel.known(number):
        return Reply(SLUG, number, *unknown, unknown=unknown)
    events = [_event(scan, number) for scan in parcel.scans(number)]
    body = {"success": True, "results": results | {"tracking_events": events}}
    return Reply(SLUG, number, 200, encode(body), unknown=unknown)


def _event(scan: parcel.Scan, number: str) -> dict[str, object]:
    return {
        "tracking_reference": number,
        "event_edifact_code": CODES[scan.message],
        "source": "CME",
        "status_description": scan.stage,
        "event_description": f"{scan.message} ({scan.city})",
        "event_datetime": scan.at.isoformat(),
        "signed_by": {"name": "", "signature": ""},
    }


def _error(code: str, words: str) -> dict[str, object]:
    return {"success": False, "errors": {"code": code, "message": words, "details": ""}}


FAILURES = forms(
    Form(401, _error("401001", "Unauthorised access, please contact administrator")),
    Form(429, {"error": "Quota has been exceeded"}, PAUSE),
    Form(200, _error("500002", "System(s) offline")),
    Form(400, _error("400002", "Invalid parameter(s)")),
)

PROBLEM = "Exception_001"
"""Subtag of "the address is wrong", as finely as the courier tells it."""
