"""Hermes Germany's Shipment Info API.

An unknown number is a result inside a 200, and a token that ran out an error inside a 400. Hermes'
list names each event twice: by three numbers (what, why, where), which may be written "50-1-2" or
"050001002", and by an older code of four digits. A parcel that is on its way back has events of its
own.

A hundred numbers, at most, are asked for in one call, by as many parameters. In Hermes' OpenAPI
text a list answers them (`shipmentinfo`), where each has its number, and events or a result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from couriers.http.credentials import Grant, credentials
from couriers.http.refusals import TELLING, refuse, unexpected
from couriers.http.several import Cut, Ends, parser_of, track_each
from couriers.reading import numbers, statuses
from couriers.reading.answer import Answer, decode, inside, place, text
from couriers.reading.checkpoints import Place, Scan, history, latest, read_iso, scan, tracking_of
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
CREDENTIALS_FROM = "Hermes Germany's contact for customers: access to the Hermes Shipping Interface"
PATTERNS: tuple[numbers.NumberForm, ...] = (
    numbers.form(r"H\d{19}"),
    numbers.form(r"\d{14}|\d{16}", loose=True),
)
VERIFIED = (
    "Hermes' OpenAPI text and its list of event codes; no recorded answer was found; never run "
    "against the live site"
)

EVENTS: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "000",
        statuses.ACCEPTED: "010 037 065",
        statuses.IN_TRANSIT: "030 035 101",
        statuses.CUSTOMS_BEGUN: "033",
        statuses.ARRIVED: "045 080 085",
        statuses.PROBLEM: "048",
        statuses.DEPARTED: "050",
        statuses.FOR_PICKUP: "055",
        statuses.ATTEMPTED: "060",
        statuses.DELIVERED: "090",
        statuses.RETURNING: "100 115",
        # "The return shipment has arrived at the client", who sent the parcel.
        statuses.RETURNED: "125",
    }
)
"""The first of the three numbers: what happened."""

REASONS: dict[str, statuses.Status] = statuses.by_code(
    {
        # 000…: announced, and not yet where it was expected. 080004: kept because the road there
        # is full, or a part of the shipment is missing. 100006, 100007: called a return, and only
        # turned round. 320…: cancelled, among wishes that say nothing of the way.
        statuses.PROBLEM: (
            "000001 000002 000003 000004 060007 060009 060024 060095 080004 100006 100007 320020 "
            "320021"
        ),
        statuses.CUSTOMS_DONE: "033002",
        statuses.CUSTOMS_DELAY: "033003 033051",
        # 055002: to the carrier of an island. 100008: to its right place, called a return.
        statuses.FORWARDED: "033005 033006 055002 100008",
        # At a shop, by who sends it.
        statuses.ACCEPTED: "045001008",
        statuses.PROBLEM_SOLVED: "048090 060090 100090",
        statuses.OUT_FOR_DELIVERY: "050001",
        # 060000: back from its round.
        statuses.IN_TRANSIT: "050024 050029 050090 060000",
        statuses.REFUSED: "060001",
        statuses.WRONG_ADDRESS: "060002",
        statuses.NOBODY_THERE: "060003 060004 060005 060006",
        # 100005: called a return, and only turned round: it is checked.
        statuses.DAMAGED: "060008 100005",
        statuses.PAYMENT_DUE: "060010",
        statuses.PICKUP_MISSED: "060012",
        statuses.COLLECTED: "090003",
    }
)
"""The first two of the three numbers, or all, where they change the meaning."""

SILENT = frozenset({"031", "310", "320", "380", "390"})
"""Measured; wishes of the addressee, and that they were taken back."""

_OLD_EVENTS = (
    "00=000 06=000001 07=000002 08=000003 09=000004 10=010 15=030 16=035 17=033 18=033005 19=037 "
    "20=045 21=045 23=045 24=045001008 30=050001 33=050024 34=055 35=090 37=060 40=060 41=080 "
    "45=085 46=048 60=100 75=125 90=031 93=320"
)
OLD_EVENTS = dict(each.split("=") for each in _OLD_EVENTS.split())
"""How the older codes begin, and what they are called now."""

_OLD = (
    "1520=115 1720=033002 1730=033003 1751=033051 3010=050021 3430=055002 3530=090003 3710=060001 "
    "3715=060010 3720=060002 3731=060003 3732=060004 3733=060005 3734=060006 3740=060008 "
    "3750=060009 3760=065001 3761=065002 3780=060007 3795=060095 4010=060001 4015=060010 "
    "4020=060002 4024=060024 4025=060000 4031=060003 4032=060004 4033=060005 4034=060006 "
    "4035=060012 4040=060008 4050=060009 4060=065001 4061=065002 4062=065002 4070=050090 "
    "4072=060090 4080=060007 4095=060095 4690=048090 6085=100005 6086=100006 6087=100007 "
    "6088=100008 6090=101001 9340=320020 9341=320021"
)
OLD = dict(each.split("=") for each in _OLD.split())
"""Older codes that mean more than their beginning."""

NOT_YET = "e001"
SUCCESS = "i001"
TOKEN_REFUSED = frozenset({"e902", "e903"})
FORBIDDEN = "e900"
"""`code` of a result, or of an error."""


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


class _Named(Struct):
    number: str | None = field(name="shipmentID", default=None)
    abroad: str | None = field(name="internationalShipmentID", default=None)


class _Shipment(_Named):
    result: _Result | None = None
    receiver: _Unit | None = field(name="receiverAddress", default=None)
    forecast: _Forecast | None = field(name="deliveryForecast", default=None)
    events: list[_Event] | None = field(name="status", default=None)
    reference: Any = field(name="clientReference", default=None)


class _Reply(Struct, rename={"shipments": "shipmentinfo", "results": "listOfResultCodes"}):
    shipments: list[_Shipment] | None = None
    results: list[_Result] | None = None


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number."""
    return fetch.read(await _ask(fetch, [request.number]), parse, request.number)


