"""DHL Express, through one of two of DHL's APIs: whose credentials are set decides.

Unified Shipment Tracking is for everybody. `service=express` is always sent: without it, the answer
may be another shipment that another company of DHL's has under the same number. MyDHL is for
customers of DHL Express, and tells more: a code for each event, and its offset. Both answer a
number that nobody knows with a 404 of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from couriers.dhl import express, unified
from couriers.http.credentials import OtherWay, basic_auth, credentials
from couriers.http.refusals import refuse, unexpected
from couriers.reading import numbers
from couriers.reading.answer import decode, text
from tracking.checkpoint import NOT_FOUND_YET, Tracking
from tracking.errors import RequestRefused
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "DHL Express"
BASE_URL = "https://api-eu.dhl.com"
CREDENTIALS: tuple[str, ...] = ("api_key",)
OTHER_WAY = OtherWay("https://express.api.dhl.com/mydhlapi", ("username", "password"))
CREDENTIALS_FROM = (
    "developer.dhl.com: an app with Shipment Tracking - Unified, and no other API; or, for "
    "customers of DHL Express, access to MyDHL API (username and password)"
)
PATTERNS: tuple[numbers.NumberForm, ...] = (
    numbers.form(r"\d{10,11}", numbers.mod_7),
    # 01 is Express among the companies of DHL that number their pieces so.
    numbers.form(r"JJ?D01\d{14,18}", loose=True),
    numbers.form(r"JJ?D\d{16,20}", loose=True),
    # Last, because three letters and nine digits are Purolator's first of all.
    numbers.form(r"J[A-Z]{2,3}\d{9,10}"),
)
VERIFIED = (
    "DHL's API reference, and for MyDHL its OpenAPI text with a sample and DHL's list of event "
    "codes; no recorded answer was found; never run against the live site"
)

_NOTHING = re.compile(r"no (?:result|shipment|data found)", re.IGNORECASE)


class _Problem(msgspec.Struct):
    title: str | None = None
    detail: str | None = None


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number; a postal code makes the Unified API tell more."""
    number = numbers.alphanumeric(request.number)
    if OTHER_WAY.is_chosen(fetch.settings.credentials):
        return await _track_express(fetch, number)
    [key] = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    query = {"trackingNumber": number, "service": "express", "language": "en"}
    if code := request.fields.get("tracking_postal_code"):
        query["recipientPostalCode"] = code
    answer = await fetch.get(["track", "shipments"], query=query, headers={"DHL-API-Key": key})
    return fetch.read(answer, parse, number)


async def _track_express(fetch: Fetch, number: str) -> Tracking:
    """Ask MyDHL, by the number of a shipment (digits) or of one of its pieces."""
    keys = OTHER_WAY.credentials
    username, password = credentials(fetch.settings, keys, CREDENTIALS_FROM)
    query = {"trackingView": "all-checkpoints", "levelOfDetail": "all"}
    if number.isdigit():
        path, query = ["shipments", number, "tracking"], query | express.WITH_OFFSETS
    else:
        path, query = ["tracking"], query | {"pieceTrackingNumber": number}
    answer = await fetch.get(
        path,
        query=query,
        headers={"Authorization": basic_auth(username, password), "Accept-Language": "eng"},
    )
    return fetch.read(answer, parse, number)


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the shipment that is ours, of either API. Only their own 404 means "not known yet"."""
    refuse(status, headers, body)
    if status == HTTPStatus.OK:
        read = express.read if express.SIGN in body else unified.read
        if told := read(body, number):
            return told
    problem = decode(body, _Problem)
    said = text(problem.detail) or text(problem.title) or ""
    match status:
        case HTTPStatus.OK | HTTPStatus.NOT_FOUND if _NOTHING.search(said):
            return NOT_FOUND_YET
        case HTTPStatus.BAD_REQUEST:
            raise RequestRefused(said or "malformed request (400)")
    raise unexpected(status, said)
