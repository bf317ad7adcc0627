"""GLS Group's Track and Trace, version 1.

Errors about a number stand inside a 200, parcel by parcel. DELIVEREDPS is a parcel shop, where the
addressee still has to go; FINAL only says that the history is closed, so the events decide then.

Ten numbers, at most, are asked for in one call, with commas between them. The answer lists what it
has of each, as its text shows by an example of a known and an unknown one; `requested` is the
number as it was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from msgspec import Struct, field

from couriers.http.credentials import Grant, basic_auth, credentials
from couriers.http.refusals import TELLING, refuse, unexpected
from couriers.http.several import Cut, Ends, parser_of, track_each
from couriers.reading import numbers, statuses
from couriers.reading.answer import Answer, decode, text
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
from tracking.errors import (
    CourierDown,
    InvalidNumber,
    RequestRefused,
    UnreadableAnswer,
    WrongNumber,
)
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch, Path

NAME = "GLS"
BASE_URL = "https://api.gls-group.net"
TOKEN_URL = "https://api.gls-group.net/oauth2/v2/token"  # noqa: S105 - an address
CREDENTIALS: tuple[str, ...] = ("client_id", "client_secret")
CREDENTIALS_FROM = "dev-portal.gls-group.net: an app with Track And Trace V1"
PATTERNS: tuple[numbers.NumberForm, ...] = (
    numbers.form(r"\d{11,12}", loose=True),
    numbers.form(r"[A-Z0-9]{8}", loose=True),
)
VERIFIED = (
    "GLS' OpenAPI text with its statuses and examples; few of its event codes are public; "
    "never run against the live site"
)

STATUSES: dict[str, statuses.Status] = {
    "PLANNEDPICKUP": statuses.INFO_RECEIVED,
    "INPICKUP": statuses.INFO_RECEIVED,
    "NOTPICKEDUP": statuses.PROBLEM,
    "PREADVICE": statuses.INFO_RECEIVED,
    "INTRANSIT": statuses.IN_TRANSIT,
    "INWAREHOUSE": statuses.ARRIVED,
    "INDELIVERY": statuses.OUT_FOR_DELIVERY,
    "DELIVERED": statuses.DELIVERED,
    "DELIVEREDPS": statuses.FOR_PICKUP,
    "NOTDELIVERED": statuses.ATTEMPTED,
    "CANCELED": statuses.PROBLEM,
}
"""`status` of a parcel: the OpenAPI text's list."""

SILENT = frozenset({"FINAL"})

CODES: dict[str, statuses.Status] = {
    "INTIAL.PREADVICE": statuses.INFO_RECEIVED,
    "INTIAL.E48_DATA": statuses.INFO_RECEIVED,
    "INTIAL.NORMAL": statuses.ACCEPTED,
    "INBOUD.NORMAL": statuses.ARRIVED,
    "OUTBOD.NORMAL": statuses.DEPARTED,
    "OUTDEL.NORMAL": statuses.OUT_FOR_DELIVERY,
    "DELIVD.NORMAL": statuses.DELIVERED,
    "DELIVD.POD": statuses.DELIVERED,
    "DELIVD.NO POD": statuses.DELIVERED,
    "DELIVD.PARCELSHOP": statuses.FOR_PICKUP,
    "DELIVD.DEL_BY_PSAPP": statuses.COLLECTED,
    "CANCEL.NORMAL": statuses.PROBLEM,
}
"""`code` of events, as far as they are public (INTIAL is GLS' spelling); else the words tell."""

_WISHES = frozenset({"CHANGD.MONEWADDR", "CHANGD.PARCELBOX"})
"""Codes that say nothing of where a parcel is: what the addressee wished has been noted."""

_DELIVERIES = "DELIVD."
"""How the codes of all deliveries begin, to any receiver: a locker, too."""

NOT_YET = frozenset({"E_404_01"})
INVALID = frozenset({"E_400_01"})
DOWN = frozenset({"E_500_01"})
"""`errorCode` of a parcel."""


class _Event(Struct, rename={"at": "eventDateTime", "postal_code": "postalCode"}):
    code: str | None = None
    at: str | None = None
    description: str | None = None
    city: str | None = None
    postal_code: str | None = None
    country: str | None = None


class _Parcel(Struct):
    requested: str | None = None
    number: str | None = field(name="unitno", default=None)
    status: str | None = None
    since: str | None = field(name="statusDateTime", default=None)
    error: str | None = field(name="errorCode", default=None)
    said: str | None = field(name="errorMessage", default=None)
    events: list[_Event] | None = None


class _Named(Struct):
    requested: str | None = None
    number: str | None = field(name="unitno", default=None)


