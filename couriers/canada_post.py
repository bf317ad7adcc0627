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
CREDENTIALS: tuple[str, ...] = ("username", "password")
CREDENTIALS_FROM = "Canada Post's Developer Program: an API key is both, parted by the colon"
PATTERNS: tuple[numbers.NumberForm, ...] = (
    numbers.form(r"\d{16}", numbers.gs1),
    numbers.s10("CA"),
    numbers.form(r"\d{12}|\d{15}", loose=True),
)
VERIFIED = (
    "Canada Post's XML schema, its table of scan events and samples; never run against the "
    "live site"
)

CODES: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "3000 3002",
        statuses.ACCEPTED: "1300 1301 1302 1303 2300 4000",
        statuses.IN_TRANSIT: (
            "100 101 102 103 104 105 106 107 170 175 804 815 1240 1241 1244 1444 1703 1705 2500 "
            "2501 4100 4550 4900"
        ),
        statuses.ARRIVED: "113 400 405 4600",
        statuses.ARRIVED_ABROAD: "700 701 4310 4311",
        statuses.DEPARTED: "114 115 116 410 4202 4950 8901",
        statuses.FORWARDED: "1480 1490",
        statuses.CUSTOMS_BEGUN: "800 2601 4330 4400",
        statuses.CUSTOMS_DONE: "130 900 910 4450 4500 5201",
        statuses.CUSTOMS_DELAY: "127 810 1487 1495",
        statuses.OUT_FOR_DELIVERY: "174 500",
        # A parcel locker of the post's is not yet the addressee: 1406 is the collection out of it.
        statuses.FOR_PICKUP: "156 1405 1407 1435 1436 1437 1438 1479 1488 1701 2407",
        statuses.ATTEMPTED: "630 1443",
        statuses.BUSINESS_CLOSED: "1411 2411",
        statuses.DELIVERED: (
            "1421 1422 1423 1424 1425 1426 1427 1428 1429 1430 1431 1432 1433 1434 1441 1442 1461 "
            "1462 1463 1465 1466 1467 1468 1469 1471 1472 1473 1475 1476 1496 1497 1498 1499 5300"
        ),
        statuses.SIGNED_FOR: "1408 1409",
        statuses.COLLECTED: "1406",
        statuses.PROBLEM: (
            "117 118 150 172 179 621 622 623 624 625 626 627 628 1245 1410 1414 1450 1483 1484 "
            "1493 1494 2410 2414 4650 4700"
        ),
        statuses.WRONG_ADDRESS: "120 171 173 1412 2412",
        statuses.OUTSIDE_CAUSE: "159 160 161 162 163",
        statuses.REFUSED: "121",
        statuses.PICKUP_MISSED: "629",
        statuses.DAMAGED: "710",
        statuses.RETURNING: (
            "167 168 169 181 182 183 184 1100 1415 1416 1417 1418 1419 1420 1481 1482 1491 1492 "
            "2600 2802 3001"
        ),
    }
)
"""`event-identifier` without leading zeros: the developer programme's table of scan events."""

SIGNATURES = frozenset({"20", "21"})
"""A signature was recorded: in the second of the delivery, later, or before another delivery."""

_NO_PLACE = (
    "152 190 198 610 611 612 613 614 615 616 617 618 619 620 1200 1203 1210 1214 1215 1216 1220 "
    "1221 1223 1224 1225 1230 1232 1234 2001 2101"
)
SILENT = SIGNATURES | frozenset(_NO_PLACE.split())
"""Events that say nothing new of the parcel's way: signatures and photos, new dates, payments,
wishes of the addressee, and where a delivered parcel lies."""

UNKNOWN = frozenset({"004"})
REFUSED = frozenset({"E002", "AA001", "AA002", "AA003", "AA004", "AA005", "AA006"})
THROTTLED = "Server"
"""`code` of messages: no history (yet); our credentials; "Rejected by SLM Monitor"."""

ZONES: dict[str, tuple[str, int]] = {
    "NST": ("America/St_Johns", -210),
    "NDT": ("America/St_Johns", -150),
    "AST": ("America/Halifax", -240),
    "ADT": ("America/Halifax", -180),
    "EST": ("America/Toronto", -300),
    "EDT": ("America/Toronto", -240),
    "CST": ("America/Winnipeg", -360),
    "CDT": ("America/Winnipeg", -300),
    "MST": ("America/Edmonton", -420),
    "MDT": ("America/Edmonton", -360),
    "PST": ("America/Vancouver", -480),
    "PDT": ("America/Vancouver", -420),
    # Saskatchewan, which has no summer time.
    "CSTNO": ("America/Regina", -360),
}
"""`event-time-zone`: Canada's abbreviations, with the zone that has them and the minutes that they
name. Abroad it is empty or a country's name: no offset."""

_PROVINCES = "AB BC MB NB NL NS NT NU ON PE QC SK YT"
PROVINCES = frozenset(_PROVINCES.split())

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
    if UNKNOWN & told.keys():
        return NOT_FOUND_YET
    refuse(status, headers, body)
    said = "; ".join(f"{code}: {what}" for code, what in told.items())
    if status == HTTPStatus.BAD_REQUEST and told:
        raise RequestRefused(said)
    raise unexpected(status, said or "neither a parcel nor a message")


def _judge(told: Mapping[str | None, str | None]) -> None:
    said = next((what for what in told.values() if what), "no reason given")
    if REFUSED & told.keys():
        raise AuthFailed(said)
    if THROTTLED in told and "SLM" in said:
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
        unknown_codes=statuses.unknown_codes(map(_code, listed), CODES, SILENT),
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
    zone = ZONES.get(event.text("event-time-zone") or "")
    return in_zone(moment, *zone) if zone else moment


def _code(event: Element) -> str:
    return (event.text("event-identifier") or "").lstrip("0")


def _known(event: Element) -> statuses.Status | None:
    """Read a status by the event's identifier, else by its words; None for what decides nothing.

    One identifier serves both ways of a parcel: "delivered" may be said of its return.
    """
    if _code(event) in SILENT:
        return None
    said = event.text("event-description") or ""
    known = CODES.get(_code(event)) or statuses.recognise(said)
    if known and _BACK.search(said):
        match known.tag:
            case Tag.DELIVERED:
                return statuses.RETURNED
            case Tag.OUT_FOR_DELIVERY | Tag.IN_TRANSIT:
                return statuses.RETURNING
    return statuses.unless_sent_back(known, said) if known else None


def _country(site: str | None, province: str | None) -> Country | None:
    """Tell the country: a province's, or the one behind the comma ("ILTLVA,Israel")."""
    if province in PROVINCES:
        return country("CAN")
    found = country((site or "").rpartition(",")[2]) if "," in (site or "") else None
    return found if found and found.iso3 else None


def _signatory(detail: Element, delivery: Checkpoint) -> str | None:
    """Find who signed for this delivery, in its own event or that of a signature from then on."""
    names = (
        event.text("signatory-name")
        for event in detail.each("occurrence")
        if _code(event) in SIGNATURES or event.text("event-identifier") == delivery.raw_tag
        if _moment(event).local >= delivery.checkpoint_time
    )
    return next((name for name in names if name), None)
