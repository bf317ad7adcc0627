"""PostNL's Shippingstatus, version 2: XML that was turned into JSON.

A list of one is an object and an empty value is `{}`. An unknown number is a warning inside a 200.
The status "delivered" also covers lockers, post-office boxes and returns to the sender: then the
newest event tells. Times begin with the day and have no offset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field

from couriers.http.credentials import credentials
from couriers.http.refusals import TELLING, refuse, unexpected
from couriers.reading import numbers, statuses
from couriers.reading.answer import decode, grams, inside, others, text
from couriers.reading.checkpoints import (
    Moment,
    Scan,
    history,
    latest,
    read_day_first,
    read_iso,
    scan,
    together,
    tracking_of,
)
from tracking.checkpoint import NOT_FOUND_YET, Checkpoint, Tag, Tracking
from tracking.errors import InvalidNumber, RequestRefused, UnreadableAnswer, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "PostNL"
BASE_URL = "https://api.postnl.nl"
CREDENTIALS: tuple[str, ...] = ("api_key",)
CREDENTIALS_FROM = "developer.postnl.nl: a key with Shippingstatus; it shows your own parcels only"
PATTERNS: tuple[numbers.NumberForm, ...] = (numbers.form(r"3S[A-Z]{3,4}\d{7,9}"), numbers.s10("NL"))
VERIFIED = "PostNL's OpenAPI text, its tables of codes and samples; never run against the live site"

STATUSES: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "1 13 14",
        # 23: collected at the sender's.
        statuses.ACCEPTED: "2 3 23",
        # 18: "definitely missing" in the phase of collection, so it never came to the courier.
        statuses.PROBLEM: "4 6 15 16 17 18",
        statuses.IN_TRANSIT: "5 21 31",
        statuses.OUT_FOR_DELIVERY: "7",
        statuses.ATTEMPTED: "8",
        statuses.CUSTOMS_BEGUN: "9 20",
        statuses.DELIVERED: "11",
        statuses.FOR_PICKUP: "12",
        statuses.REJECTED: "19",
        statuses.COLLECTED: "22",
        statuses.RETURNING: "27 28",
    }
)
"""`StatusCode`: the developer portal's table."""

EVENTS: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "A01 A10 A71 F01 M01 M03 X80 A20 A21 A22",
        statuses.ACCEPTED: "B01 B04 B06 C01 X40 A73 A74",
        statuses.IN_TRANSIT: (
            "J01 J06 X15 X16 A72 A75 Q15 Q16 Q17 Q18 Q19 S05 X19 X52 V12 V13 V22 V23 V50 A76"
        ),
        statuses.CUSTOMS_BEGUN: "X03 X60 X62 Y25 X10",
        statuses.CUSTOMS_DONE: "X04 X61 X65",
        statuses.CUSTOMS_DELAY: "X30 X63 X64 X66 Y46 Y64",
        statuses.PAYMENT_DUE: "X67",
        statuses.OUT_FOR_DELIVERY: "J05 X06 X55 Y05 J59",
        statuses.ATTEMPTED: "H34 K15 K16 K41 K70 K71 Y15 Y36 Y37 Y38 Y41",
        statuses.NOBODY_THERE: "K14 Y02 Y10 Y42 Y80",
        statuses.BUSINESS_CLOSED: "Y43",
        statuses.FOR_PICKUP: "I08 J02 J12 J23 J52 X05 Y26",
        statuses.DELIVERED: "I01 I03 I05 I09 I11 I12 I23 J91 Z01 Z02 Z03 Z04 Z08 Z09",
        statuses.AT_NEIGHBOUR: "I10 Z05",
        statuses.COLLECTED: "I02 I22 Z06",
        statuses.PROBLEM: "J07 K25 K91 V04 V31 G01 G02 G03 G05 T02 H23 H30 H31 Y29 Y45 Y48 Y71",
        statuses.OUTSIDE_CAUSE: "Y65",
        statuses.MOVED: "Y22",
        statuses.REFUSED: "Y03 Y13 Y44 Y50",
        statuses.WRONG_ADDRESS: "D02 D04 H36 Y01 Y09 Y12 Y17 Y30 Y31 Y32",
        statuses.DAMAGED: "Y04 Y11 Y14",
        statuses.REJECTED: "F03 F04 F05 F06 F07 F08 F10 X42 X43",
        statuses.RETURNING: (
            "H01 H02 H03 H04 H05 H07 H08 H09 H12 H15 H16 H17 H18 H20 H22 H24 H25 H38 H51 H52 K43 "
            "I07 X24 X81 Y16 Y18 Y19 Y20 Y21 Y40 Y47"
        ),
        statuses.RETURNED: "J63",
    }
)
"""`Code` of events, letter first: the portal's table, where many more only say "sorted"."""

