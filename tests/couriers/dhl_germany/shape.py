"""DHL Parcel DE Tracking, after DHL's sandbox.

====== ==================================================== ===========================
method path                                                 an unknown number
====== ==================================================== ===========================
GET    /dhl-germany/parcel/de/tracking/v0/shipments?xml=…   200 with the code 100 inside
====== ==================================================== ===========================
"""

from __future__ import annotations

import re
from xml.sax.saxutils import quoteattr

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import Form, forms
from devstack.site.shapes.reply import Asked, Reply

SLUG = "dhl-germany"
XML = {"Content-Type": "application/xml"}
EVENTS = {
    "Shipping label created": ("PARCV", "NRQRD", "VA"),
    "Accepted at the post office": ("SHRCU", "SERPT", "ES"),
    "Arrived at the sorting centre": ("ULFMV", "UNLDD", "EE"),
    "Out for delivery": ("SRTED", "NRQRD", "PO"),
    "Delivered, front door": ("DLVRD", "SECPL", "ZU"),
    "Incorrect address": ("EXPHD", "BDADD", "BV"),
}


def read(asked: Asked) -> Reply | None:
    """Answer one request to DHL."""
    if (asked.method, asked.parts) != ("GET", ("parcel", "de", "tracking", "v0", "shipments")):
        return None
    named = re.search(r'piece-code="(.*?)"', asked.query.get("xml", ""))
    return _one(named[1] if named else "")


def _one(number: str) -> Reply:
    unknown = (200, data("piece-shipment-list", code="100", error="No data found").encode())
    if not parcel.known(number):
        return Reply(SLUG, number, *unknown, unknown=unknown, headers=XML)
    events = "".join(_event(scan) for scan in parcel.scans(number))
    found = data("piece-shipment", data("piece-event-list", events), piece_code=number)
    body = data("piece-shipment-list", found, code="0")
    return Reply(SLUG, number, 200, body.encode(), unknown=unknown, headers=XML)


def data(name: str, inside: str = "", **attributes: str) -> str:
    """Write an element as DHL does: they all are called "data"."""
    written = {"name": name} | {key.replace("_", "-"): each for key, each in attributes.items()}
    plain = " ".join(f"{key}={quoteattr(each)}" for key, each in written.items())
    return f"<data {plain}>{inside}</data>"


def _event(scan: parcel.Scan) -> str:
    what, why, coarse = EVENTS[scan.message]
    return data(
        "piece-event",
        event_timestamp=f"{scan.at:%d.%m.%Y %H:%M}",
        event_status=scan.message,
        event_location=scan.city,
        event_country="Germany",
        ice=what,
        ric=why,
        standard_event_code=coarse,
        ruecksendung="false",
    )


FAILURES = forms(
    Form(200, data("piece-shipment-list", code="5", error="Login failed")),
    Form(429, {"title": "Too Many Requests", "status": 429}),
    Form(503, {"title": "Service Unavailable", "status": 503}),
    Form(200, data("piece-shipment-list", code="41", error="Invalid number")),
    "<notice>This service has a new address.</notice>",
)

PROBLEM = "Exception_007"
"""Subtag of "the address is wrong", as finely as the courier tells it."""
