"""DPD on the continent: the Parcel Life Cycle Service, in SOAP.

The answer lists the steps of a parcel's life, those still to come among them: only a step with a
date has happened. Some countries name each scan instead, by words of their own. A failure is a SOAP
fault inside a 500, and a token that ran out is one of them. The form of a date goes with the
language asked for; a date that begins with the month has AM or PM behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING

from couriers.http.credentials import Grant, credentials
from couriers.http.refusals import refuse, unexpected
from couriers.reading import numbers, statuses
from couriers.reading.answer import Element, read_xml
from couriers.reading.checkpoints import (
    Moment,
    Place,
    Scan,
    history,
    read_day_first,
    read_iso,
    read_month_first,
    scan,
    tracking_of,
)
from tracking.checkpoint import NOT_FOUND_YET, Tag, Tracking
from tracking.errors import AuthFailed, CourierDown, UnreadableAnswer
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "DPD"
BASE_URL = "https://public-ws.dpd.com/services"
TOKEN_URL = "https://public-ws.dpd.com/services/LoginService/V2_0"  # noqa: S105 - an address
CREDENTIALS: tuple[str, ...] = ("delis_id", "password")
CREDENTIALS_FROM = "DPD's contact for customers in your country: a DELIS id for its web services"
PATTERNS: tuple[numbers.NumberForm, ...] = (
    numbers.form(r"\d{14}", loose=True),
    numbers.form(r"\d{14}[0-9A-Z]", numbers.mod_37_36),
    numbers.form(r"\d{27}[0-9A-Z]", numbers.mod_37_36),
)
VERIFIED = (
    "the types and the list of steps in DPD's service descriptions; the statuses of single scans "
    "as users of the service tell and a recorded answer has them; never run against the live site"
)

STEPS: dict[str, statuses.Status] = {
    "shipment": statuses.INFO_RECEIVED,
    "accepted": statuses.ACCEPTED,
    "atsendingdepot": statuses.ARRIVED,
    "ontheroad": statuses.IN_TRANSIT,
    "atdeliverydepot": statuses.ARRIVED,
    "delivered": statuses.DELIVERED,
    # Of single scans, where they are listed.
    "pickedup": statuses.ACCEPTED,
    "intransit": statuses.IN_TRANSIT,
    "betweendepots": statuses.IN_TRANSIT,
    "depot": statuses.ARRIVED,
    "courier": statuses.OUT_FOR_DELIVERY,
    "parcelshop": statuses.FOR_PICKUP,
    "deliveryfailure": statuses.ATTEMPTED,
    "returningfromdelivery": statuses.ATTEMPTED,
}
"""`status` of a step or a scan, in small letters and without `_`."""

_TOKEN = "THE-TOKEN"  # noqa: S105 - the place of one
_TOKEN_SECONDS = 23 * 3600.0
_TYPES = "http://dpd.com/common/service/types"
_SOAP = "http://schemas.xmlsoap.org/soap/envelope/"
_UNKNOWN = re.compile(
    r"not (?:be )?found|no (?:data|parcel|tracking)\b|does not exist", re.IGNORECASE
)


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number."""
    user, password = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    number = numbers.alphanumeric(request.number)
    answer = await fetch.post(
        ["ParcelLifeCycleService", "V2_0"],
        xml=_question(user, number),
        headers={"SOAPAction": f'"{_TYPES}/ParcelLifeCycleService/2.0/getTrackingData"'},
        grant=_login(fetch.settings.token_url, user, password),
    )
    return fetch.read(answer, parse, number)


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the steps of the parcel; the answer does not name its number again."""
    del number  # nothing in the answer to compare it with
    try:
        root = read_xml(body)
    except UnreadableAnswer:
        refuse(status, headers, body)
        raise
    if (fault := root.first("Fault")) and _says_unknown(fault):
        return NOT_FOUND_YET
    refuse(status, headers, body)
    result = root.first("trackingresult")
    if result is None:
        raise unexpected(status, "no trackingresult")
    steps = list(result.each("statusInfo"))
    if happened := [each for each in steps if _date(each)]:
        return _tracking(happened)
    # It has been announced if a step is the current one, although none has been reached.
    if any(each.text("isCurrentStatus") == "true" for each in steps):
        return Tracking(*statuses.INFO_RECEIVED)
    return NOT_FOUND_YET


def _question(user: str, number: str) -> str:
    login = (
        f"<delisId>{escape(user)}</delisId><authToken>{_TOKEN}</authToken>"
        "<messageLanguage>en_US</messageLanguage>"
    )
    return (
        f'<s:Envelope xmlns:s="{_SOAP}"><s:Header>'
        f'<a:authentication xmlns:a="{_TYPES}/Authentication/2.0">{login}</a:authentication>'
        f'</s:Header><s:Body><p:getTrackingData xmlns:p="{_TYPES}/ParcelLifeCycleService/2.0">'
        f"<parcelLabelNumber>{escape(number)}</parcelLabelNumber>"
        "</p:getTrackingData></s:Body></s:Envelope>"
    )


def _login(url: str, user: str, password: str) -> Grant:
    """Ask for a token in the version of the login service that its address ends with."""
    found = re.search(r"/V(\d)_(\d)$", url.rstrip("/"))
    space = f"{_TYPES}/LoginService/{'.'.join(found.groups()) if found else '2.0'}"
    question = (
        f'<s:Envelope xmlns:s="{_SOAP}"><s:Body><l:getAuth xmlns:l="{space}">'
        f"<delisId>{escape(user)}</delisId><password>{escape(password)}</password>"
        "<messageLanguage>en_US</messageLanguage></l:getAuth></s:Body></s:Envelope>"
    )
    return Grant(
        url,
        xml=question,
        headers={"Content-Type": "text/xml; charset=utf-8", "SOAPAction": f'"{space}/getAuth"'},
        member="authToken",
        lifetime=_TOKEN_SECONDS,
        in_place_of=_TOKEN,
        refusals=(b"authenticationFault",),
    )


def _says_unknown(fault: Element) -> bool:
    """Whether a fault is "no such parcel"; raises what else it means."""
    if refused := fault.first("authenticationFault"):
        raise AuthFailed(refused.text("errorMessage") or "the login is not accepted")
    named = fault.first("faults") or fault
    said = named.text("message") or fault.text("faultstring") or ""
    if _UNKNOWN.search(said):
        return True
    code = named.text("faultCode") or fault.text("faultcode")
    raise CourierDown(f"a SOAP fault: {code}: {said}")


def _tracking(happened: list[Element]) -> Tracking:
    past = history(map(_scan, happened), newest_first=False)
    return tracking_of(past)._replace(
        unknown_codes=statuses.unknown_codes(
            code for each in happened if _plain(code := each.text("status")) not in STEPS
        )
    )


def _scan(step: Element) -> Scan:
    where = Place(location=_line(step.first("location")))
    words = " ".join(_lines(step.first("description"))) or _line(step.first("label"))
    return scan(_moment(_date(step) or ""), words, _known(step), step.text("status"), where)


def _known(step: Element) -> statuses.Status | None:
    """Read a step; its own words may say more of a parcel that is under way.

    The label is left out: it is the name of the step, and "Parcel out for delivery" that of its
    arrival at the depot.
    """
    errors = " ".join(line for item in step.each("errorItems") for line in _lines(item))
    items = [step.first("description"), *step.each("importantItems")]
    said = " ".join(line for item in items for line in _lines(item))
    known, by_words = (
        STEPS.get(_plain(step.text("status"))),
        statuses.recognise(f"{said} {errors}".strip()),
    )
    if known is None:
        return by_words
    if known.tag is Tag.DELIVERED:
        return statuses.unless_denied(known, said)
    if errors and known.tag is Tag.IN_TRANSIT:
        return by_words or statuses.PROBLEM
    more = by_words and by_words.tag not in (Tag.IN_TRANSIT, Tag.INFO_RECEIVED)
    return by_words if more and known.tag is Tag.IN_TRANSIT else known


def _plain(status: str | None) -> str:
    return (status or "").replace("_", "").lower()


def _date(step: Element) -> str | None:
    return _line(step.first("date"))


def _moment(date: str) -> Moment:
    if date.endswith("M"):
        return read_month_first(date)
    return read_day_first(date) if "." in date[:3] else read_iso(date)


def _line(line: Element | None) -> str | None:
    return line.text("content") if line else None


def _lines(item: Element | None) -> Iterator[str]:
    """List the lines of an item: each is a `content` inside of a `content`."""
    for line in item.each("content") if item else ():
        if said := line.text("content"):
            yield said
