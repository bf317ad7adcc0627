"""DPD's Parcel Life Cycle Service and its login, after their descriptions.

====== ==================================== =================================
method path                                 an unknown number
====== ==================================== =================================
POST   /dpd/services/LoginService/V2_0      --
POST   /dpd/ParcelLifeCycleService/V2_0     200 without a step
====== ==================================== =================================
"""

from __future__ import annotations

import re
from dataclasses import replace

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import Form, forms
from devstack.site.shapes.reply import Asked, Kind, Reply

SLUG = "dpd"
XML = {"Content-Type": "text/xml;charset=UTF-8"}
TOKEN = f"courier-site-{SLUG}"
STEPS = {
    "Shipping label created": ("SHIPMENT", "Your parcel has been announced."),
    "Accepted at the post office": ("ACCEPTED", "DPD has received your parcel."),
    "Arrived at the sorting centre": ("AT_SENDING_DEPOT", "The parcel is at the dispatch centre."),
    "Out for delivery": ("AT_DELIVERY_DEPOT", "Your parcel is out for delivery."),
    "Delivered, front door": ("DELIVERED", "Your parcel has been delivered successfully."),
    "Incorrect address": ("AT_DELIVERY_DEPOT", "The address is incomplete."),
}


def read(asked: Asked) -> Reply | None:
    """Answer one request to DPD."""
    match asked.method, asked.parts:
        case "POST", ("services", "LoginService", "V2_0"):
            return _token()
        case "POST", ("ParcelLifeCycleService", "V2_0"):
            named = re.search(rb"<parcelLabelNumber>(.*?)</parcelLabelNumber>", asked.body)
            number = named[1].decode() if named else ""
            known = f"<authToken>{TOKEN}</authToken>".encode() in asked.body
            return _one(number) if known else replace(_one(number), status=500, body=REFUSAL)
    return None


def _token() -> Reply:
    told = f"<return><authToken>{TOKEN}</authToken><depot>0998</depot></return>"
    body = _envelope(f"<getAuthResponse>{told}</getAuthResponse>").encode()
    return Reply(SLUG, "", 200, body, kind=Kind.TOKEN, headers=XML)


def _one(number: str) -> Reply:
    unknown = (200, _result("").encode())
    if not parcel.known(number):
        return Reply(SLUG, number, *unknown, unknown=unknown, headers=XML)
    body = _result("".join(map(_step, parcel.scans(number))))
    return Reply(SLUG, number, 200, body.encode(), unknown=unknown, headers=XML)


def _step(scan: parcel.Scan) -> str:
    status, words = STEPS[scan.message]
    return (
        f"<statusInfo><status>{status}</status>"
        f"<description><content><content>{words}</content><bold>false</bold></content></description>"
        "<statusHasBeenReached>true</statusHasBeenReached>"
        f"<location><content>{scan.city}</content></location>"
        f"<date><content>{scan.at:%d.%m.%Y %H:%M:%S}</content></date></statusInfo>"
    )


def _result(steps: str) -> str:
    return _envelope(
        f"<getTrackingDataResponse><trackingresult>{steps}</trackingresult></getTrackingDataResponse>"
    )


def _envelope(inside: str) -> str:
    soap = "http://schemas.xmlsoap.org/soap/envelope/"
    return f'<s:Envelope xmlns:s="{soap}"><s:Body>{inside}</s:Body></s:Envelope>'


def _fault(detail: str) -> str:
    return _envelope(f"<s:Fault><faultstring>Fault occured</faultstring>{detail}</s:Fault>")


REFUSAL = _fault(
    "<detail><authenticationFault><errorCode>LOGIN_5</errorCode>"
    "<errorMessage>The authtoken is invalid</errorMessage></authenticationFault></detail>"
).encode()

FAILURES = forms(
    Form(500, REFUSAL.decode()),
    Form(429, "<html>Too Many Requests</html>"),
    Form(500, _fault("")),
    changed="<notice>This service has a new address.</notice>",
)

PROBLEM = "Exception_007"
"""Subtag of "the address is wrong", as finely as the courier tells it."""

IMPOSSIBLE = "0000/10"
"""A number that the module refuses by itself: the courier has no answer for one."""
