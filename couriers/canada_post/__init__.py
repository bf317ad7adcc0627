"""Canada Post's Get Tracking Details (REST, version 2 of its XML).

An unknown number is a message inside a 400 or 404, throttling one inside a 5xx. A number of 15
digits is that of a delivery notice card, and the answer then names the parcel by another number. A
recorded signature may follow a delivery in the same second, or come before a second delivery: it
decides nothing. Times are local, with the abbreviation of a zone or none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from couriers.canada_post import codes
from couriers.http.credentials import basic_auth, credentials
from couriers.http.refusals import refuse, unexpected
from couriers.reading import numbers, statuses
from couriers.reading.answer import Element, read_xml
from couriers.reading.checkpoints import (
    Moment,
    Place,
    Scan,
    history,
    in_zone,
    newest,
    read_iso,
    scan,
    tracking_of,
)
from couriers.reading.countries import Country, country
from tracking.checkpoint import NOT_FOUND_YET, Checkpoint, Tag, Tracking
from tracking.errors import (
    AuthFailed,
    InvalidNumber,
    RateLimited,
    RequestRefused,
    UnreadableAnswer,
    WrongNumber,
)
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "Canada Post"
BASE_URL = "https://soa-gw.canadapost.ca"
TOKEN_URL = ""
CREDENTIALS: tuple[str, ...] = ("username", "password")
ASKS = "`GET /vis/track/pin/N/detail` (XML); `/dnc/` for the 15 digits of a notice card"
AUTH = "Basic"
CREDENTIALS_FROM = "Canada Post's Developer Program: an API key is both, parted by the colon"
REQUIRED_FIELDS: tuple[str, ...] = ()
PATTERNS: tuple[numbers.NumberForm, ...] = (
    numbers.form(r"\d{16}", numbers.gs1),
    numbers.s10("CA"),
    numbers.form(r"\d{12}|\d{15}", loose=True),
)
QUOTA = "throttled for a minute at a time, no figure published"
VERIFIED = (
    "Canada Post's XML schema, its table of scan events and samples; never run against the "
    "live site"
)

_CARD_DIGITS = 15
_THROTTLED_SECONDS = 60.0
_BACK = re.compile(r"returned to (?:the )?sender|being returned", re.IGNORECASE)


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number: a parcel's, or that of the card the carrier left."""
    username, password = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    number = numbers.alphanumeric(request.number)
    headers = {
        "Authorization": basic_auth(username, password),
        "Accept": "application/vnd.cpc.track-v2+xml",
        "Accept-Language": "en-CA",
    }
    kind = "dnc" if _is_card(number) else "pin"
    answer = await fetch.get(["vis", "track", kind, number, "detail"], headers=headers)
    return fetch.read(answer, parse, number)


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the parcel, or the message that stands for it; messages first, whatever the status."""
    try:
        root = read_xml(body)
    except UnreadableAnswer:
        refuse(status, headers, body)
        raise
    detail = root.first("tracking-detail")
    if status == HTTPStatus.OK and detail:
        return _tracking(detail, number)
    told = {message.text("code"): message.text("description") for message in root.each("message")}
    _judge(told)
    if codes.UNKNOWN & told.keys():
        return NOT_FOUND_YET
    refuse(status, headers, body)
    said = "; ".join(f"{code}: {what}" for code, what in told.items())
    if status == HTTPStatus.BAD_REQUEST and told:
        raise RequestRefused(said)
    raise unexpected(status, said or "neither a parcel nor a message")


def _judge(told: Mapping[str | None, str | None]) -> None:
    said = next((what for what in told.values() if what), "no reason given")
    if codes.REFUSED & told.keys():
        raise AuthFailed(said)
    if codes.THROTTLED in told and "SLM" in said:
        raise RateLimited(said, retry_after=_THROTTLED_SECONDS)
    if re.search(r"\binvalid\b.*\b(?:pin|dnc)\b", said, re.IGNORECASE):
        raise InvalidNumber(said)


def _is_card(number: str) -> bool:
    return number.isdigit() and len(number) == _CARD_DIGITS


def _tracking(detail: Element, number: str) -> Tracking:
    names = {detail.text("pin"), detail.text("original-pin")} - {None}
    if names and number not in names and not _is_card(number):
        raise WrongNumber(f"asked for {number}, answered about another parcel")
    listed = list(detail.each("occurrence"))
    if not listed:
        raise UnreadableAnswer("a parcel without a single event")
    past = history(map(_scan, listed), newest_first=True)
    answer = tracking_of(past)
    delivery = newest(past.checkpoints, Tag.DELIVERED) if answer.delivered else None
    return answer._replace(
        expected_delivery=(
            detail.text("changed-expected-date") or detail.text("expected-delivery-date")
        ),
        signed_by=_signatory(detail, delivery) if delivery else None,
        destination=detail.text("destination-postal-id"),
        service=detail.text("service-name"),
        reference=detail.text("customer-ref-1") or detail.text("customer-ref-2"),
        unknown_codes=statuses.unknown_codes(map(_code, listed), codes.CODES, codes.SILENT),
    )


def _scan(event: Element) -> Scan:
    site, province = event.text("event-site"), event.text("event-province")
    place = Place(
        _country(site, province),
        city=site if province else None,
        state=province,
        location=event.text("event-retail-name") or (None if province else site),
    )
    said, code = event.text("event-description"), event.text("event-identifier")
    return scan(_moment(event), said, _known(event), code, place)


def _moment(event: Element) -> Moment:
    day, clock = event.text("event-date") or "", event.text("event-time")
    moment = read_iso(f"{day}T{clock}" if clock else day)
    zone = codes.ZONES.get(event.text("event-time-zone") or "")
    return in_zone(moment, *zone) if zone else moment


def _code(event: Element) -> str:
    return (event.text("event-identifier") or "").lstrip("0")


def _known(event: Element) -> statuses.Status | None:
    """Read a status by the event's identifier, else by its words; None for what decides nothing.

    One identifier serves both ways of a parcel: "delivered" may be said of its return.
    """
    if _code(event) in codes.SILENT:
        return None
    said = event.text("event-description") or ""
    known = codes.CODES.get(_code(event)) or statuses.recognise(said)
    if known and _BACK.search(said):
        match known.tag:
            case Tag.DELIVERED:
                return statuses.RETURNED
            case Tag.OUT_FOR_DELIVERY | Tag.IN_TRANSIT:
                return statuses.RETURNING
    return statuses.unless_sent_back(known, said) if known else None


def _country(site: str | None, province: str | None) -> Country | None:
    """Tell the country: a province's, or the one behind the comma ("ILTLVA,Israel")."""
    if province in codes.PROVINCES:
        return country("CAN")
    found = country((site or "").rpartition(",")[2]) if "," in (site or "") else None
    return found if found and found.iso3 else None


def _signatory(detail: Element, delivery: Checkpoint) -> str | None:
    """Find who signed for this delivery, in its own event or that of a signature from then on."""
    names = (
        event.text("signatory-name")
        for event in detail.each("occurrence")
        if _code(event) in codes.SIGNATURES or event.text("event-identifier") == delivery.raw_tag
        if _moment(event).local >= delivery.checkpoint_time
    )
    return next((name for name in names if name), None)
