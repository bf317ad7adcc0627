"""Purolator's E-Ship Tracking Web Service, version 1: SOAP.

A scan has a type; most are "Other", where only its words tell. What is wrong with a number stands
inside a 200, or in a fault about the request's values. Times are local to the depot, without an
offset. A parcel without a scan is one that Purolator does not know yet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from couriers.http.credentials import basic_auth, credentials
from couriers.http.refusals import refuse, unexpected
from couriers.reading import numbers, statuses
from couriers.reading.answer import Element, read_xml
from couriers.reading.checkpoints import (
    Place,
    Scan,
    history,
    latest,
    read_digits,
    scan,
    tracking_of,
)
from tracking.checkpoint import NOT_FOUND_YET, Tracking
from tracking.errors import InvalidNumber, RequestRefused, UnreadableAnswer, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "Purolator"
BASE_URL = "https://webservices.purolator.com"
CREDENTIALS: tuple[str, ...] = ("api_key", "password")
CREDENTIALS_FROM = "Purolator's E-Ship Web Services resource centre: a production key"
PATTERNS: tuple[numbers.NumberForm, ...] = (
    numbers.form(r"[0-5]\d{11}", numbers.luhn),
    numbers.form(r"[A-Z]{3}\d{9}"),
)
VERIFIED = (
    "Purolator's WSDL and its example; the words of its scans as users of the service have seen "
    "them; never run against the live site"
)

CODES: dict[str, statuses.Status] = {
    "ProofOfPickUp": statuses.ACCEPTED,
    "InternationalOutbound": statuses.DEPARTED,
    "OnDelivery": statuses.OUT_FOR_DELIVERY,
    "Undeliverable": statuses.ATTEMPTED,
    "Delivery": statuses.DELIVERED,
}
"""`ScanType`, by the names of the schema's types."""

SENTENCES: dict[str, statuses.Status] = {
    "label information electronically submitted": statuses.INFO_RECEIVED,
    "transferring to shipping centre - please wait for further instructions": statuses.IN_TRANSIT,
    "shipment redirected": statuses.FORWARDED,
    "resolution complete - shipment redirected": statuses.FORWARDED,
    "item available for receiver to pick up at post office": statuses.FOR_PICKUP,
    "receiver advised they will pick up shipment": statuses.FOR_PICKUP,
}
"""`Description`, as its users have seen it beside types that mean something else."""

FROM_A_LOCKER = "delivered to customer by locker"
"""`Description` of a delivery out of a locker, where the phrases see one into it."""

WORDED = frozenset({"Other"})
"""Types of scans of which only the words tell."""

_PATH = ("EWS", "V1", "Tracking", "TrackingService.asmx")
_ACTION = '"http://purolator.com/pws/service/v1/TrackPackagesByPin"'
_TYPES = "http://purolator.com/pws/datatypes/v1"
_SOAP = "http://schemas.xmlsoap.org/soap/envelope/"
_UNTOLD = re.compile(r"\bno\b.{0,40}\b(?:available|found)\b|\bnot found\b", re.IGNORECASE)
_INVALID = re.compile(r"\binvalid\b.*\bpin\b|\bpin\b.*\b(?:in|not )valid\b", re.IGNORECASE)


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number, although the service takes several: each request is one permit."""
    key, password = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    number = numbers.alphanumeric(request.number)
    headers = {"Authorization": basic_auth(key, password), "SOAPAction": _ACTION}
    answer = await fetch.post(_PATH, xml=_question(number), headers=headers)
    return fetch.read(answer, parse, number)


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the parcel, or the error or fault that stands in its place."""
    try:
        root = read_xml(body)
    except UnreadableAnswer:
        refuse(status, headers, body)
        raise
    _judge_fault(root)
    refuse(status, headers, body)
    if status != HTTPStatus.OK or root.first("TrackPackagesByPinResponse") is None:
        raise unexpected(status, "no answer about packages")
    told = list(root.each("TrackingInformation"))
    ours = [one for one in told if _number(one) == number]
    if told and not ours:
        raise WrongNumber(f"asked for {number}, answered about {len(told)} other parcels")
    if seen := [one for one in ours if one.first("Scan")]:
        return latest(map(_tracking, seen))
    errors = [error.text("Description") or error.text("Code") for error in root.each("Error")]
    return _judge("; ".join(filter(None, errors)), known=bool(ours))


