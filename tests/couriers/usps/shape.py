"""USPS: token, tracking 3.0 (`v3`) and 3.2 (`v3r2`), after developers.usps.com.

====== ============================ ===================================== ==========================
method path                         asks                                  an unknown number
====== ============================ ===================================== ==========================
POST   /usps/oauth2/v3/token        a token                               --
GET    /usps/tracking/v3/tracking/N one number                            400, error code 150001
POST   /usps/tracking/v3r2/tracking `[{"trackingNumber": N}]`             404; 207: some are known
====== ============================ ===================================== ==========================
"""

from __future__ import annotations

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import PAUSE, Form, forms
from devstack.site.shapes.parcel import Scan
from devstack.site.shapes.reply import Asked, Kind, Reply, encode

SLUG = "usps"
TOKEN = "courier-site-usps"  # noqa: S105 - what the made-up courier gives to everybody
TOKEN_SECONDS = "28799"  # noqa: S105 - a string, as in the documented answer

EVENTS = {
    "Shipping label created": ("Shipping Label Created, USPS Awaiting Item", "GX", "Pre-Shipment"),
    "Accepted at the post office": ("USPS in possession of item", "03", "Accepted"),
    "Arrived at the sorting centre": ("Arrived at USPS Facility", "10", "In Transit"),
    "Out for delivery": ("Out for Delivery", "OF", "Out for Delivery"),
    "Delivered, front door": ("Delivered, Front Door/Porch", "01", "Delivered"),
    "Incorrect address": ("Insufficient Address", "22", "Alert"),
}
"""Event type, event code and status category of each scan."""

GMT_OFFSET = "-08:00"
NOT_FOUND = {"code": "404", "message": "The tracking number is not known (yet)."}


def read(asked: Asked) -> Reply | None:
    """Answer one request to USPS."""
    match asked.method, asked.parts:
        case "POST", ("oauth2", "v3", "token"):
            return _token()
        case "GET", ("tracking", "v3", "tracking", number):
            return _authorised(asked, number) or _one(number)
        case "POST", ("tracking", "v3r2", "tracking"):
            numbers = _numbers(asked)
            return _authorised(asked, "".join(numbers[:1])) or _several(numbers)
    return None


def _token() -> Reply:
    body = {
        "access_token": TOKEN,
        "token_type": "Bearer",
        "issued_at": 1_790_000_000_000,
        "expires_in": TOKEN_SECONDS,
        "status": "approved",
        "scope": "tracking",
    }
    return Reply(SLUG, "", 200, encode(body), kind=Kind.TOKEN)


def _authorised(asked: Asked, number: str) -> Reply | None:
    if asked.headers.get("Authorization") == f"Bearer {TOKEN}":
        return None
    error = {"apiVersion": "/tracking/v3", "error": {"code": "401", "message": "Invalid token"}}
    return Reply(SLUG, number, 401, encode(error))


def _one(number: str) -> Reply:
    detail = {
        "title": "Status not available",
        "detail": "A status update is not yet available on your package.",
        "code": "150001",
    }
    error = {"code": "400", "message": "Tracking number not found", "errors": [detail]}
    unknown = (400, encode({"apiVersion": "/tracking/v3", "error": error}))
    if not parcel.known(number):
        return Reply(SLUG, number, *unknown, unknown=unknown)
    return Reply(SLUG, number, 200, encode(_tracking(number, "eventZIP")), unknown=unknown)


def _several(numbers: list[str]) -> Reply:
    number, *riders = numbers or [""]
    unknown = (404, encode({"apiVersion": "/tracking/v3r2", "error": NOT_FOUND}))
    found = [parcel.known(number) for number in numbers]
    if not any(found):
        return Reply(SLUG, number, *unknown, unknown=unknown, riders=tuple(riders))
    items = [
        {"statusCode": "200", **_tracking(each, "eventZIPCode")} if known else _not_found(each)
        for each, known in zip(numbers, found, strict=True)
    ]
    status, body = 200 if all(found) else 207, encode(items)
    return Reply(SLUG, number, status, body, unknown=unknown, riders=tuple(riders))


def _not_found(number: str) -> dict[str, object]:
    return {"trackingNumber": number, "statusCode": "404", "error": NOT_FOUND}


def _tracking(number: str, zip_name: str) -> dict[str, object]:
    scans = parcel.scans(number)
    status, _, category = EVENTS[scans[-1].message]
    return {
        "trackingNumber": number,
        "mailClass": "USPS Ground Advantage<SUP>&#153;</SUP>",
        "originCity": scans[0].city.upper(),
        "destinationCity": scans[-1].city.upper(),
        "status": status,
        "statusCategory": category,
        "statusSummary": f"{status} in {scans[-1].city.upper()}.",
        "trackingEvents": [_event(scan, zip_name) for scan in reversed(scans)],
    }


def _event(scan: Scan, zip_name: str) -> dict[str, object]:
    kind, code, _ = EVENTS[scan.message]
    return {
        "eventType": kind,
        "eventTimestamp": scan.at.isoformat(),
        "GMTOffset": GMT_OFFSET,
        "eventCountry": "",
        "eventCity": scan.city.upper(),
        "eventState": "OR",
        zip_name: "97201",
        "firm": "",
        "name": "",
        "authorizedAgent": "false",
        "eventCode": code,
    }


def _numbers(asked: Asked) -> list[str]:
    items = asked.json
    if not isinstance(items, list):
        return []
    return [str(item.get("trackingNumber", "")) for item in items if isinstance(item, dict)]


def _error(status: int, detail: str = "") -> dict[str, object]:
    errors = [{"code": detail, "title": "Not trackable", "status": str(status)}] if detail else []
    error = {"code": str(status), "message": "The request failed.", "errors": errors}
    return {"apiVersion": "/tracking/v3r2", "error": error}


FAILURES = forms(
    Form(401, _error(401)),
    Form(429, _error(429), PAUSE),
    Form(503, _error(503)),
    Form(400, _error(400, "150008")),
)

PROBLEM = "Exception_007"
"""Subtag of "the address is wrong", as finely as the courier tells it."""
