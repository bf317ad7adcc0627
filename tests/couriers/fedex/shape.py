"""FedEx: token and Track API v1, after its API reference.

====== ================================== ======================= ===============================
method path                               asks                    an unknown number
====== ================================== ======================= ===============================
POST   /fedex/oauth/token                 a token                 --
POST   /fedex/track/v1/trackingnumbers    numbers in its JSON     200 with an error NOTFOUND
====== ================================== ======================= ===============================
"""

from __future__ import annotations

from typing import Any

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import Form, forms, listed
from devstack.site.shapes.reply import Asked, Reply, encode, give_token, needs_token
from devstack.site.shapes.several import several

SLUG = "fedex"
CODES = {
    "Shipping label created": "OC",
    "Accepted at the post office": "PU",
    "Arrived at the sorting centre": "AR",
    "Out for delivery": "OD",
    "Delivered, front door": "DL",
    "Incorrect address": "DE",
}


def read(asked: Asked) -> Reply | None:
    """Answer one request to FedEx."""
    match asked.method, asked.parts:
        case "POST", ("oauth", "token"):
            return give_token(SLUG)
        case "POST", ("track", "v1", "trackingnumbers"):
            numbers = _numbers(asked.json) or [""]
            joined = several(numbers, _one, "output", "completeTrackResults")
            return needs_token(SLUG, asked, numbers[0]) or joined
    return None


def _numbers(body: Any) -> list[str]:
    try:
        listed = [each["trackingNumberInfo"] for each in body["trackingInfo"]]
        return [str(each["trackingNumber"]) for each in listed]
    except (KeyError, TypeError):
        return []


def _one(number: str) -> Reply:
    error = {"code": "TRACKING.TRACKINGNUMBER.NOTFOUND", "message": "Tracking number not found"}
    unknown = (200, _answer(number, {"error": error}))
    if not parcel.known(number):
        return Reply(SLUG, number, *unknown, unknown=unknown)
    scans = parcel.scans(number)
    result: dict[str, object] = {
        "latestStatusDetail": {"code": CODES[scans[-1].message]},
        "scanEvents": [_scan(scan) for scan in reversed(scans)],
    }
    return Reply(SLUG, number, 200, _answer(number, result), unknown=unknown)


def _answer(number: str, result: dict[str, object]) -> bytes:
    complete = {"trackingNumber": number, "trackResults": [result]}
    return encode({"output": {"completeTrackResults": [complete]}})


def _scan(scan: parcel.Scan) -> dict[str, object]:
    held_up = scan.stage == "Exception"
    return {
        "date": f"{scan.at.isoformat()}-08:00",
        "eventType": CODES[scan.message],
        "eventDescription": "Delivery exception" if held_up else scan.message,
        "exceptionCode": "03" if held_up else "",
        "exceptionDescription": scan.message if held_up else "",
        "scanLocation": {"city": scan.city, "countryCode": "US"},
    }


def _inside(code: str) -> dict[str, object]:
    result = {"error": {"code": code, "message": "The request failed."}}
    complete = [{"trackingNumber": "{N}", "trackResults": [result]}]
    return {"output": {"completeTrackResults": complete}}


FAILURES = forms(
    Form(401, listed("NOT.AUTHORIZED.ERROR", "Access token expired.")),
    Form(429, listed("RATE.LIMIT.EXCEEDED", "We have received too many requests.")),
    Form(200, _inside("SYSTEM.UNAVAILABLE.EXCEPTION")),
    Form(200, _inside("TRACKING.TRACKINGNUMBER.INVALID")),
)

PROBLEM = "Exception_007"
"""Subtag of "the address is wrong", as finely as the courier tells it."""
