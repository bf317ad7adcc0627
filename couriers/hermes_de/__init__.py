"""Hermes Germany's Shipment Info API.

An unknown number is a result inside a 200, and a token that ran out an error inside a 400. An event
has a code of three numbers, which may be written "50-1-2" or "050001002", or an older one of four
digits; a parcel that is on its way back has events of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from couriers.hermes_de import codes
from couriers.http.refusals import TELLING, refuse, unexpected
from couriers.http.settings import Grant, credentials
from couriers.reading import numbers, statuses, times
from couriers.reading.answer import decode, inside, place, text
from couriers.reading.checkpoints import Place, Scan, history, latest, scan, tracking_of
from couriers.reading.countries import country
from tracking.checkpoint import NOT_FOUND_YET, Tracking
from tracking.errors import AuthFailed, RequestRefused, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "Hermes Germany"
BASE_URL = "https://de-api.hermesworld.com/services/hsi"
TOKEN_URL = "https://authme.myhermes.de/authorization-facade/oauth2/access_token"  # noqa: S105 - an address
CREDENTIALS: tuple[str, ...] = ("client_id", "client_secret", "username", "password")
ASKS = "`GET /shipmentinfo`"
AUTH = "OAuth, with a user's password"
CREDENTIALS_FROM = "Hermes Germany's contact for customers: access to the Hermes Shipping Interface"
REQUIRED_FIELDS: tuple[str, ...] = ()
PATTERNS: tuple[numbers.NumberForm, ...] = (
    numbers.form(r"H\d{19}"),
    numbers.form(r"\d{14}|\d{16}", loose=True),
)
QUOTA = "none published"
VERIFIED = (
    "Hermes' OpenAPI text and its list of event codes; no recorded answer was found; never run "
    "against the live site"
)


class _Result(Struct, rename={"said": "message"}):
    code: str | None = None
    said: str | None = None


class _Unit(Struct, rename={"country": "countryCode"}):
    name: str | None = None
    city: str | None = None
    country: str | None = None


class _Event(Struct):
    at: str | None = field(name="timestamp", default=None)
    code: str | None = None
    what: str | None = field(name="description", default=None)
    unit: _Unit | None = field(name="scanningUnit", default=None)


class _Forecast(Struct):
    date: str | None = None


class _Shipment(Struct):
    number: str | None = field(name="shipmentID", default=None)
    abroad: str | None = field(name="internationalShipmentID", default=None)
    result: _Result | None = None
    receiver: _Unit | None = field(name="receiverAddress", default=None)
    forecast: _Forecast | None = field(name="deliveryForecast", default=None)
    events: list[_Event] | None = field(name="status", default=None)
    reference: Any = field(name="clientReference", default=None)


class _Reply(Struct, rename={"shipments": "shipmentinfo", "results": "listOfResultCodes"}):
    shipments: list[_Shipment] | None = None
    results: list[_Result] | None = None


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number, although the service takes a hundred: each request is one permit."""
    client, secret, user, password = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    number = numbers.alphanumeric(request.number)
    login = {"client_id": client, "client_secret": secret, "username": user, "password": password}
    grant = Grant(
        fetch.settings.token_url,
        form={"grant_type": "password"} | login,
        refusals=tuple(f'"{code}"'.encode() for code in sorted(codes.TOKEN_REFUSED)),
    )
    answer = await fetch.get(
        ["shipmentinfo"],
        query={"shipmentID": number},
        headers={"Accept-Language": "EN"},
        grant=grant,
    )
    return fetch.read(answer, parse, number)


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the shipment that is ours, or the result that stands in its place."""
    refuse(status, headers, body, TELLING)
    reply = decode(body, _Reply)
    listed = reply.shipments or []
    ours = [each for each in listed if number in (text(each.number), text(each.abroad))]
    ours = ours or [each for each in listed if not (each.number or each.abroad)]
    if listed and not ours:
        raise WrongNumber(f"asked for {number}, answered about {len(listed)} other shipments")
    if told := [each for each in ours if each.events]:
        return latest(map(_tracking, told))
    results = [each.result for each in ours if each.result] + (reply.results or [])
    return _judge(status, {text(each.code): text(each.said) for each in results})


def _judge(status: int, told: Mapping[str | None, str | None]) -> Tracking:
    """Read what stands where events are due."""
    said = "; ".join(f"{code}: {what}" for code, what in told.items())
    if codes.NOT_YET in told:
        return NOT_FOUND_YET
    if {codes.FORBIDDEN, *codes.TOKEN_REFUSED} & told.keys():
        raise AuthFailed(said)
    if status == HTTPStatus.BAD_REQUEST and told:
        raise RequestRefused(said)
    raise unexpected(status, said or "neither events nor a known result")


def _tracking(shipment: _Shipment) -> Tracking:
    listed, receiver = shipment.events or [], shipment.receiver or _Unit()
    past = history(map(_scan, listed), newest_first=True)
    to = country(text(receiver.country))
    return tracking_of(past)._replace(
        expected_delivery=text(shipment.forecast.date) if shipment.forecast else None,
        destination=place(receiver.city, to.name if to else None),
        reference=inside(shipment.reference),
        unknown_codes=statuses.unknown_codes(each.code for each in listed if not _means(each.code)),
    )


def _scan(event: _Event) -> Scan:
    unit = event.unit or _Unit()
    where = Place(country(text(unit.country)), unit.city, location=unit.name)
    return scan(times.read_iso(event.at or ""), event.what, _known(event), event.code, where)


def _known(event: _Event) -> statuses.Status | None:
    said = text(event.what) or ""
    match _means(event.code):
        case None:
            return statuses.recognise(said)
        case statuses.Status() as known:
            return statuses.unless_denied(known, said)
        case _:
            return None


def _means(code: str | None) -> statuses.Status | str | None:
    """Look a code up: its status, the event itself if that decides nothing, None if unknown."""
    numbers = _three_numbers(text(code) or "")
    known = (
        codes.REASONS.get(numbers)
        or codes.REASONS.get(numbers[:6])
        or codes.EVENTS.get(numbers[:3])
    )
    return known or (numbers[:3] if numbers[:3] in codes.SILENT else None)


def _three_numbers(code: str) -> str:
    """Write a code in digits alone, as far as it is known: "50-1-2" is "050001002"."""
    if parts := re.fullmatch(r"(\d{1,3})-(\d{1,3})-(\d{1,3})", code, re.ASCII):
        return "".join(part.zfill(3) for part in parts.groups())
    if re.fullmatch(r"\d{4}", code, re.ASCII):
        return codes.OLD.get(code) or codes.OLD_EVENTS.get(code[:2], "")
    return code if re.fullmatch(r"\d{9}", code, re.ASCII) else ""
