"""Chronopost's tracking service, in SOAP: it asks for no login.

A number that nobody knows is answered like a parcel without events. Events are listed oldest first
and have an offset. Chronopost publishes no list of its event codes: what is known of them is in
CODES, and a partner that delivers abroad may use the same code for something else, so the words
beside a delivery may deny it. Of a parcel in the depot that delivers it, only the words tell
whether it waits there.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from couriers.http.refusals import refuse, unexpected
from couriers.reading import numbers, statuses
from couriers.reading.answer import Element, read_xml
from couriers.reading.checkpoints import Place, Scan, history, read_iso, scan, tracking_of
from tracking.checkpoint import NOT_FOUND_YET, Tracking
from tracking.errors import CourierDown, UnreadableAnswer, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "Chronopost"
BASE_URL = "https://ws.chronopost.fr"
CREDENTIALS: tuple[str, ...] = ()
CREDENTIALS_FROM = "none needed"
PATTERNS: tuple[numbers.NumberForm, ...] = (
    numbers.form(r"(?:PZ|X[A-Z])\d{9}FR", numbers.s10_checks),
    # In the form of the posts; letters at the end that are no country are Chronopost's own.
    numbers.form(r"[A-Z]{2}\d{9}(?:JB|JF|TS)", numbers.s10_checks),
    numbers.form(r"\d{14}[0-9A-Z]", numbers.mod_37_36),
)
VERIFIED = (
    "the types of Chronopost's service description; the codes of a delivery as Chronopost's own "
    "shop module has them, the others as users of the service tell and as recorded answers have "
    "them; never run against the live site"
)

CODES: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "DC EA",
        statuses.ACCEPTED: "DB DY PC",
        statuses.IN_TRANSIT: "EC SC TS O TP TT IS SD RB",
        statuses.ARRIVED: "T",
        statuses.ARRIVED_ABROAD: "EI",
        statuses.PROBLEM_SOLVED: "SJ",
        statuses.PROBLEM: "A2 AT IA SK",
        statuses.RETURNING: "R",
        statuses.OUT_FOR_DELIVERY: "TA",
        statuses.NOBODY_THERE: "P",
        statuses.FOR_PICKUP: "AB",
        statuses.DELIVERED: "D D1 D2 D3 D4 D5",
    }
)
"""`code` of an event, as far as it is known; else the words tell."""

SILENT = frozenset({"CL", "SM"})
"""The addressee said where to; the addressee was sent a message."""

_REFINED = frozenset({"SD"})
"""Codes of which the words may say more: sorted there, or kept there for a day."""

_FINE = "0"
_SYSTEM_ERROR = "1"
_QUESTION = (
    '<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body>'
    '<t:trackSkybillV2 xmlns:t="http://cxf.tracking.soap.chronopost.fr/">'
    "<language>en_GB</language><skybillNumber>{number}</skybillNumber>"
    "</t:trackSkybillV2></soap:Body></soap:Envelope>"
)


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number."""
    number = numbers.alphanumeric(request.number)
    question = _QUESTION.format(number=escape(number))
    answer = await fetch.post(
        ["tracking-cxf", "TrackingServiceWS"], xml=question, headers={"SOAPAction": '""'}
    )
    return fetch.read(answer, parse, number)


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the parcel; one without events is not known yet."""
    refuse(status, headers, body)
    root = read_xml(body)
    if fault := root.first("Fault"):
        raise CourierDown(fault.text("faultstring") or "a SOAP fault without a reason")
    result = root.first("return")
    code = result.text("errorCode") if result else None
    if result is None or code is None:
        raise unexpected(status, "no result of trackSkybillV2")
    if code != _FINE:
        said = result.text("errorMessage") or "no reason given"
        if code == _SYSTEM_ERROR:
            raise CourierDown(f"error 1: {said}")
        raise UnreadableAnswer(f"an error without a known meaning: {code[:40]}: {said}")
    parcel = root.first("listEventInfoComp")
    if parcel is None:
        raise unexpected(status, "neither a parcel nor an error")
    if parcel.text("skybillNumber") not in (number, None):
        raise WrongNumber(f"asked for {number}, answered about another parcel")
    listed = list(parcel.each("events"))
    return _tracking(listed) if listed else NOT_FOUND_YET


def _tracking(listed: list[Element]) -> Tracking:
    past = history(map(_scan, listed), newest_first=False)
    return tracking_of(past)._replace(
        unknown_codes=statuses.unknown_codes((each.text("code") for each in listed), CODES, SILENT)
    )


def _scan(event: Element) -> Scan:
    code, said = event.text("code"), event.text("eventLabel")
    where = Place(postal_code=event.text("zipCode"), location=event.text("officeLabel"))
    return scan(read_iso(event.text("eventDate") or ""), said, _known(code, said), code, where)


def _known(code: str | None, said: str | None) -> statuses.Status | None:
    if code in SILENT:
        return None
    known = CODES.get(code or "")
    if known is None or code in _REFINED:
        return statuses.recognise(said or "") or known
    return statuses.unless_denied(known, said or "")
