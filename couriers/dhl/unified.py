"""Reading the answers of DHL's Unified Shipment Tracking API.

Times are local, or carry an offset and fractions of nine digits; a `Z` behind a local time is a
filler. The status codes are coarse, so the words refine what is "transit" or "failure"; only the
code "delivered" means Delivered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from couriers.reading import statuses
from couriers.reading.answer import address, decode, grams, inside, others, text
from couriers.reading.checkpoints import Place, Scan, history, latest, newest, read_iso, scan
from couriers.reading.countries import country
from tracking.checkpoint import Tag, Tracking
from tracking.errors import UnreadableAnswer, WrongNumber

CODES: dict[str, statuses.Status] = {
    "pre-transit": statuses.INFO_RECEIVED,
    "transit": statuses.IN_TRANSIT,
    "delivered": statuses.DELIVERED,
    "failure": statuses.PROBLEM,
}
"""`statusCode`."""

SILENT = frozenset({"unknown"})
"""The one more, which says nothing."""


class _Address(Struct):
    code: str | None = field(name="countryCode", default=None)
    postal_code: str | None = field(name="postalCode", default=None)
    locality: str | None = field(name="addressLocality", default=None)


class _Place(Struct):
    address: _Address | None = None


class _Event(Struct, rename={"at": "timestamp", "place": "location", "code": "statusCode"}):
    at: str | None = None
    place: _Place | None = None
    code: str | None = None
    status: str | None = None
    description: str | None = None


class _Person(Struct, rename={"given": "givenName", "family": "familyName"}):
    name: str | None = None
    given: str | None = None
    family: str | None = None


class _Proof(Struct, rename={"document": "documentUrl", "signature": "signatureUrl"}):
    signed: _Person | None = None
    document: Any = None
    signature: Any = None


class _Frame(Struct, rename={"until": "estimatedThrough"}):
    until: str | None = None


class _Reference(Struct):
    number: str | int | None = None


class _Details(Struct, rename={"proof": "proofOfDelivery", "pieces": "pieceIds"}):
    proof: _Proof | None = None
    pieces: list[str | int] | None = None
    references: list[_Reference] | _Reference | None = None
    weight: Any = None
    product: Any = None


class _Shipment(Struct):
    id: str | int | None = None
    origin: _Place | None = None
    destination: _Place | None = None
    now: _Event | None = field(name="status", default=None)
    expected: str | None = field(name="estimatedTimeOfDelivery", default=None)
    frame: _Frame | None = field(name="estimatedDeliveryTimeFrame", default=None)
    details: _Details | None = None
    events: list[_Event] | None = None


class _Answer(Struct):
    shipments: list[_Shipment] | None = None


def read(body: bytes, number: str) -> Tracking | None:
    """Read the shipment that is ours; None for an answer without any."""
    shipments = decode(body, _Answer).shipments
    return _ours(shipments, number) if shipments else None


def _ours(shipments: list[_Shipment], number: str) -> Tracking:
    """Read the shipment of this number, the one seen last if it was used again."""
    named = [each for each in shipments if _same(number, [each.id])]
    named = named or [each for each in shipments if _same(number, _other_names(each))]
    if not named:
        raise WrongNumber(f"asked for {number}, answered with {len(shipments)} other shipments")
    return latest(_tracking(each, number) for each in named)


def _other_names(shipment: _Shipment) -> list[str | int | None]:
    """List the numbers of a shipment's pieces and its references."""
    details = shipment.details or _Details()
    return [*(details.pieces or ()), *_references(details)]


def _references(details: _Details) -> list[str | int | None]:
    listed = details.references if isinstance(details.references, list) else []
    single = details.references if isinstance(details.references, _Reference) else None
    return [reference.number for reference in (*listed, single) if reference]


def _same(number: str, names: Iterable[str | int | None]) -> bool:
    """Compare as the courier does: a number may lose its zeros."""
    return number.lstrip("0") in (str(name).upper().lstrip("0") for name in names)


def _tracking(shipment: _Shipment, number: str) -> Tracking:
    now = shipment.now if shipment.now and text(shipment.now.at) else None
    listed = shipment.events or ([now] if now else [])
    events, last = history(map(_scan, listed), newest_first=True)
    status = _known(shipment.now) or (statuses.Status(last.tag, last.subtag) if last else None)
    if status is None:
        raise UnreadableAnswer("a shipment with neither a status nor an event that has one")
    status = statuses.unless_returned(status, last)
    if last and last.tag is status.tag:
        status = statuses.Status(last.tag, last.subtag)
    delivery = newest(events, Tag.DELIVERED) or (_scan(now).checkpoint if now else None)
    delivery = delivery if status.tag is Tag.DELIVERED else None
    details = shipment.details or _Details()
    proof = (delivery and details.proof) or _Proof()
    return Tracking(
        tag=status.tag,
        subtag=status.subtag,
        checkpoints=events,
        expected_delivery=(
            text(shipment.expected) or (text(shipment.frame.until) if shipment.frame else None)
        ),
        delivered_at=delivery.checkpoint_time if delivery else None,
        delivered_at_utc=delivery.checkpoint_utc if delivery else None,
        signed_by=_name(proof.signed) if proof.signed else None,
        origin=_locality(shipment.origin),
        destination=_locality(shipment.destination),
        proof_of_delivery=address(inside(proof.document)) or address(inside(proof.signature)),
        weight_grams=grams(inside(details.weight, "value"), inside(details.weight, "unitText")),
        service=inside(details.product, "productName"),
        reference=next(filter(None, map(text, _references(details))), None),
        sub_parcels=others(details.pieces or (), number),
        unknown_codes=statuses.unknown_codes((event.raw_tag for event in events), CODES, SILENT),
    )


def _scan(event: _Event) -> Scan:
    at = (event.place and event.place.address) or _Address()
    place = Place(country(text(at.code)), postal_code=at.postal_code, location=at.locality)
    return scan(
        read_iso(event.at or "", zone_is_fake=True),
        _sentence(event),
        _known(event),
        event.code,
        place,
    )


def _name(person: _Person) -> str | None:
    return text(person.name) or text(f"{person.given or ''} {person.family or ''}")


def _sentence(event: _Event) -> str:
    return text(event.description) or text(event.status) or ""


def _known(event: _Event | None) -> statuses.Status | None:
    if event is None:
        return None
    by_words = statuses.recognise(_sentence(event))
    match CODES.get(event.code or ""):
        case None:
            return by_words
        case statuses.IN_TRANSIT if by_words and by_words.tag is not Tag.INFO_RECEIVED:
            return by_words
        case statuses.PROBLEM if by_words and by_words.tag in (Tag.EXCEPTION, Tag.ATTEMPT_FAIL):
            return by_words
        case known:
            return statuses.unless_denied(known, _sentence(event))


def _locality(place: _Place | None) -> str | None:
    return text(place.address.locality) if place and place.address else None
