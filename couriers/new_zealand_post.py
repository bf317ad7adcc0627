"""New Zealand Post's ParcelTrack API, version 3.0.

A number without scans is a success without events. Errors have codes of six digits, whatever the
HTTP status; one of them, beside a success, says that a system has not answered. New Zealand Post
asks to go by the codes of events, since their words may change. Times have no offset: an event may
have happened abroad.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from msgspec import Struct, field

from couriers.http.credentials import Grant, credentials
from couriers.http.refusals import TELLING, refuse, unexpected
from couriers.reading import numbers, statuses
from couriers.reading.answer import decode, text
from couriers.reading.checkpoints import Scan, history, read_iso, scan, tracking_of
from tracking.checkpoint import NOT_FOUND_YET, Tracking
from tracking.errors import AuthFailed, CourierDown, InvalidNumber, RequestRefused, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "New Zealand Post"
BASE_URL = "https://api.nzpost.co.nz"
TOKEN_URL = "https://oauth.nzpost.co.nz/as/token.oauth2"  # noqa: S105 - an address
CREDENTIALS: tuple[str, ...] = ("client_id", "client_secret")
CREDENTIALS_FROM = "New Zealand Post's developer centre: an app with ParcelTrack"
PATTERNS: tuple[numbers.NumberForm, ...] = (
    numbers.s10("NZ"),
    numbers.form(r"00\d{18}", loose=True),
)
VERIFIED = (
    "ParcelTrack's description, its table of codes for New Zealand and a sample; few codes of "
    "parcels from abroad are known; never run against the live site"
)

CODES: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "60 78",
        statuses.ACCEPTED: "13",
        statuses.IN_TRANSIT: "14 58 77 85 143 144 145 146 148",
        statuses.ARRIVED: "8 55 56 57 59 580",
        statuses.DEPARTED: "80",
        statuses.FORWARDED: "95",
        statuses.OUT_FOR_DELIVERY: "32 35 142",
        statuses.ATTEMPTED: "42 50 51 52 53 62",
        statuses.FOR_PICKUP: "141 147 149",
        statuses.DELIVERED: "22",
        statuses.PROBLEM: "54 61 542 544",
        statuses.PICKUP_MISSED: "63",
        statuses.RETURNING: "578",
        statuses.RETURNED: "67",
    }
)
"""`event_edifact_code`: the published table of domestic services as far as it could be had, 580
from the published sample, and 578 as users describe it."""

SILENT = frozenset({"200", "201", "202", "203"})
"""Codes of what the addressee wishes."""

REFUSED = frozenset({"401001"})
INVALID = frozenset({"400002"})
OURS = frozenset({"400001", "400003"})
DOWN = frozenset({"500001", "500002", "200001"})
"""`code` of errors: our credentials; the number; our request; a system that does not answer."""


class _Signature(Struct):
    name: str | None = None


class _Event(Struct):
    code: str | int | None = field(name="event_edifact_code", default=None)
    short: str | None = field(name="status_description", default=None)
    what: str | None = field(name="event_description", default=None)
    at: str | None = field(name="event_datetime", default=None)
    signature: _Signature | None = field(name="signed_by", default=None)

    @property
    def said(self) -> str:
        """Its long description, else its short one."""
        return text(self.what) or text(self.short) or ""


class _Results(Struct):
    number: str | None = field(name="tracking_reference", default=None)
    events: list[_Event] | None = field(name="tracking_events", default=None)


class _Error(Struct):
    code: str | int | None = None
    message: str | None = None
    details: str | None = None


class _Reply(Struct):
    success: bool | str | None = None
    results: _Results | None = None
    errors: list[_Error] | None = None


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number."""
    client, secret = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    number = numbers.alphanumeric(request.number)
    grant = Grant(
        fetch.settings.token_url,
        form={"grant_type": "client_credentials", "client_id": client, "client_secret": secret},
    )
    path = ["parceltrack", "3.0", "parcels", number]
    answer = await fetch.get(path, headers={"client_id": client}, grant=grant)
    return fetch.read(answer, parse, number)


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the parcel, or the errors that stand in its place."""
    refuse(status, headers, body, TELLING)
    reply = decode(body, _Reply)
    if status == HTTPStatus.OK and reply.results and reply.results.events:
        return _tracking(reply.results, number)
    errors = reply.errors or []
    said = "; ".join(
        words for one in errors for part in (one.message, one.details) if (words := text(part))
    )
    _judge({text(one.code) or "" for one in errors}, said or "no reason given")
    succeeded = str(reply.success).lower() == "true"
    if status == HTTPStatus.OK and succeeded:
        return NOT_FOUND_YET
    if status == HTTPStatus.NOT_FOUND and reply.success is not None:
        return NOT_FOUND_YET
    if status == HTTPStatus.BAD_REQUEST and errors:
        raise RequestRefused(said or "no reason given")
    raise unexpected(status, said or "neither a parcel nor an error")


def _judge(codes: set[str], said: str) -> None:
    # The published sample of an error has the code of a bad number for refused credentials.
    if codes & REFUSED or (codes and re.search(r"\bunauthori[sz]ed\b", said, re.IGNORECASE)):
        raise AuthFailed(said)
    if codes & INVALID:
        raise InvalidNumber(said)
    if codes & OURS:
        raise RequestRefused(said)
    if codes & DOWN:
        raise CourierDown(said)


def _tracking(results: _Results, number: str) -> Tracking:
    if (text(results.number) or number).upper() != number:
        raise WrongNumber(f"asked for {number}, answered about another parcel")
    listed = results.events or []
    scans = [_scan(event) for event in listed]
    backwards = scans[0].checkpoint.checkpoint_time > scans[-1].checkpoint.checkpoint_time
    past = history(scans, newest_first=backwards)
    answer = tracking_of(past)
    signatures = [
        text(event.signature.name)
        for event in listed
        if event.signature and _known(event) == statuses.DELIVERED
    ]
    return answer._replace(
        signed_by=next(filter(None, signatures), None) if answer.delivered_at else None,
        unknown_codes=statuses.unknown_codes((event.code for event in listed), CODES, SILENT),
    )


def _scan(event: _Event) -> Scan:
    return scan(read_iso(event.at or ""), event.said, _known(event), event.code)


def _known(event: _Event) -> statuses.Status | None:
    code = text(event.code) or ""
    if code in SILENT:
        return None
    known = CODES.get(code)
    words = f"{text(event.short) or ''}. {event.said}"
    return statuses.unless_denied(known, event.said) if known else statuses.recognise(words)