def _question(number: str) -> str:
    return (
        f'<s:Envelope xmlns:s="{_SOAP}" xmlns:p="{_TYPES}"><s:Header><p:RequestContext>'
        "<p:Version>1.2</p:Version><p:Language>en</p:Language><p:GroupID/>"
        "<p:RequestReference>tracking</p:RequestReference></p:RequestContext></s:Header>"
        f"<s:Body><p:TrackPackagesByPinRequest><p:PINs><p:PIN><p:Value>{number}</p:Value></p:PIN>"
        "</p:PINs></p:TrackPackagesByPinRequest></s:Body></s:Envelope>"
    )


def _judge_fault(root: Element) -> None:
    """Raise what a fault about our values means; any other is left to the HTTP status."""
    for detail in root.each("ValidationDetail"):
        said = " ".join(filter(None, map(detail.text, ("Key", "Tag", "Message"))))
        if re.search(r"\bPINs?\b", said):
            raise InvalidNumber(said)
        raise RequestRefused(said or "a value of the request is not valid")


def _judge(said: str, *, known: bool) -> Tracking:
    if _INVALID.search(said):
        raise InvalidNumber(said)
    if _UNTOLD.search(said) or (known and not said):
        return NOT_FOUND_YET
    raise UnreadableAnswer(f"neither a scan nor a known error ({said or 'no reason given'})")


def _number(parcel: Element) -> str:
    named = parcel.first("PIN")
    return (named.text("Value") or "" if named else "").upper()


def _tracking(parcel: Element) -> Tracking:
    listed = list(parcel.each("Scan"))
    scans = [_scan(each) for each in listed]
    backwards = scans[0].checkpoint.checkpoint_time >= scans[-1].checkpoint.checkpoint_time
    past = history(scans, newest_first=backwards)
    answer = tracking_of(past)
    signatures = (
        details.text("DeliverySignature")
        for each in listed
        if _known(each) == statuses.DELIVERED and (details := each.first("ScanDetails"))
    )
    return answer._replace(
        signed_by=next(filter(None, signatures), None) if answer.delivered_at else None,
        unknown_codes=statuses.unknown_codes(map(_kind, listed), CODES, WORDED),
    )


def _scan(event: Element) -> Scan:
    depot = event.first("Depot")
    place = Place(location=depot.text("Name") if depot else None)
    moment = read_digits(
        (event.text("ScanDate") or "").replace("-", ""), event.text("ScanTime") or ""
    )
    return scan(moment, _said(event), _known(event), _kind(event), place)


def _kind(event: Element) -> str:
    return event.text("ScanType") or ""


def _said(event: Element) -> str:
    return event.text("Description") or event.text("Comment") or ""


def _known(event: Element) -> statuses.Status | None:
    """Read a status by the type of the scan; its words correct it.

    "Undeliverable" stands beside whatever keeps a parcel from its addressee for now, its way to the
    depot among it, and "Delivery" beside one delivery that is none.
    """
    said, known = _said(event), CODES.get(_kind(event))
    if known is statuses.DELIVERED and statuses.whole(said) == FROM_A_LOCKER:
        return statuses.COLLECTED
    if statuses.whole(said) == FROM_A_LOCKER:
        return known
    by_words = SENTENCES.get(statuses.whole(said))
    if by_words or known is None:
        return by_words or statuses.recognise(said)
    if known == statuses.ATTEMPTED:
        return statuses.recognise(said) or known
    return statuses.unless_denied(known, said)
