"""Bring and Posten's Tracking API, version 2.

Errors about a number stand inside a 200, and so do outages. "Collected" is what the carrier did at
the sender's. DELIVERED_SENDER is the end of a return. Notices and changed dates stand among the
events and decide nothing, nor does what the courier itself calls insignificant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from couriers.http.credentials import credentials
from couriers.http.refusals import TELLING, refuse, unexpected
from couriers.reading import numbers, statuses
from couriers.reading.answer import address, decode, grams, inside, others, text
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
from tracking.checkpoint import NOT_FOUND_YET, Tracking
from tracking.errors import CourierDown, InvalidNumber, UnreadableAnswer, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "Bring"
BASE_URL = "https://api.bring.com"
CREDENTIALS: tuple[str, ...] = ("api_uid", "api_key")
CREDENTIALS_FROM = "Mybring, Settings and API: the address of the login and its API key"
PATTERNS: tuple[numbers.NumberForm, ...] = (
    numbers.form(r"[37]70\d{15}", numbers.gs1),
    numbers.s10("NO"),
    numbers.form(r"[37]70\d{14}"),
    numbers.form(r"[37]\d{17}", numbers.gs1),
    numbers.form(r"\d{17}", loose=True),
)
VERIFIED = "Bring's reference, its list of statuses and samples; never run against the live site"

CODES: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "PRE_NOTIFIED",
        statuses.ACCEPTED: "HANDED_IN COLLECTED",
        statuses.IN_TRANSIT: "IN_TRANSIT INTERNATIONAL",
        statuses.ARRIVED: "TERMINAL ARRIVED_COLLECTION ARRIVED_DELIVERY",
        statuses.CUSTOMS_BEGUN: "CUSTOMS",
        statuses.OUT_FOR_DELIVERY: "TRANSPORT_TO_RECIPIENT",
        statuses.FOR_PICKUP: "READY_FOR_PICKUP",
        statuses.ATTEMPTED: "ATTEMPTED_DELIVERY",
        statuses.DELIVERED: "DELIVERED",
        statuses.RETURNED: "DELIVERED_SENDER",
        statuses.PROBLEM: "DEVIATION DELIVERY_CANCELLED",
        statuses.RETURNING: "RETURN",
    }
)
"""`status` of events: the reference's list, and two that it has given up."""

SILENT = frozenset({"NOTIFICATION_SENT", "DELIVERY_CHANGED", "DELIVERY_ORDERED", "UNKNOWN"})
"""Statuses that say nothing of where a parcel is."""


class _Signature(Struct, rename={"image": "linkToImage"}):
    name: str | None = None
    image: Any = None


class _Event(Struct):
    what: str | None = field(name="description", default=None)
    status: str | None = None
    at: str | None = field(name="dateIso", default=None)
    signature: _Signature | None = field(name="recipientSignature", default=None)
    postal_code: str | None = field(name="postalCode", default=None)
    city: str | None = None
    code: str | None = field(name="countryCode", default=None)
    country: str | None = None
    insignificant: bool | None = None


class _Package(Struct):
    number: str | None = field(name="packageNumber", default=None)
    previous: str | None = field(name="previousPackageNumber", default=None)
    expected: str | None = field(name="dateOfEstimatedDelivery", default=None)
    events: list[_Event] | None = field(name="eventSet", default=None)
    weight: Any = field(name="weightInKgs", default=None)
    product: Any = field(name="productName", default=None)


class _Error(Struct):
    code: str | int | None = None
    message: str | None = None


class _Consignment(Struct):
    number: str | None = field(name="consignmentId", default=None)
    previous: str | None = field(name="previousConsignmentId", default=None)
    packages: list[_Package] | None = field(name="packageSet", default=None)
    error: _Error | None = None
    reference: Any = field(name="senderReference", default=None)


class _Reply(Struct, rename={"consignments": "consignmentSet"}):
    consignments: list[_Consignment] | None = None


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number, of a package or of a consignment."""
    uid, key = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    number = numbers.alphanumeric(request.number)
    answer = await fetch.get(
        ["tracking", "api", "v2", "tracking.json"],
        query={"q": number, "lang": "en"},
        headers={"X-Mybring-API-Uid": uid, "X-Mybring-API-Key": key},
    )
    return fetch.read(answer, parse, number)


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the packages that are ours, or the error that stands in their place."""
    refuse(status, headers, body, TELLING)
    consignments = decode(body, _Reply).consignments or []
    packages = [(package, of) for of in consignments for package in of.packages or ()]
    if status == HTTPStatus.OK and packages:
        return _ours(packages, number)
    return _judge([of.error for of in consignments if of.error], status)


def _ours(packages: list[tuple[_Package, _Consignment]], number: str) -> Tracking:
    """Read the package of this number, the one seen last if it was used again; or a consignment."""
    ours = [pair for pair in packages if number in _names(pair[0])]
    if ours:
        return latest(_of(number, *pair) for pair in ours)
    ours = [pair for pair in packages if number in _names(pair[1])]
    if not ours:
        raise WrongNumber(f"asked for {number}, answered with {len(packages)} other packages")
    return together([_of(number, *pair) for pair in ours])


def _of(number: str, package: _Package, of: _Consignment) -> Tracking:
    """Read a package with what its consignment says of it."""
    siblings = (each.number for each in of.packages or () if number not in _names(each))
    return _tracking(package)._replace(
        reference=inside(of.reference), sub_parcels=others(siblings, number)
    )


def _names(what: _Package | _Consignment) -> set[str]:
    return {name.upper() for name in (text(what.number), text(what.previous)) if name}


def _judge(errors: list[_Error], status: int) -> Tracking:
    said = next((told for error in errors if (told := text(error.message))), "no reason given")
    for code in (str(error.code) for error in errors):
        if code == str(HTTPStatus.NOT_FOUND.value):
            return NOT_FOUND_YET
        if code == str(HTTPStatus.BAD_REQUEST.value):
            raise InvalidNumber(said)
        if code.startswith("5"):
            raise CourierDown(said)
        refuse(int(code) if re.fullmatch(r"\d{3}", code, re.ASCII) else 0, {}, said.encode())
    raise unexpected(status, f"neither packages nor a known error ({said})")


def _tracking(package: _Package) -> Tracking:
    listed = package.events or []
    if not listed:
        raise UnreadableAnswer("a package without a single event")
    past = history(map(_scan, listed), newest_first=True)
    answer = tracking_of(past)
    signatures = [
        event.signature
        for event in listed
        if event.signature and _known(event) == statuses.DELIVERED and answer.delivered_at
    ]
    names = (text(each.name) for each in signatures)
    images = (address(inside(each.image)) for each in signatures)
    return answer._replace(
        expected_delivery=text(package.expected),
        signed_by=next(filter(None, names), None),
        proof_of_delivery=next(filter(None, images), None),
        weight_grams=grams(inside(package.weight)),
        service=inside(package.product),
        unknown_codes=statuses.unknown_codes((event.status for event in listed), CODES, SILENT),
    )


def _scan(event: _Event) -> Scan:
    where = country(text(event.code) or text(event.country))
    place = Place(where, event.city, postal_code=event.postal_code)
    return scan(read_iso(event.at or ""), event.what, _known(event), event.status, place)


def _known(event: _Event) -> statuses.Status | None:
    status, said = text(event.status) or "", text(event.what) or ""
    if status in SILENT or event.insignificant:
        return None
    known = CODES.get(status)
    return statuses.unless_denied(known, said) if known else statuses.recognise(said)
