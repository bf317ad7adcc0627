"""Chronopost's tracking service, after its description.

====== ====================================================== ==========================
method path                                                   an unknown number
====== ====================================================== ==========================
POST   /chronopost-france/tracking-cxf/TrackingServiceWS      a parcel without events
====== ====================================================== ==========================
"""

from __future__ import annotations

import re

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import Form, forms
from devstack.site.shapes.reply import Asked, Reply

SLUG = "chronopost-france"
XML = {"Content-Type": "text/xml;charset=UTF-8"}
EVENTS = {
    "Shipping label created": "DC",
    "Accepted at the post office": "DB",
    "Arrived at the sorting centre": "SC",
    "Out for delivery": "TA",
    "Delivered, front door": "D",
    "Incorrect address": "SK",
}


def read(asked: Asked) -> Reply | None:
    """Answer one request to Chronopost."""
    if (asked.method, asked.parts) != ("POST", ("tracking-cxf", "TrackingServiceWS")):
        return None
    named = re.search(rb"<skybillNumber>(.*?)</skybillNumber>", asked.body)
    return _one(named[1].decode() if named else "")


def _one(number: str) -> Reply:
    unknown = (200, _result("0", f"<skybillNumber>{number}</skybillNumber>").encode())
    if not parcel.known(number):
        return Reply(SLUG, number, *unknown, unknown=unknown, headers=XML)
    events = "".join(map(_event, parcel.scans(number)))
    body = _result("0", f"{events}<skybillNumber>{number}</skybillNumber>")
    return Reply(SLUG, number, 200, body.encode(), unknown=unknown, headers=XML)


def _event(scan: parcel.Scan) -> str:
    return (
        f"<events><code>{EVENTS[scan.message]}</code>"
        f"<eventDate>{scan.at.isoformat()}+01:00</eventDate>"
        f"<eventLabel>{scan.message}</eventLabel><officeLabel>{scan.city}</officeLabel></events>"
    )


def _result(code: str, inside: str) -> str:
    return _envelope(
        '<t:trackSkybillV2Response xmlns:t="http://cxf.tracking.soap.chronopost.fr/"><return>'
        f"<errorCode>{code}</errorCode><listEventInfoComp>{inside}</listEventInfoComp>"
        "</return></t:trackSkybillV2Response>"
    )


def _envelope(inside: str) -> str:
    soap = "http://schemas.xmlsoap.org/soap/envelope/"
    return f'<s:Envelope xmlns:s="{soap}"><s:Body>{inside}</s:Body></s:Envelope>'


FAILURES = forms(
    Form(403, "<html>Forbidden</html>"),
    Form(429, "<html>Too Many Requests</html>"),
    Form(500, _envelope("<s:Fault><faultstring>Internal error</faultstring></s:Fault>")),
    changed="<notice>This service has a new address.</notice>",
)

PROBLEM = "Exception_001"
"""Subtag of "the address is wrong", as finely as the courier tells it."""

IMPOSSIBLE = "0000/10"
"""A number that the module refuses by itself: the courier has no answer for one."""