class _Reply(Struct):
    parcels: list[_Parcel] | None = None
    title: str | None = None
    detail: str | None = None


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number."""
    return fetch.read(await _ask(fetch, [request.number]), parse, request.number)


async def track_many(fetch: Fetch, requests: Sequence[TrackingRequest]) -> Ends:
    """Ask for several numbers."""
    return await track_each(fetch, requests, _ask, parse_many)


async def _ask(fetch: Fetch, wanted: Sequence[str]) -> Answer:
    client, secret = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    named = tuple(map(numbers.alphanumeric, wanted))
    grant = Grant(
        fetch.settings.token_url,
        form={"grant_type": "client_credentials"},
        headers={"Authorization": basic_auth(client, secret)},
    )
    path: Path = ["track-and-trace-v1", "tracking", "simple", "trackids", named]
    return await fetch.get(path, headers={"Accept-Language": "EN"}, grant=grant)


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the parcel that is ours, or the error that stands in its place."""
    refuse(status, headers, body, TELLING)
    reply = decode(body, _Reply)
    parcels = reply.parcels or []
    ours = [each for each in parcels if number in (text(each.number), text(each.requested))]
    if parcels and not ours:
        raise WrongNumber(f"asked for {number}, answered about {len(parcels)} other parcels")
    told = [each for each in ours if each.events or _meaning(each)]
    if told:
        return _together(told, number)
    if ours and ours[0].error:
        return _judge(ours[0].error, text(ours[0].said) or "no reason given")
    said = text(reply.detail) or text(reply.title) or "neither a parcel nor a known error"
    if status == HTTPStatus.BAD_REQUEST:
        raise RequestRefused(said)
    raise unexpected(status, said)


def _numbers(piece: bytes) -> list[str | None]:
    named = decode(piece, _Named)
    return [text(named.requested), text(named.number)]


parse_many = parser_of(parse, Cut(("parcels",), _numbers), TELLING)


def _together(told: list[_Parcel], number: str) -> Tracking:
    """Read the parcel of this number, the one seen last if it was used again; or all of a track."""
    named = [each for each in told if text(each.number) == number]
    if named:
        return latest(map(_tracking, named))
    numbers = dict.fromkeys(text(each.number) for each in told)
    same = [[each for each in told if text(each.number) == one] for one in numbers]
    return together([latest(map(_tracking, parcels)) for parcels in same])


def _judge(code: str, said: str) -> Tracking:
    if code in NOT_YET:
        return NOT_FOUND_YET
    if code in INVALID:
        raise InvalidNumber(said)
    if code in DOWN:
        raise CourierDown(said)
    if code.startswith("E_400"):
        raise RequestRefused(f"{code}: {said}")
    raise UnreadableAnswer(f"an error without a known meaning: {code[:40]}")


def _meaning(parcel: _Parcel) -> statuses.Status | None:
    return STATUSES.get(text(parcel.status) or "")


def _tracking(parcel: _Parcel) -> Tracking:
    listed, arrived = parcel.events or [], _meaning(parcel) == statuses.DELIVERED
    scans = (_scan(event, _known(event, arrived)) for event in listed)
    past = history(scans, newest_first=True)
    answer = tracking_of(past, _status(parcel, past.last))
    if arrived and parcel.since and not answer.delivered_at:
        since = read_iso(parcel.since)
        answer = answer._replace(delivered_at=since.local, delivered_at_utc=since.utc)
    return answer._replace(
        unknown_codes=statuses.unknown_codes([parcel.status], STATUSES, SILENT)
        + statuses.unknown_codes((event.code for event in listed), CODES, _WISHES)
    )


def _status(parcel: _Parcel, last: Checkpoint | None) -> statuses.Status:
    """Read the parcel's status; only the event says why it was not delivered."""
    known = _meaning(parcel)
    told = known == statuses.ATTEMPTED and last and last.tag is Tag.EXCEPTION
    if last and (known is None or told):
        return statuses.Status(last.tag, last.subtag)
    return statuses.refined(known or statuses.IN_TRANSIT, last)


def _scan(event: _Event, known: statuses.Status | None) -> Scan:
    place = Place(country(text(event.country)), event.city, postal_code=event.postal_code)
    return scan(read_iso(event.at or ""), event.description, known, event.code, place)


def _known(event: _Event, arrived: bool) -> statuses.Status | None:  # noqa: FBT001 - of the parcel
    """Read an event by its code, else by its words.

    A delivery of a kind that is not public is one where the parcel's status says so too.
    """
    code, said = text(event.code) or "", text(event.description) or ""
    if code in _WISHES:
        return None
    known, by_words = CODES.get(code), statuses.recognise(said)
    if known is None and code.startswith(_DELIVERIES):
        known = statuses.DELIVERED if arrived else None
        by_words = None if by_words == statuses.ACCEPTED else by_words
    return statuses.unless_denied(known, said) if known else by_words
