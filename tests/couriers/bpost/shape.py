"""bpost's TrackingInfo, after its XML schema.

====== ======================================================= ============================
method path                                                    an unknown number
====== ======================================================= ============================
GET    /bpost/services/trackedmail/item/N/trackingInfo         404 with a businessException
====== ======================================================= ============================
"""

from __future__ import annotations

from xml.sax.saxutils import escape

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import Form, forms
from devstack.site.shapes.reply import Asked, Reply

SLUG = "bpost"
XML = {"Content-Type": "application/xml"}
STATES = {
    "Shipping label created": "Confirmation of preparation of the shipment received",
    "Accepted at the post office": "Your item has been sorted",
    "Arrived at the sorting centre": "Arrival at international depot",
    "Out for delivery": "The postman's delivery round for your item has started",
    "Delivered, front door": "Item delivered",
    "Incorrect address": "Incorrect address",
}


def read(asked: Asked) -> Reply | None:
    """Answer one request to bpost."""
    match asked.method, asked.parts:
        case "GET", ("services", "trackedmail", "item", number, "trackingInfo"):
            return _one(number)
    return None


def _one(number: str) -> Reply:
    unknown = (404, _exception("business", "Item not found").encode())
    if not parcel.known(number):
        return Reply(SLUG, number, *unknown, unknown=unknown, headers=XML)
    states = "".join(map(_state, parcel.scans(number)))
    space, code = "http://schema.post.be/tracking/v1/", f"<itemCode>{escape(number)}</itemCode>"
    body = f'<itemTracking xmlns="{space}">{code}{states}</itemTracking>'
    return Reply(SLUG, number, 200, body.encode(), unknown=unknown, headers=XML)


def _state(scan: parcel.Scan) -> str:
    # Of no other state the code is known.
    code = "U01" if scan.stage == "Delivered" else ""
    return (
        f"<stateInfo><time>{scan.at.isoformat()}+01:00</time><location>{scan.city}</location>"
        f"<stateCode>{code}</stateCode><stateDescription>{STATES[scan.message]}</stateDescription>"
        "</stateInfo>"
    )


def _exception(kind: str, words: str) -> str:
    return f"<{kind}Exception><message>{words}</message></{kind}Exception>"


FAILURES = forms(
    Form(401, "<html>Unauthorized</html>"),
    Form(429, "<html>Too Many Requests</html>"),
    Form(200, _exception("system", "An error occurred")),
    changed="<notice>This service has a new address.</notice>",
)

PROBLEM = "Exception_007"
"""Subtag of "the address is wrong", as finely as the courier tells it."""

IMPOSSIBLE = "0000/10"
"""A number that the module refuses by itself: the courier has no answer for one."""
