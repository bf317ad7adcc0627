"""PostNord's Track and Trace, version 5.

An unknown number is an empty list of shipments in a 200. After a delivery a notice with status
OTHER follows (a text message was sent), so the item's own status decides and not the last event.
"Delivered to a service point" is not yet delivered. Times are local, without an offset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from couriers.http.credentials import credentials
from couriers.http.refusals import refuse, unexpected
from couriers.reading import numbers, statuses
from couriers.reading.answer import decode, grams, inside, others, text
from couriers.reading.checkpoints import (
    Place,
    Scan,
    history,
    latest,
    read_iso,
    scan,
    together,
    tracking_of,
)
from couriers.reading.countries import country
from tracking.checkpoint import NOT_FOUND_YET, Checkpoint, Tag, Tracking
from tracking.errors import InvalidNumber, RequestRefused, UnreadableAnswer, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "PostNord"
BASE_URL = "https://api2.postnord.com"
CREDENTIALS: tuple[str, ...] = ("api_key",)
CREDENTIALS_FROM = "developer.postnord.com: an API key with Track and Trace"
PATTERNS: tuple[numbers.NumberForm, ...] = (
    numbers.form(r"\d{11}(?:SE|DK|NO|FI)"),
    numbers.s10("SE|DK"),
    numbers.form(r"(?:00)?[37]\d{17}", numbers.gs1),
)
VERIFIED = (
    "PostNord's OpenAPI text, and an answer described after a recorded one, which has a status "
    "more; never run against the live site"
)

CODES: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "CREATED INFORMED",
        statuses.IN_TRANSIT: "EN_ROUTE",
        statuses.OUT_FOR_DELIVERY: "DELIVERY",
        statuses.FOR_PICKUP: "AVAILABLE_FOR_DELIVERY AVAILABLE_FOR_DELIVERY_PAR_LOC",
        statuses.DELIVERED: "DELIVERED",
        statuses.ATTEMPTED: "DELIVERY_IMPOSSIBLE",
        statuses.REFUSED: "DELIVERY_REFUSED",
        statuses.PROBLEM: "DELAYED EXPECTED_DELAY STOPPED",
        statuses.RETURNING: "RETURNED",
    }
)
"""`status` of items and events. RETURNED is final only once the item's `returnDate` has come: it
stands there as a plan, too."""

_LABELLED = re.compile(r"00[37]\d{17}", re.ASCII)
_BOOKED = re.compile(r"awaiting the (?:booked|agreed) delivery", re.IGNORECASE)

SILENT = frozenset({"OTHER", "SPLIT"})
"""Notices, and shipments whose items differ: they decide nothing."""


class _Location(Struct):
    name: str | None = None
    shown: str | None = field(name="displayName", default=None)
    city: str | None = None
    postal_code: str | None = field(name="postcode", default=None)
    code: str | None = field(name="countryCode", default=None)
    country: str | None = None


class _Event(Struct):
    """One scan, or a notice. Version 7 calls its status otherwise."""

    at: str | None = field(name="eventTime", default=None)
    what: str | None = field(name="eventDescription", default=None)
    status: str | None = None
    status_v7: str | None = field(name="eventStatus", default=None)
    place: _Location | None = field(name="location", default=None)


class _Reference(Struct):
    value: str | None = None


class _Acceptor(Struct):
    name: str | None = None


class _Item(Struct):
    number: str | None = field(name="itemId", default=None)
    status: str | None = None
    expected: str | None = field(name="estimatedTimeOfArrival", default=None)
    delivered: str | None = field(name="deliveryDate", default=None)
    returned: str | None = field(name="returnDate", default=None)
    acceptor: _Acceptor | None = None
    events: list[_Event] | None = None
    references: list[_Reference] | None = None
    stated: Any = field(name="statedWeight", default=None)
    assessed: Any = field(name="assessedWeight", default=None)


class _Address(Struct):
    city: str | None = None


class _Party(Struct):
    address: _Address | None = None


class _Shipment(Struct):
    number: str | None = field(name="shipmentId", default=None)
    expected: str | None = field(name="estimatedTimeOfArrival", default=None)
    consignor: _Party | None = None
    consignee: _Party | None = None
    references: list[_Reference] | None = field(name="shipmentReference", default=None)
    items: list[_Item] | None = None
    service: Any = None


class _Fault(Struct, rename={"code": "faultCode", "said": "explanationText"}):
    code: str | None = None
    said: str | None = None


class _Faults(Struct):
    faults: list[_Fault] | None = None


class _Told(Struct, rename={"faults": "compositeFault"}):
    shipments: list[_Shipment] | None = None
    faults: _Faults | None = None


class _Reply(Struct):
    """The whole answer; faults may stand at its top, in version 7 the shipments too."""

    told: _Told | None = field(name="TrackingInformationResponse", default=None)
    shipments: list[_Shipment] | None = None
    faults: _Faults | None = field(name="compositeFault", default=None)


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number, of an item or of a shipment."""
    [key] = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    number = numbers.alphanumeric(request.number)
    path = ["rest", "shipment", "v5", "trackandtrace", "findByIdentifier.json"]
    answer = await fetch.get(path, query={"apikey": key, "id": number, "locale": "en"})
    return fetch.read(answer, parse, number)


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the items that are ours; no shipment at all means "not known yet"."""
    refuse(status, headers, body, (HTTPStatus.OK, HTTPStatus.BAD_REQUEST))
    reply = decode(body, _Reply)
    told = reply.told or _Told(shipments=reply.shipments)
    faults = [*_faults(reply.faults), *_faults(told.faults)]
    shipments = told.shipments or []
    items = [(item, shipment) for shipment in shipments for item in shipment.items or ()]
    if status == HTTPStatus.OK and items:
        return _ours(items, number)
    if faults:
        return _judge(faults)
    if status == HTTPStatus.OK and told.shipments == []:
        return NOT_FOUND_YET
    raise unexpected(status, "neither shipments nor faults")


def _ours(items: list[tuple[_Item, _Shipment]], number: str) -> Tracking:
    """Read the item of this number, the one seen last if it was used again; or a whole shipment."""
    named = [pair for pair in items if _bare(pair[0].number) == _bare(number)]
    if named:
        return latest(_of(number, *pair) for pair in named)
    named = [pair for pair in items if _bare(pair[1].number) == _bare(number)]
    named = named or [pair for pair in items if _bare(number) in _references(*pair)]
    if not named:
        raise WrongNumber(f"asked for {number}, answered with {len(items)} other items")
    return together([_of(number, *pair) for pair in named])


def _of(number: str, item: _Item, shipment: _Shipment) -> Tracking:
    """Read an item, and name the others of its shipment."""
    items = shipment.items or ()
    siblings = (each.number for each in items if _bare(each.number) != _bare(number))
    return _tracking(item, shipment)._replace(sub_parcels=others(siblings, number))


def _bare(number: str | None) -> str | None:
    """Drop the 00 that marks a container number on a label: answers come with it and without."""
    plain = text(number)
    return plain[2:] if plain and _LABELLED.fullmatch(plain) else plain


def _grams(weight: object) -> int | None:
    return grams(inside(weight, "value"), inside(weight, "unit"))


def _said(references: list[_Reference] | None) -> list[str]:
    return [told for each in references or () if (told := text(each.value))]


def _references(item: _Item, shipment: _Shipment) -> set[str | None]:
    listed = (item.references or []) + (shipment.references or [])
    return {_bare(reference.value) for reference in listed}


def _faults(composite: _Faults | None) -> list[_Fault]:
    return (composite.faults if composite else None) or []


def _judge(faults: list[_Fault]) -> Tracking:
    said = next((told for fault in faults if (told := text(fault.said))), "no reason given")
    codes = " ".join(fault.code or "" for fault in faults)
    if re.search(r"invalid.?(?:identifier|id)\b", f"{codes} {said}", re.IGNORECASE):
        raise InvalidNumber(said)
    if re.search(r"not.?found|no.?shipment", f"{codes} {said}", re.IGNORECASE):
        return NOT_FOUND_YET
    raise RequestRefused(f"{codes}: {said}")


def _tracking(item: _Item, shipment: _Shipment) -> Tracking:
    listed = item.events or []
    scans = [_scan(event) for event in listed]
    times = [each.checkpoint.checkpoint_time for each in scans]
    past = events, last = history(scans, newest_first=times[:1] > times[-1:])
    status = _status(item, last)
    if status is None and not events:
        raise UnreadableAnswer("an item with neither a status nor an event")
    if status != statuses.RETURNED:
        status = statuses.refined(status or statuses.IN_TRANSIT, last)
    answer = tracking_of(past, status)
    return answer._replace(
        expected_delivery=text(item.expected) or text(shipment.expected),
        delivered_at=answer.delivered_at or _since(item, status),
        signed_by=text(item.acceptor.name) if answer.delivered and item.acceptor else None,
        origin=_city(shipment.consignor),
        destination=_city(shipment.consignee),
        weight_grams=_grams(item.assessed) or _grams(item.stated),
        service=inside(shipment.service, "name"),
        reference=next(iter(_said(item.references) + _said(shipment.references)), None),
        unknown_codes=statuses.unknown_codes((item.status, *map(_code, listed)), CODES, SILENT),
    )


def _status(item: _Item, last: Checkpoint | None) -> statuses.Status | None:
    """Read the item's own status; what it means more exactly, the last event with it says."""
    known = CODES.get(text(item.status) or "")
    back = text(item.returned)
    if known == statuses.RETURNING and back and last and last.checkpoint_time[:10] >= back[:10]:
        return statuses.RETURNED
    if last is None:
        return known
    own = last.raw_tag == text(item.status)
    return statuses.Status(last.tag, last.subtag) if known is None or own else known


