"""La Poste's Suivi v2: Colissimo, registered letters, and Chronopost as far as it tells.

One number is answered by an object or by a list of one, with a `returnCode` of its own inside; 104
is "nothing known for now", whatever the HTTP status. `isFinal` alone is no delivery: a parcel that
went back to its sender is final too. Events name no place.

Ten numbers, at most, are asked for in one call, with commas between them. La Poste's OpenAPI text
answers them by a list (200, or 207 where they differ) of what it answers to each one alone, and
that names its number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from couriers.http.credentials import credentials
from couriers.http.refusals import refuse, unexpected
from couriers.http.several import Cut, Ends, parser_of, track_each
from couriers.reading import numbers, statuses
from couriers.reading.answer import Answer, decode, decode_each, inside, text
from couriers.reading.checkpoints import Scan, history, latest, read_iso, scan, tracking_of
from couriers.reading.countries import country
from tracking.checkpoint import NOT_FOUND_YET, Tracking
from tracking.errors import InvalidNumber, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "La Poste Colissimo"
BASE_URL = "https://api.laposte.fr"
CREDENTIALS: tuple[str, ...] = ("api_key",)
CREDENTIALS_FROM = "developer.laposte.fr: an app with Suivi v2 (its production key)"
PATTERNS: tuple[numbers.NumberForm, ...] = (
    numbers.form(r"\d[A-Z]\d{11}"),
    numbers.s10("FR"),
    numbers.form(r"\d[A-Z]{2}\d{10}"),
)
VERIFIED = (
    "La Poste's OpenAPI text, its list of event codes and a sample; never run against the live site"
)

CODES: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "DR1",
        # DI3 begins like the deliveries, and means "delayed".
        statuses.PROBLEM: "DR2 PB1 DI3",
        statuses.ACCEPTED: "PC1 PC2",
        statuses.IN_TRANSIT: "ET1 ET2 ET4 EP1",
        statuses.ARRIVED_ABROAD: "ET3",
        statuses.CUSTOMS_BEGUN: "DO1",
        statuses.CUSTOMS_DONE: "DO2",
        statuses.CUSTOMS_DELAY: "DO3",
        statuses.PROBLEM_SOLVED: "PB2",
        statuses.OUT_FOR_DELIVERY: "MD1 MD2",
        statuses.ATTEMPTED: "ND1",
        statuses.FOR_PICKUP: "AG1",
        statuses.RETURNING: "RE1",
        statuses.DELIVERED: "DI0 DI1",
        statuses.RETURNED: "DI2",
    }
)
"""`event[].code`: La Poste's list. DI0 is a delivery among several of one addressee."""

SILENT = frozenset({"ID0"})
"""Customs papers, which come before the parcel and after it."""

NOT_YET = frozenset({104, 404})
INVALID = 400
FOUND = frozenset({200, 201, 207, 208})
"""`returnCode` inside the answer."""


class _Event(Struct, rename={"what": "label", "at": "date"}):
    code: str | None = None
    what: str | None = None
    at: str | None = None


class _Context(Struct, rename={"origin": "originCountry", "arrival": "arrivalCountry"}):
    origin: str | None = None
    arrival: str | None = None


class _Shipment(Struct):
    number: str | None = field(name="idShip", default=None)
    events: list[_Event] | None = field(name="event", default=None)
    expected: str | None = field(name="estimDate", default=None)
    context: _Context | None = field(name="contextData", default=None)
    product: Any = None


class _Reply(Struct):
    result: int | None = field(name="returnCode", default=None)
    said: str | None = field(name="returnMessage", default=None)
    number: str | None = field(name="idShip", default=None)
    shipment: _Shipment | None = None


class _ShipmentNamed(Struct):
    number: str | None = field(name="idShip", default=None)


class _Named(_ShipmentNamed):
    shipment: _ShipmentNamed | None = None


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number."""
    return fetch.read(await _ask(fetch, [request.number]), parse, request.number)


async def track_many(fetch: Fetch, requests: Sequence[TrackingRequest]) -> Ends:
    """Ask for several numbers."""
    return await track_each(fetch, requests, _ask, parse_many)


async def _ask(fetch: Fetch, wanted: Sequence[str]) -> Answer:
    [key] = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    named = tuple(map(numbers.alphanumeric, wanted))
    return await fetch.get(
        ["suivi", "v2", "idships", named], query={"lang": "en_GB"}, headers={"X-Okapi-Key": key}
    )


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the one result that is ours; its own code stands above the HTTP status."""
    refuse(status, headers, body)
    replies = decode_each(body, _Reply)
    ours = [reply for reply in replies if _number(reply) in (number, None)]
    if replies and not ours:
        raise WrongNumber(f"asked for {number}, answered about {len(replies)} other numbers")
    found = [reply.shipment for reply in ours if reply.result in FOUND | {None}]
    shipments = [shipment for shipment in found if shipment and shipment.events]
    if shipments:
        return latest(map(_tracking, shipments))
    reply = next(iter(ours), _Reply())
    said = text(reply.said) or "no reason given"
    if reply.result in NOT_YET:
        return NOT_FOUND_YET
    if reply.result == INVALID:
        raise InvalidNumber(said)
    if reply.result:
        refuse(reply.result, headers, said.encode())
    raise unexpected(status, f"neither events nor a known return code ({said})")


parse_many = parser_of(parse, Cut((), lambda piece: [_number(decode(piece, _Named))]))


def _number(reply: _Reply | _Named) -> str | None:
    return text(reply.number) or (text(reply.shipment.number) if reply.shipment else None)


def _tracking(shipment: _Shipment) -> Tracking:
    listed = shipment.events or []
    past = history(map(_scan, listed), newest_first=True)
    context = shipment.context or _Context()
    return tracking_of(past)._replace(
        expected_delivery=text(shipment.expected),
        origin=_country(context.origin),
        destination=_country(context.arrival),
        service=inside(shipment.product),
        unknown_codes=statuses.unknown_codes((event.code for event in listed), CODES, SILENT),
    )


def _scan(event: _Event) -> Scan:
    return scan(read_iso(event.at or ""), event.what, _known(event), event.code)


def _known(event: _Event) -> statuses.Status | None:
    code, said = text(event.code) or "", text(event.what) or ""
    if code in SILENT:
        return None
    known = CODES.get(code)
    return statuses.unless_denied(known, said) if known else statuses.recognise(said)


def _country(code: str | None) -> str | None:
    where = country(text(code))
    return where.name if where else None
