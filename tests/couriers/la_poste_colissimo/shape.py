"""La Poste's Suivi v2, after its OpenAPI text.

====== ============================================ ===========================
method path                                         an unknown number
====== ============================================ ===========================
GET    /la-poste-colissimo/suivi/v2/idships/N,N     404 with the return code 104
====== ============================================ ===========================
"""

from __future__ import annotations

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import PAUSE, Form, forms
from devstack.site.shapes.reply import Asked, Reply, encode
from devstack.site.shapes.several import several

SLUG = "la-poste-colissimo"
EVENTS = {
    "Shipping label created": ("DR1", "Your parcel will soon be handed to us."),
    "Accepted at the post office": ("PC1", "Your parcel was handed in at a post office."),
    "Arrived at the sorting centre": ("ET1", "Your parcel is in one of our sorting centres."),
    "Out for delivery": ("MD2", "Your parcel is being prepared for its delivery."),
    "Delivered, front door": ("DI1", "Your parcel has been delivered."),
    "Incorrect address": ("PB1", "The address of your parcel is incorrect."),
}


def read(asked: Asked) -> Reply | None:
    """Answer one request to La Poste."""
    match asked.method, asked.parts:
        case "GET", ("suivi", "v2", "idships", numbers):
            return several(numbers.split(","), _one)
    return None


def _one(number: str) -> Reply:
    missing = {"returnCode": 104, "returnMessage": "Nothing known for now", "idShip": number}
    unknown = (404, encode(missing))
    if not parcel.known(number):
        return Reply(SLUG, number, *unknown, unknown=unknown)
    events = [
        {
            "code": EVENTS[scan.message][0],
            "label": EVENTS[scan.message][1],
            "date": f"{scan.at.isoformat()}+01:00",
        }
        for scan in reversed(parcel.scans(number))
    ]
    shipment = {"idShip": number, "isFinal": parcel.delivered(number), "event": events}
    body = {"lang": "en_GB", "returnCode": 200, "shipment": shipment}
    return Reply(SLUG, number, 200, encode(body), unknown=unknown)


def _error(code: int, words: str) -> dict[str, object]:
    return {"returnCode": code, "returnMessage": words, "idShip": "{N}"}


FAILURES = forms(
    Form(401, {"code": "UNAUTHORIZED", "message": "Invalid key"}),
    Form(429, {"message": "Too many requests"}, PAUSE),
    Form(500, _error(500, "Internal error")),
    Form(400, _error(400, "Invalid number")),
)

PROBLEM = "Exception_001"
"""Subtag of "the address is wrong", as finely as the courier tells it."""
