"""PostNL's Shippingstatus, version 2: XML that was turned into JSON.

A list of one is an object and an empty value is `{}`. An unknown number is a warning inside a 200.
The status "delivered" also covers lockers, post-office boxes and returns to the sender: then the
newest event tells. Times begin with the day and have no offset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from couriers.http.numbers import alphanumeric
from couriers.http.refusals import TELLING, refuse, unexpected
from couriers.http.settings import credentials
from couriers.postnl.answer import Address, Event, Reply, Shipment, State, each, said
from couriers.postnl.codes import EVENTS, NOTHING, SILENT, STATUSES
from couriers.reading import statuses
from couriers.reading.answer import decode
from couriers.reading.checkpoints import (
    Scan,
    history,
    refined,
    scan,
    tracking_of,
    unknown_codes,
)
from couriers.reading.details import grams, inside, others
from couriers.reading.multi_piece import latest, together
from couriers.reading.number_forms import NumberForm, form, s10
from couriers.reading.status_phrases import recognise, unless_sent_back
from couriers.reading.statuses import Status
from couriers.reading.times import Moment, read_day_first, read_iso
from tracking.checkpoint import NOT_FOUND_YET, Checkpoint, Tag, Tracking
from tracking.errors import InvalidNumber, RequestRefused, UnreadableAnswer, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "PostNL"
BASE_URL = "https://api.postnl.nl"
TOKEN_URL = ""
CREDENTIALS: tuple[str, ...] = ("api_key",)
ASKS = "`GET /shipment/v2/status/barcode/N`"
AUTH = "a key in `apikey`"
CREDENTIALS_FROM = "developer.postnl.nl: a key with Shippingstatus; it shows your own parcels only"
REQUIRED_FIELDS: tuple[str, ...] = ()
PATTERNS: tuple[NumberForm, ...] = (form(r"3S[A-Z]{3,4}\d{7,9}"), s10("NL"))
QUOTA = "asks for useful intervals, not every minute"
VERIFIED = "PostNL's OpenAPI text, its tables of codes and samples; never run against the live site"

_RECEIVER, _SENDER = "01", "02"


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number with its events."""
    [key] = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    number = alphanumeric(request.number)
    answer = await fetch.get(
        ["shipment", "v2", "status", "barcode", number],
        query={"detail": "true", "language": "EN"},
        headers={"apikey": key},
    )
    return fetch.read(answer, parse, number)


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the shipment that is ours; its absence with a warning means "not known yet"."""
    refuse(status, headers, body, TELLING)
    reply = decode(body, Reply)
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


def _ours(shipments: list[Shipment], number: str) -> Tracking:
    """Read the parcel of this number, the one seen last if it was used again; or all of a main."""
    ours = [shipment for shipment in shipments if said(shipment.barcode) == number]
    if ours:
        return latest(map(_tracking, ours))
    ours = [shipment for shipment in shipments if said(shipment.main) == number]
    if not ours:
        raise WrongNumber(f"asked for {number}, answered with {len(shipments)} other shipments")
    barcodes = others((said(shipment.barcode) for shipment in ours), number)
    return together(list(map(_tracking, ours)))._replace(sub_parcels=barcodes)


def _tracking(shipment: Shipment) -> Tracking:
    listed = [event for event in each(shipment.events) if said(event.at)]
    states = [shipment.status] if shipment.status else []
    scans = [_scan(event, _known(event)) for event in listed]
    scans = scans or [_scan(state, _meaning(state)) for state in states if said(state.at)]
    past = events, last = history(scans, newest_first=True)
    status = _status(shipment.status, last)
    if status is None and not events:
        raise UnreadableAnswer("a shipment with neither a known status nor an event")
    status = refined(status or statuses.IN_TRANSIT, last)
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
        unknown_codes=unknown_codes((said(state.code) for state in states), STATUSES, SILENT)
        + unknown_codes((_code(event) for event in listed), EVENTS, SILENT),
    )


def _status(state: State | None, last: Checkpoint | None) -> Status | None:
    """Read the status; where it says "delivered", the newest event may say to whom or where."""
    known = _meaning(state)
    by_event = Status(last.tag, last.subtag) if last else None
    if known and known.tag is Tag.DELIVERED and last:
        elsewhere = last.tag in (Tag.AVAILABLE_FOR_PICKUP, Tag.EXCEPTION)
        return by_event if elsewhere else known
    return known or by_event


def _meaning(state: State | None) -> Status | None:
    return STATUSES.get(said(state.code) or "") if state else None


def _scan(told: Event | State, known: Status | None) -> Scan:
    return scan(_moment(said(told.at) or ""), said(told.what), known, said(told.code))


def _moment(at: str) -> Moment:
    """Read a time; the service's other addresses write the year first."""
    return read_iso(at) if re.match(r"\d{4}-", at) else read_day_first(at)


def _known(event: Event) -> Status | None:
    if _code(event) in SILENT:
        return None
    known, what = EVENTS.get(_code(event)), said(event.what) or ""
    return unless_sent_back(known, what) if known else recognise(what)


def _code(event: Event) -> str:
    return _letter_first(said(event.code) or "")


def _letter_first(code: str) -> str:
    """Write "01A", as answers have it, like the table: "A01"."""
    return f"{code[2]}{code[:2]}" if re.fullmatch(r"\d\d[A-Z]", code, re.ASCII) else code


def _city(shipment: Shipment, kind: str) -> str | None:
    found: Address | None = next(
        (address for address in each(shipment.addresses) if said(address.kind) == kind), None
    )
    return said(found.city) if found else None