def _since(item: _Item, status: statuses.Status) -> str | None:
    """Tell when an item was delivered whose events do not."""
    at = text(item.delivered) if status.tag is Tag.DELIVERED else None
    return read_iso(at).local if at else None


def _scan(event: _Event) -> Scan:
    at = event.place or _Location()
    place = Place(
        country(text(at.code) or text(at.country)),
        city=at.city,
        postal_code=at.postal_code,
        location=text(at.shown) or at.name,
    )
    return scan(read_iso(event.at or ""), event.what, _known(event), _code(event), place)


def _code(event: _Event) -> str | None:
    return text(event.status) or text(event.status_v7)


def _known(event: _Event) -> statuses.Status | None:
    status, said = _code(event) or "", text(event.what) or ""
    if status in SILENT:
        return None
    known, by_words = CODES.get(status), statuses.recognise(said)
    if known is None:
        return by_words
    told = by_words.tag if by_words else None
    if known == statuses.IN_TRANSIT and told in (Tag.IN_TRANSIT, Tag.OUT_FOR_DELIVERY):
        return by_words
    if known == statuses.PROBLEM and told in (Tag.IN_TRANSIT, Tag.EXCEPTION):
        return by_words
    if known == statuses.PROBLEM and _BOOKED.search(said):
        return statuses.IN_TRANSIT
    return statuses.unless_denied(known, said)


def _city(party: _Party | None) -> str | None:
    return text(party.address.city) if party and party.address else None