async def track_many(fetch: Fetch, requests: Sequence[TrackingRequest]) -> Ends:
    """Ask for several numbers."""
    return await track_each(fetch, requests, _ask, parse_many)


async def _ask(fetch: Fetch, wanted: Sequence[str]) -> Answer:
    client, secret, user, password = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    named = list(map(numbers.alphanumeric, wanted))
    login = {"client_id": client, "client_secret": secret, "username": user, "password": password}
    grant = Grant(
        fetch.settings.token_url,
        form={"grant_type": "password"} | login,
        refusals=tuple(f'"{code}"'.encode() for code in sorted(TOKEN_REFUSED)),
    )
    return await fetch.get(
        ["shipmentinfo"],
        query={"shipmentID": named},
        headers={"Accept-Language": "EN"},
        grant=grant,
    )


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


def _numbers(piece: bytes) -> list[str | None]:
    named = decode(piece, _Named)
    return [text(named.number), text(named.abroad)]


parse_many = parser_of(parse, Cut(("shipmentinfo",), _numbers), TELLING)


def _judge(status: int, told: Mapping[str | None, str | None]) -> Tracking:
    """Read what stands where events are due."""
    said = "; ".join(f"{code}: {what}" for code, what in told.items())
    if NOT_YET in told:
        return NOT_FOUND_YET
    if {FORBIDDEN, *TOKEN_REFUSED} & told.keys():
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
    return scan(read_iso(event.at or ""), event.what, _known(event), event.code, where)


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
    known = REASONS.get(numbers) or REASONS.get(numbers[:6]) or EVENTS.get(numbers[:3])
    return known or (numbers[:3] if numbers[:3] in SILENT else None)


def _three_numbers(code: str) -> str:
    """Write a code in digits alone, as far as it is known: "50-1-2" is "050001002"."""
    if parts := re.fullmatch(r"(\d{1,3})-(\d{1,3})-(\d{1,3})", code, re.ASCII):
        return "".join(part.zfill(3) for part in parts.groups())
    if re.fullmatch(r"\d{4}", code, re.ASCII):
        return OLD.get(code) or OLD_EVENTS.get(code[:2], "")
    return code if re.fullmatch(r"\d{9}", code, re.ASCII) else ""
