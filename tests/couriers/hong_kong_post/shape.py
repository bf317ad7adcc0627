"""Hongkong Post's Mail Tracking API, from its public description.

====== ========================================== ======================
method path                                       asks
====== ========================================== ======================
POST   /hong-kong-post/api/authenticate           a token
POST   /hong-kong-post/api/version/1/mailTracking `{"itemNo": [N]}`
====== ========================================== ======================

The names of fields are for registered users only: these are the assumptions of the courier module.
"""

from __future__ import annotations

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import PAUSE, Form, forms
from devstack.site.shapes.reply import Asked, Kind, Reply, encode

SLUG = "hong-kong-post"
TOKEN_SECONDS = 900

WORDS = {
    "Shipping label created": "Sender is preparing item for posting",
    "Accepted at the post office": "Posted",
    "Arrived at the sorting centre": "The item arrived at processing centre",
    "Out for delivery": "Out for delivery",
    "Delivered, front door": "Delivered",
    "Incorrect address": "Incorrect address",
}


def read(asked: Asked) -> Reply | None:
    """Answer one request to Hongkong Post."""
    match asked.method, asked.parts:
        case "POST", ("api", "authenticate"):
            token = encode({"token": "courier-site-hkpost", "expiresIn": TOKEN_SECONDS})
            return Reply(SLUG, "", 200, token, kind=Kind.TOKEN)
        case "POST", ("api", "version", "1", "mailTracking"):
            numbers = _numbers(asked)
            found = encode({"items": [_item(number) for number in numbers]})
            missing = encode({"items": [_unknown(number) for number in numbers]})
            return Reply(SLUG, ",".join(numbers), 200, found, unknown=(200, missing))
    return None


def _numbers(asked: Asked) -> list[str]:
    body = asked.json
    numbers = body.get("itemNo") if isinstance(body, dict) else None
    return [str(number) for number in numbers] if isinstance(numbers, list) else []


def _item(number: str) -> dict[str, object]:
    if not parcel.known(number):
        return _unknown(number)
    events = [
        {
            "eventDateTime": f"{scan.at:%Y-%m-%d %H:%M:%S}",
            "status": WORDS[scan.message],
            "location": scan.city,
            "country": "Hong Kong",
        }
        for scan in reversed(parcel.scans(number))
    ]
    return {"itemNo": number, "events": events}


def _unknown(number: str) -> dict[str, object]:
    return {"itemNo": number, "events": [], "message": "No record found"}


FAILURES = forms(
    Form(401, {"message": "Unauthorized"}),
    Form(429, {"message": "Too many requests"}, PAUSE),
    Form(500, {"message": "System error"}),
    Form(400, {"message": "Invalid Mail Number"}),
)

PROBLEM = "Exception_007"
"""Subtag of "the address is wrong", as finely as the courier tells it."""
