"""UPS Track API v1, after its published OpenAPI text.

Traps seen in its answers: GMT fields are missing in some, so an event may have no instant; several
events share one second; `location` may hold only a building's number; type X covers ordinary
customs progress; `deliveryPhoto` appears before the delivery and is no sign of one.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from couriers.http.credentials import Grant, basic_auth, credentials
from couriers.http.refusals import TELLING, refuse, unexpected
from couriers.reading import numbers, statuses
from couriers.reading.answer import decode, grams, inside, others, place, text
from couriers.reading.checkpoints import (
    Place,
    Scan,
    history,
    latest,
    offset_between,
    read_digits,
    scan,
    together,
    tracking_of,
)
from couriers.reading.countries import country
from tracking.checkpoint import NOT_FOUND_YET, Tag, Tracking
from tracking.errors import AuthFailed, InvalidNumber, RequestRefused, UnreadableAnswer, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "UPS"
BASE_URL = "https://onlinetools.ups.com"
TOKEN_URL = "https://onlinetools.ups.com/security/v1/oauth/token"  # noqa: S105 - an address
CREDENTIALS: tuple[str, ...] = ("client_id", "client_secret")
CREDENTIALS_FROM = "developer.ups.com: an app with the Tracking product"
PATTERNS: tuple[numbers.NumberForm, ...] = (
    numbers.form(r"1Z[0-9A-Z]{16}", lambda number: numbers.weights_1_and_2(number[2:])),
    numbers.form(r"[AHJKTV]\d{10}", lambda number: numbers.weights_1_and_2(number[1:])),
    numbers.form(r"\d{9}|\d{12}", loose=True),
)
VERIFIED = "UPS' OpenAPI text and its list of status codes; never run against the live site"

STATUS_CODES: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "003 044 045 077 079 080 157 166",
        statuses.ACCEPTED: "038 160 167 168 169",
        statuses.IN_TRANSIT: (
            "005 010 016 025 039 047 057 070 071 073 074 075 087 137 138 158 159 164 165"
        ),
        statuses.CUSTOMS_BEGUN: "012 092 123 126",
        statuses.CUSTOMS_DONE: "014 084 134",
        statuses.PROBLEM_SOLVED: "094 127 128",
        statuses.FORWARDED: "028 063 096",
        statuses.OUT_FOR_DELIVERY: "006 021 037 072 078 089 091 146 162",
        # Delivered to an agent or a post office is not yet delivered to the addressee.
        statuses.FOR_PICKUP: "017 040 100 106 108 143 144 161",
        statuses.ATTEMPTED: "022 023 024 060 061 062 066 145",
        statuses.DELIVERED: "011 026",
        statuses.PROBLEM: "007 013 029 030 043 049 069 076 083 093 129 130 139 140 142 147 149",
        statuses.OUTSIDE_CAUSE: "032 046 048 051 052 053 055 086 090 132",
        statuses.CUSTOMS_DELAY: "058 124 125 141",
        statuses.PAYMENT_DUE: "085",
        statuses.WRONG_ADDRESS: "050",
        statuses.REFUSED: "064",
        statuses.RETURNING: "033 035 036 118 119",
        statuses.RETURNED: "034 067",
        statuses.DAMAGED: "059 081",
        statuses.LOST: "068",
    }
)
"""`statusCode`, three digits: UPS' list of customer-facing texts (its own is incomplete)."""

_NO_PLACE = (
    "000 018 019 020 027 041 042 054 056 065 082 088 095 097 098 099 101 102 103 104 105 107 109 "
    "110 111 112 113 114 115 116 117 120 121 122 131 133 135 136 148 150 151 152 153 154 155 163"
)
SILENT = frozenset(_NO_PLACE.split())
"""Codes of the same list that say nothing of where a parcel is: requests by the addressee, changed
dates, attempts to collect from the sender, and a photo, which comes before the delivery."""

ACTIVITIES: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "MP",
        statuses.ACCEPTED: "XD PU",
        statuses.IN_TRANSIT: "OR DS YP EP IP ZA ZC ZW LX YH 3P 6B",
        statuses.ARRIVED: "AR",
        statuses.DEPARTED: "DP",
        statuses.FORWARDED: "HM",
        statuses.OUT_FOR_DELIVERY: "OF OT",
        statuses.NOBODY_THERE: "48",
        statuses.BUSINESS_CLOSED: "G3",
        statuses.ATTEMPTED: "5R",
        statuses.FOR_PICKUP: "2Q ZP",
        statuses.DELIVERED: "9E FS KB KE YC",
        statuses.COLLECTED: "2W",
    }
)
"""`code` of an activity, two characters, as its users have seen them; UPS lists them nowhere."""

TYPES: dict[str, statuses.Status] = {
    "M": statuses.INFO_RECEIVED,
    "MV": statuses.PROBLEM,
    "P": statuses.ACCEPTED,
    "I": statuses.IN_TRANSIT,
    "DO": statuses.IN_TRANSIT,
    "DD": statuses.IN_TRANSIT,
    "W": statuses.IN_TRANSIT,
    "O": statuses.OUT_FOR_DELIVERY,
    "D": statuses.DELIVERED,
    "RS": statuses.RETURNING,
}
"""`type`, for codes in neither list. X is left out: it covers ordinary customs progress."""