_NO_PLACE = "A41 A42 A43 A46 A94 C02 J56 J80 K90 P20 P21 P22 P23 P24 Q14 I06"
SILENT = frozenset({"99", *_NO_PLACE.split()})
"""Not applicable, contacts, wishes; and I06, which counts as delivered when it is only sorted."""

NOTHING = frozenset({"2"})
"""`Code` of the warning "No shipment found"."""

_RECEIVER, _SENDER = "01", "02"

T = TypeVar("T")

Value = str | int | float | dict[str, Any] | None
_EMPTY = "{}"


def said(value: Value) -> str | None:
    """Read a value as text; None for an empty object, also for one written as text."""
    told = None if isinstance(value, dict) else text(value)
    return None if told == _EMPTY else told


def each(value: list[T] | T | None) -> list[T]:
    """Read what may be several, one or nothing as a list."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


class _Event(Struct, rename={"code": "Code", "what": "Description", "at": "TimeStamp"}):
    code: Value = None
    what: Value = None
    at: Value = None


class _State(Struct):
    code: Value = field(name="StatusCode", default=None)
    what: Value = field(name="StatusDescription", default=None)
    at: Value = field(name="TimeStamp", default=None)


class _Address(Struct, rename={"kind": "AddressType", "city": "City"}):
    """Of the addressee (01) or the sender (02)."""

    kind: Value = None
    city: Value = None


class _Expectation(Struct, rename={"until": "ETATo"}):
    until: Value = None


class _Shipment(Struct):
    """One parcel, with its events only where they were asked for."""

    main: Value = field(name="MainBarcode", default=None)
    barcode: Value = field(name="Barcode", default=None)
    day: Value = field(name="DeliveryDate", default=None)
    addresses: list[_Address] | _Address | None = field(name="Address", default=None)
    events: list[_Event] | _Event | None = field(name="Event", default=None)
    expected: _Expectation | None = field(name="Expectation", default=None)
    status: _State | None = field(name="Status", default=None)
    dimension: Any = field(name="Dimension", default=None)
    product: Any = field(name="ProductDescription", default=None)
    reference: Any = field(name="Reference", default=None)

    @property
    def is_told(self) -> bool:
        """False for an empty object that stands for no shipment."""
        return bool(said(self.barcode) or said(self.main) or self.events or self.status)


class _Told(Struct, rename={"shipment": "Shipment"}):
    """A shipment, or several of one reference."""

    shipment: list[_Shipment] | _Shipment | None = None


class _Complaint(Struct, rename={"message": "Message", "code": "Code"}):
    """A warning about a number, or an error."""

    message: Value = None
    code: Value = None


class _Reply(Struct):
    complete: _Told | None = field(name="CompleteStatus", default=None)
    current: _Told | None = field(name="CurrentStatus", default=None)
    warnings: list[_Complaint] | _Complaint | None = field(name="Warnings", default=None)
    errors: list[_Complaint] | _Complaint | None = field(name="Errors", default=None)
    error_list: list[_Complaint] | _Complaint | None = field(name="Error", default=None)


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number with its events."""
    [key] = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    number = numbers.alphanumeric(request.number)
    answer = await fetch.get(
        ["shipment", "v2", "status", "barcode", number],
        query={"detail": "true", "language": "EN"},
        headers={"apikey": key},
    )
    return fetch.read(answer, parse, number)


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the shipment that is ours; its absence with a warning means "not known yet"."""
    refuse(status, headers, body, TELLING)
    reply = decode(body, _Reply)
    found = [one for told in (reply.complete, reply.current) if told for one in each(told.shipment)]
    shipments = [shipment for shipment in found if shipment.is_told]
    if status == HTTPStatus.OK and shipments:
        return _ours(shipments, number)
    complaints = [*each(reply.warnings), *each(reply.errors), *each(reply.error_list)]
    told = next((words for one in complaints if (words := said(one.message))), "no reason given")
    codes = {said(one.code) for one in complaints}
    if codes & NOTHING or re.search(r"no shipment found", told, re.IGNORECASE):
        return NOT_FOUND_YET
    if re.search(r"\b(?:invalid|incorrect)\b.*\bbarcode|barcode.*\bvalid", told, re.IGNORECASE):
        raise InvalidNumber(told)
    if status == HTTPStatus.BAD_REQUEST and complaints:
        raise RequestRefused(told)
    raise unexpected(status, f"neither a shipment nor a known warning ({told})")


def _ours(shipments: list[_Shipment], number: str) -> Tracking:
    """Read the parcel of this number, the one seen last if it was used again; or all of a main."""
    ours = [shipment for shipment in shipments if said(shipment.barcode) == number]
    if ours:
        return latest(map(_tracking, ours))
    ours = [shipment for shipment in shipments if said(shipment.main) == number]
    if not ours:
        raise WrongNumber(f"asked for {number}, answered with {len(shipments)} other shipments")
    barcodes = others((said(shipment.barcode) for shipment in ours), number)
    return together(list(map(_tracking, ours)))._replace(sub_parcels=barcodes)


def _tracking(shipment: _Shipment) -> Tracking:
    listed = [event for event in each(shipment.events) if said(event.at)]
    states = [shipment.status] if shipment.status else []
    scans = [_scan(event, _known(event)) for event in listed]
    scans = scans or [_scan(state, _meaning(state)) for state in states if said(state.at)]
    past = events, last = history(scans, newest_first=True)
    status = _status(shipment.status, last)
    if status is None and not events:
        raise UnreadableAnswer("a shipment with neither a known status nor an event")
    status = statuses.refined(status or statuses.IN_TRANSIT, last)
    answer = tracking_of(past, status)
    since = said(shipment.status.at) if answer.delivered and shipment.status else None
    expected = shipment.expected
    return answer._replace(
        expected_delivery=(said(expected.until) if expected else None) or said(shipment.day),
        delivered_at=answer.delivered_at or (since and _moment(since).local),
        origin=_city(shipment, _SENDER),
        destination=_city(shipment, _RECEIVER),
        weight_grams=grams(inside(shipment.dimension, "Weight"), "g"),
        service=inside(shipment.product),
        reference=inside(shipment.reference),
        unknown_codes=statuses.unknown_codes(
            (said(state.code) for state in states), STATUSES, SILENT
        )
        + statuses.unknown_codes((_code(event) for event in listed), EVENTS, SILENT),
    )


def _status(state: _State | None, last: Checkpoint | None) -> statuses.Status | None:
    """Read the status; where it says "delivered", the newest event may say to whom or where."""
    known = _meaning(state)
    by_event = statuses.Status(last.tag, last.subtag) if last else None
    if known and known.tag is Tag.DELIVERED and last:
        elsewhere = last.tag in (Tag.AVAILABLE_FOR_PICKUP, Tag.EXCEPTION)
        return by_event if elsewhere else known
    return known or by_event


def _meaning(state: _State | None) -> statuses.Status | None:
    return STATUSES.get(said(state.code) or "") if state else None


def _scan(told: _Event | _State, known: statuses.Status | None) -> Scan:
    return scan(_moment(said(told.at) or ""), said(told.what), known, said(told.code))


def _moment(at: str) -> Moment:
    """Read a time; the service's other addresses write the year first."""
    return read_iso(at) if re.match(r"\d{4}-", at) else read_day_first(at)


def _known(event: _Event) -> statuses.Status | None:
    if _code(event) in SILENT:
        return None
    known, what = EVENTS.get(_code(event)), said(event.what) or ""
    return statuses.unless_sent_back(known, what) if known else statuses.recognise(what)


def _code(event: _Event) -> str:
    return _letter_first(said(event.code) or "")


def _letter_first(code: str) -> str:
    """Write "01A", as answers have it, like the table: "A01"."""
    return f"{code[2]}{code[:2]}" if re.fullmatch(r"\d\d[A-Z]", code, re.ASCII) else code


def _city(shipment: _Shipment, kind: str) -> str | None:
    found: _Address | None = next(
        (address for address in each(shipment.addresses) if said(address.kind) == kind), None
    )
    return said(found.city) if found else None
