"""Purolator's Tracking Web Service, version 1, after its WSDL.

====== ======================================================== ==========================
method path                                                     an unknown number
====== ======================================================== ==========================
POST   /purolator/EWS/V1/Tracking/TrackingService.asmx          200 without a scan
====== ======================================================== ==========================
"""

from __future__ import annotations

import re
from xml.sax.saxutils import escape

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import PAUSE, Form, forms
from devstack.site.shapes.reply import Asked, Reply

SLUG = "purolator"
PATH = ("EWS", "V1", "Tracking", "TrackingService.asmx")
XML = {"Content-Type": "text/xml; charset=utf-8"}
SCANS = {
    "Shipping label created": ("Other", "Shipment created"),
    "Accepted at the post office": ("ProofOfPickUp", "Picked up by Purolator"),
    "Arrived at the sorting centre": ("Other", "Arrived at sort facility"),
    "Out for delivery": ("OnDelivery", "On vehicle for delivery"),
    "Delivered, front door": ("Delivery", "Shipment delivered"),
    "Incorrect address": ("Undeliverable", "Incorrect address"),
}


def _envelope(inside: str) -> str:
    space = "http://schemas.xmlsoap.org/soap/envelope/"
    return f'<s:Envelope xmlns:s="{space}"><s:Body>{inside}</s:Body></s:Envelope>'


def _told(number: str, scans: str) -> bytes:
    parcel = (
        f"<TrackingInformation><PIN><Value>{escape(number)}</Value></PIN>{scans}"
        "</TrackingInformation>"
    )
    return _envelope(
        '<TrackPackagesByPinResponse xmlns="http://purolator.com/pws/datatypes/v1">'
        "<ResponseInformation><Errors/></ResponseInformation>"
        f"<TrackingInformationList>{parcel}</TrackingInformationList></TrackPackagesByPinResponse>"
    ).encode()


def read(asked: Asked) -> Reply | None:
    """Answer one request to Purolator."""
    if (asked.method, asked.parts) != ("POST", PATH):
        return None
    named = re.search(rb"<p:Value>(\w+)</p:Value>", asked.body)
    number = named[1].decode() if named else ""
    unknown = (200, _told(number, "<Scans/>"))
    if not parcel.known(number):
        return Reply(SLUG, number, *unknown, unknown=unknown, headers=XML)
    scans = "".join(map(_scan, reversed(parcel.scans(number))))
    body = _told(number, f"<Scans>{scans}</Scans>")
    return Reply(SLUG, number, 200, body, unknown=unknown, headers=XML)


def _scan(scan: parcel.Scan) -> str:
    kind, words = SCANS[scan.message]
    return (
        f"<Scan><ScanType>{kind}</ScanType><Depot><Name>{escape(scan.city)}</Name></Depot>"
        f"<ScanDate>{scan.at:%Y-%m-%d}</ScanDate><ScanTime>{scan.at:%H%M%S}</ScanTime>"
        f"<Description>{words}</Description><Comment/></Scan>"
    )


def _fault(inside: str) -> str:
    fault = f"<s:Fault><faultcode>s:Server</faultcode><detail>{inside}</detail></s:Fault>"
    return _envelope(fault)


FAILURES = forms(
    Form(401, "<html>Unauthorized</html>"),
    Form(429, "<html>Too many requests</html>", PAUSE),
    Form(500, _fault("")),
    Form(
        500,
        _fault("<ValidationDetail><Key>PIN</Key><Message>not valid</Message></ValidationDetail>"),
    ),
    "<notice>This service has a new address.</notice>",
)

PROBLEM = "Exception_007"
"""Subtag of "the address is wrong", as finely as the courier tells it."""