UNKNOWN = frozenset({"TW0001", "TJ001"})
INVALID = frozenset({"TV1002"})
REFUSED = frozenset({"250001", "250002", "250003", "10401"})
"""Codes of warnings and errors: not known yet, never a number, our credentials."""

_SUBMITS = re.compile(r"\bto submit your package for clearance\b", re.IGNORECASE)
"""Words beside the code of a clearance that is done, of one that begins."""


class _Told(Struct, rename={"status_code": "statusCode", "kind": "type"}):
    """A status, of an activity or of the package now (whose code may stand in `code`)."""

    kind: str | None = None
    code: str | None = None
    status_code: str | None = None
    description: str | None = None


class _Address(Struct):
    city: str | None = None
    state: str | None = field(name="stateProvince", default=None)
    postal_code: str | None = field(name="postalCode", default=None)
    code: str | None = field(name="countryCode", default=None)
    country: str | None = None


class _Location(Struct):
    """A place; without an address it is only the number of a building."""

    address: _Address | str | None = None


class _Activity(Struct):
    """One scan; its place in time also at Greenwich, in some answers."""

    date: str | None = None
    time: str | None = None
    offset: str | None = field(name="gmtOffset", default=None)
    gmt_date: str | None = field(name="gmtDate", default=None)
    gmt_time: str | None = field(name="gmtTime", default=None)
    status: _Told | None = None
    location: _Location | None = None


class _Day(Struct, rename={"kind": "type"}):
    """A day of delivery: scheduled (SDD), re-scheduled (RDD) or done (DEL)."""

    kind: str | None = None
    date: str | None = None


class _Party(Struct, rename={"kind": "type"}):
    """The sender (ORIGIN) or the addressee (DESTINATION)."""

    kind: str | None = None
    address: _Address | str | None = None


class _Receipt(Struct, rename={"by": "receivedBy"}):
    """Who received the parcel. Photos and signatures in it are not read: they prove nothing."""

    by: str | None = None


class _Alias(Struct):
    """Another number of the same parcel, at a partner's."""

    number: str | None = None


class _Package(Struct):
    number: str | None = field(name="trackingNumber", default=None)
    aliases: list[_Alias] | None = field(name="alternateTrackingNumber", default=None)
    activity: list[_Activity] | None = None
    now: _Told | None = field(name="currentStatus", default=None)
    days: list[_Day] | None = field(name="deliveryDate", default=None)
    receipt: _Receipt | None = field(name="deliveryInformation", default=None)
    parties: list[_Party] | None = field(name="packageAddress", default=None)
    weight: Any = None
    service: Any = None
    references: Any = field(name="referenceNumber", default=None)


class _Complaint(Struct):
    """A warning about a number, or an error."""

    code: str | None = None
    message: str | None = None


class _Shipment(Struct, rename={"number": "inquiryNumber"}):
    number: str | None = None
    package: list[_Package] | None = None
    warnings: list[_Complaint] | None = None


class _Shipments(Struct):
    shipment: list[_Shipment] | None = None


class _Errors(Struct):
    errors: list[_Complaint] | None = None


class _Reply(Struct, rename={"told": "trackResponse", "failed": "response"}):
    told: _Shipments | None = None
    failed: _Errors | None = None


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number."""
    client, secret = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    number = numbers.alphanumeric(request.number)
    basic = {"Authorization": basic_auth(client, secret)}
    form = {"grant_type": "client_credentials"}
    answer = await fetch.get(
        ["api", "track", "v1", "details", number],
        query={"locale": "en_US", "returnSignature": "false"},
        headers={"transId": uuid.uuid4().hex, "transactionSrc": "tracking"},
        grant=Grant(fetch.settings.token_url, form=form, headers=basic),
    )
    return fetch.read(answer, parse, number)


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the one package that is ours out of the answer's shipments."""
    refuse(status, headers, body, TELLING)
    answer = decode(body, _Reply)
    shipments = (answer.told.shipment if answer.told else None) or []
    if any(shipment.package for shipment in shipments):
        return _ours(shipments, number)
    complaints = [complaint for shipment in shipments for complaint in shipment.warnings or ()]
    complaints += (answer.failed.errors if answer.failed else None) or []
    return _judge(complaints, status)


def _ours(shipments: list[_Shipment], number: str) -> Tracking:
    """Read the package of this number, the one seen last if it was used again; or a shipment's."""
    packages = [package for shipment in shipments for package in shipment.package or ()]
    named = [
        _tracking(package)._replace(sub_parcels=_sub_parcels(shipment, number))
        for shipment in shipments
        for package in shipment.package or ()
        if number in _names(package)
    ]
    if named:
        return latest(named)
    whole = [each for each in shipments if each.number == number and each.package]
    if whole:
        return latest(
            together(list(map(_tracking, each.package or ())))._replace(
                sub_parcels=_sub_parcels(each, number)
            )
            for each in whole
        )
    if len(packages) == 1 and {each.number for each in shipments} == {None}:
        return _tracking(packages[0])
    raise WrongNumber(f"asked for {number}, answered with {len(packages)} other packages")


