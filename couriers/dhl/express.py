"""Reading the answers of MyDHL, DHL Express' own API.

An event has a day, a clock and, where it was asked for, an offset; its code is DHL Express' own.
The place is written as "SYDNEY-AU". A shipment of several pieces has events of its own and of each.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct, field

from couriers.reading import statuses
from couriers.reading.answer import decode, grams, inside, others, text
from couriers.reading.checkpoints import Place, Scan, history, latest, read_iso, scan, tracking_of
from couriers.reading.countries import country
from tracking.checkpoint import Tracking
from tracking.errors import UnreadableAnswer, WrongNumber

SIGN = b'"shipmentTrackingNumber"'
"""Stands in every answer about a shipment, and in none of the Unified API's."""

WITH_OFFSETS = {"requestGMTOffsetPerEvent": "true"}

CODES: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.ACCEPTED: "PU SA",
        statuses.ARRIVED: "AF AR",
        statuses.DEPARTED: "DF",
        statuses.IN_TRANSIT: "PL SM SC TR RR",
        statuses.FORWARDED: "FD TP",
        statuses.CUSTOMS_BEGUN: "BN IC",
        statuses.CUSTOMS_DONE: "BR CR",
        statuses.CUSTOMS_DELAY: "CD UD",
        statuses.APPOINTMENT: "AD",
        statuses.OUT_FOR_DELIVERY: "WC",
        statuses.FOR_PICKUP: "CC",
        statuses.BUSINESS_CLOSED: "CA",
        statuses.ATTEMPTED: "ND",
        statuses.NOBODY_THERE: "NH",
        # DD: damaged, and delivered all the same.
        statuses.DELIVERED: "OK DD",
        # PD: some pieces of several.
        statuses.PROBLEM: "PD DS MC MD MS OH SS",
        statuses.REFUSED: "RD",
        statuses.WRONG_ADDRESS: "BA",
        statuses.MOVED: "CM",
        statuses.PAYMENT_DUE: "HP",
        statuses.RETURNING: "RT",
    }
)
"""`typeCode` of an event: DHL's list of status codes, those of Express."""

SILENT = frozenset({"CS", "PY"})
"""The shipment is closed; something was paid."""

_REFINED = frozenset({"RR", "SC", "TR"})
"""Codes that say that something was noted: the words say what."""


class _Area(Struct):
    description: str | None = None


class _Event(Struct):
    date: str | None = None
    time: str | None = None
    offset: str | None = field(name="GMTOffset", default=None)
    code: str | None = field(name="typeCode", default=None)
    description: str | None = None
    areas: list[_Area] | None = field(name="serviceArea", default=None)
    signed_by: str | None = field(name="signedBy", default=None)


class _Party(Struct, rename={"areas": "serviceArea"}):
    areas: list[_Area] | None = None


class _Piece(Struct, rename={"number": "trackingNumber"}):
    number: str | int | None = None
    events: list[_Event] | None = None


class _Shipment(Struct):
    number: str | int | None = field(name="shipmentTrackingNumber", default=None)
    status: str | None = None
    shipper: _Party | None = field(name="shipperDetails", default=None)
    receiver: _Party | None = field(name="receiverDetails", default=None)
    expected: str | None = field(name="estimatedDeliveryDate", default=None)
    events: list[_Event] | None = None
    pieces: list[_Piece] | None = None
    product: Any = field(name="productCode", default=None)
    weight: Any = field(name="totalWeight", default=None)
    units: Any = field(name="unitOfMeasurements", default=None)
    references: Any = field(name="shipperReferences", default=None)


class _Answer(Struct):
    shipments: list[_Shipment] | None = None


def read(body: bytes, number: str) -> Tracking | None:
    """Read the shipment that is ours; None for an answer without any."""
    listed = decode(body, _Answer).shipments or []
    ours = [each for each in listed if number in _numbers(each)]
    if listed and not ours:
        raise WrongNumber(f"asked for {number}, answered with {len(listed)} other shipments")
    return latest(_tracking(each, number) for each in ours) if ours else None


def _numbers(shipment: _Shipment) -> set[str | None]:
    pieces = (piece.number for piece in shipment.pieces or ())
    return {text(each) for each in (shipment.number, *pieces)}


def _tracking(shipment: _Shipment, number: str) -> Tracking:
    listed = _events(shipment, number)
    if not listed and text(shipment.status) != "Success":
        raise UnreadableAnswer("a shipment without events that is no success")
    past = history(map(_scan, listed), newest_first=False)
    # DHL knows it, and nobody has scanned it yet.
    status = past.status or (statuses.IN_TRANSIT if listed else statuses.INFO_RECEIVED)
    answer = tracking_of(past, status)
    signed = [name for each in listed if (name := text(each.signed_by))]
    return answer._replace(
        expected_delivery=text(shipment.expected),
        signed_by=signed[-1] if answer.delivered_at and signed else None,
        origin=_area(shipment.shipper.areas) if shipment.shipper else None,
        destination=_area(shipment.receiver.areas) if shipment.receiver else None,
        weight_grams=grams(inside(shipment.weight), inside(shipment.units)),
        service=inside(shipment.product),
        reference=inside(shipment.references, "value"),
        sub_parcels=others((piece.number for piece in shipment.pieces or ()), number),
        unknown_codes=statuses.unknown_codes((event.code for event in listed), CODES, SILENT),
    )


def _events(shipment: _Shipment, number: str) -> list[_Event]:
    """List the events of the piece that was asked for, else the shipment's, else of all pieces."""
    pieces = shipment.pieces or []
    asked = [event for each in pieces if text(each.number) == number for event in each.events or ()]
    return asked or shipment.events or [event for each in pieces for event in each.events or ()]


def _scan(event: _Event) -> Scan:
    moment = read_iso(
        f"{text(event.date) or ''}T{text(event.time) or ''}".rstrip("T"),
        place_offset=text(event.offset),
    )
    return scan(moment, event.description, _known(event), event.code, _place(event.areas))


def _known(event: _Event) -> statuses.Status | None:
    code, said = text(event.code) or "", text(event.description) or ""
    if code in SILENT:
        return None
    known = CODES.get(code)
    if known is None or code in _REFINED:
        return statuses.recognise(said) or known
    return statuses.unless_denied(known, said)


def _area(areas: list[_Area] | None) -> str | None:
    return text(areas[0].description) if areas else None


def _place(areas: list[_Area] | None) -> Place:
    said = _area(areas) or ""
    if parts := re.fullmatch(r"(.+)-([A-Z]{2})", said):
        return Place(country(parts[2]), city=parts[1])
    return Place(location=said)
