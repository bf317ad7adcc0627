"""Canada Post's Get Tracking Details, after its XML schema.

====== ======================================= =================================
method path                                    an unknown number
====== ======================================= =================================
GET    /canada-post/vis/track/pin/N/detail     404 with the message 004
GET    /canada-post/vis/track/dnc/N/detail     404 with the message 004
====== ======================================= =================================
"""

from __future__ import annotations

from xml.sax.saxutils import escape

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import Form, forms
from devstack.site.shapes.reply import Asked, Reply

SLUG = "canada-post"
XML = {"Content-Type": "application/vnd.cpc.track-v2+xml"}
SPACE = "http://www.canadapost.ca/ws/track"
EVENTS = {
    "Shipping label created": ("3000", "Electronic information submitted by shipper"),
    "Accepted at the post office": ("1301", "Item accepted at the Post Office"),
    "Arrived at the sorting centre": ("0400", "Item arrived"),
    "Out for delivery": ("0174", "Item out for delivery"),
    "Delivered, front door": ("1421", "Delivered to recipient's front door"),
    "Incorrect address": ("1412", "Address is incomplete; item is being redirected"),
}
UNKNOWN = (
    404,
    (
        b'<messages xmlns="http://www.canadapost.ca/ws/messages"><message>'
        b"<code>004</code><description>No Pin History</description></message></messages>"
    ),
)


def read(asked: Asked) -> Reply | None:
    """Answer one request to Canada Post."""
    match asked.method, asked.parts:
        case "GET", ("vis", "track", "pin" | "dnc", number, "detail"):
            return _one(number)
    return None


def _one(number: str) -> Reply:
    if not parcel.known(number):
        return Reply(SLUG, number, *UNKNOWN, unknown=UNKNOWN, headers=XML)
    events = "".join(_occurrence(scan) for scan in reversed(parcel.scans(number)))
    body = (
        f'<tracking-detail xmlns="{SPACE}"><pin>{escape(number)}</pin>'
        f"<significant-events>{events}</significant-events></tracking-detail>"
    )
    return Reply(SLUG, number, 200, body.encode(), unknown=UNKNOWN, headers=XML)


def _occurrence(scan: parcel.Scan) -> str:
    code, words = EVENTS[scan.message]
    return (
        f"<occurrence><event-identifier>{code}</event-identifier>"
        f"<event-date>{scan.at:%Y-%m-%d}</event-date><event-time>{scan.at:%H:%M:%S}</event-time>"
        f"<event-time-zone>EST</event-time-zone><event-description>{words}</event-description>"
        f"<event-site>{scan.city}</event-site><event-province>ON</event-province></occurrence>"
    )


def _messages(code: str, words: str) -> str:
    message = f"<message><code>{code}</code><description>{words}</description></message>"
    return f'<messages xmlns="http://www.canadapost.ca/ws/messages">{message}</messages>'


FAILURES = forms(
    Form(401, _messages("E002", "AAA Authentication Failure")),
    Form(500, _messages("Server", "Rejected by SLM Monitor")),
    Form(500, _messages("Server", "Internal error")),
    Form(400, _messages("9105", "Invalid PIN")),
    "<notice>This service has a new address.</notice>",
)

PROBLEM = "Exception_007"
"""Subtag of "the address is wrong", as finely as the courier tells it."""