def _sub_parcels(shipment: _Shipment, number: str) -> tuple[str, ...]:
    packages = shipment.package or ()
    return others((each.number for each in packages if number not in _names(each)), number)


def _names(package: _Package) -> set[str | None]:
    return {package.number, *(alias.number for alias in package.aliases or ())}


def _judge(complaints: list[_Complaint], status: int) -> Tracking:
    codes = {complaint.code for complaint in complaints}
    said = next((told for c in complaints if (told := text(c.message))), "no reason given")
    if codes & INVALID:
        raise InvalidNumber(said)
    if codes & UNKNOWN:
        return NOT_FOUND_YET
    if codes & REFUSED:
        raise AuthFailed(said)
    if complaints and status == HTTPStatus.BAD_REQUEST:
        raise RequestRefused(said)
    raise unexpected(status, f"neither a package nor a known warning ({said})")


def _tracking(package: _Package) -> Tracking:
    past = history(map(_scan, package.activity or ()), newest_first=True)
    events, last = past
    status = _known(package.now) or past.status
    if status is None and not events:
        raise UnreadableAnswer("a package with neither activity nor a status")
    status = statuses.unless_returned(status or statuses.IN_TRANSIT, last)
    if last and last.tag is status.tag:
        status = statuses.Status(last.tag, last.subtag)
    answer = tracking_of(past, status)
    return answer._replace(
        expected_delivery=_expected(package.days or []),
        signed_by=text(package.receipt.by) if answer.delivered_at and package.receipt else None,
        origin=_city(package, "ORIGIN"),
        destination=_city(package, "DESTINATION"),
        weight_grams=grams(
            inside(package.weight, "weight"), inside(package.weight, "unitOfMeasurement")
        ),
        service=inside(package.service, "description"),
        reference=inside(package.references, "number"),
        unknown_codes=statuses.unknown_codes(
            (_code(each) for each in (*map(_told, package.activity or ()), package.now)),
            STATUS_CODES,
            ACTIVITIES,
            SILENT,
        ),
    )


def _scan(activity: _Activity) -> Scan:
    day, clock = activity.date or "", activity.time or ""
    moment = read_digits(day, clock, place_offset=text(activity.offset) or _offset(activity))
    told = _told(activity)
    at = _address(activity.location)
    where = country(text(at.code) or text(at.country))
    place = Place(where, at.city, at.state, at.postal_code)
    return scan(moment, told.description, _known(told), _code(told), place)


def _told(activity: _Activity) -> _Told:
    return activity.status or _Told()


def _code(told: _Told | None) -> str | None:
    return (text(told.status_code) or text(told.code)) if told else None


def _offset(activity: _Activity) -> str | None:
    """Work out how far the place is from Greenwich, where only its two times are given."""
    try:
        there = read_digits(activity.gmt_date or "", activity.gmt_time or "")
        here = read_digits(activity.date or "", activity.time or "")
    except UnreadableAnswer:
        return None  # the leading zero of an hour may be lost
    return offset_between(here, there)


def _address(place: _Location | _Party | None) -> _Address:
    return place.address if place and isinstance(place.address, _Address) else _Address()


def _known(told: _Told | None) -> statuses.Status | None:
    """Read a status by its code, its type, its words; the current one has its code in `code`."""
    if told is None:
        return None
    codes = (text(told.status_code) or "", text(told.code) or "")
    if SILENT.intersection(codes):
        return None
    said = text(told.description) or ""
    own = ACTIVITIES.get(codes[1])
    by_code = STATUS_CODES.get(codes[0]) or STATUS_CODES.get(codes[1]) or own
    if by_code == statuses.DELIVERED and own in (statuses.FOR_PICKUP, statuses.COLLECTED):
        return own
    if by_code == statuses.CUSTOMS_DONE and _SUBMITS.search(said):
        return statuses.CUSTOMS_BEGUN
    by_words = statuses.recognise(said)
    known = by_code or TYPES.get(text(told.kind) or "") or by_words
    if known is statuses.IN_TRANSIT and by_words and by_words.tag is Tag.IN_TRANSIT:
        return by_words  # one code covers arrivals and departures
    return statuses.unless_denied(known, said) if known else None


def _city(package: _Package, kind: str) -> str | None:
    found = (party for party in package.parties or () if party.kind == kind)
    address = _address(next(found, None))
    return place(address.city, address.state, address.code)


def _expected(days: list[_Day]) -> str | None:
    """Find the day of a re-scheduled delivery, else of the scheduled one; not of a past one."""
    by_kind = {day.kind: day.date for day in days}
    told = re.fullmatch(r"(\d{4})(\d\d)(\d\d)", by_kind.get("RDD") or by_kind.get("SDD") or "")
    return "-".join(told.groups()) if told else None
