"""Royal Mail Tracking API v2.

HTTP status alone decides nothing: an outage comes inside a 200 with `httpCode` 503, an unknown
number with 400 or 404, and a plain 404 without one of its codes means that the address is wrong. A
`signature` may be there in transit: no sign of a delivery.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from couriers.http.credentials import credentials
from couriers.http.refusals import refuse, unexpected
from couriers.reading import numbers, statuses
from couriers.reading.answer import decode, inside, text
from couriers.reading.checkpoints import Place, Scan, history, read_iso, scan, tracking_of
from tracking.checkpoint import NOT_FOUND_YET, Tracking
from tracking.errors import CourierDown, InvalidNumber, RateLimited, RequestRefused, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "Royal Mail"
BASE_URL = "https://api.royalmail.net"
CREDENTIALS: tuple[str, ...] = ("client_id", "client_secret")
CREDENTIALS_FROM = "developer.royalmail.net: an app with Royal Mail Tracking (v2)"
PATTERNS: tuple[numbers.NumberForm, ...] = (
    numbers.s10("GB"),
    numbers.form(r"[0-9A-F]{16}|[0-9A-F]{21}", loose=True),
)
VERIFIED = "Royal Mail's specification sample and error codes; never run against the live site"

CODES: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "EVAIE EVAIP ECCSB",
        statuses.ACCEPTED: "EVPPA EVOAC EVCAD",
        statuses.ARRIVED: "EVORI EVOCO EVDAV EVIMC EVDAC EVBAV EVIAV EVIPP EVHAC EVIIS EVGID",
        statuses.DEPARTED: "EVODO EVHOE",
        statuses.FORWARDED: "EVNMI",
        statuses.IN_TRANSIT: "EVNSR",
        statuses.OUT_FOR_DELIVERY: "EVGPD EVKPD",
        statuses.FOR_PICKUP: "EVNDA EVKLS EVPLA",
        statuses.NOBODY_THERE: "EVKNA",
        statuses.ATTEMPTED: "EVKNR",
        statuses.DELIVERED: "EVKOP EVKSF",
        statuses.SIGNED_FOR: "EVKSP",
        statuses.COLLECTED: "EVPLC",
        statuses.PROBLEM: "EVNRT",
    }
)
"""`eventCode`, as users of the service have listed them; its own list is not public."""

CATEGORIES: dict[str, statuses.Status] = {
    "IN TRANSIT": statuses.IN_TRANSIT,
    "DELIVERED": statuses.DELIVERED,
}
"""`summary.statusCategory`, read only where no event tells more."""

NOT_YET = frozenset({"E1284", "E1308"})
INVALID = frozenset({"E1142", "E1283"})
DOWN = frozenset({"E0001", "E0009", "E1307"})
TOO_MANY = frozenset({"E0010"})
OURS = frozenset({"E0004", "E0013"})
"""`errors[].errorCode`: no update yet; not a number of its own, or not a tracked product; an
outage, also inside a 200; too many requests; our headers or parameters are wrong."""


class _Event(Struct):
    code: str | None = field(name="eventCode", default=None)
    what: str | None = field(name="eventName", default=None)
    at: str | None = field(name="eventDateTime", default=None)
    place: str | None = field(name="locationName", default=None)


class _Summary(Struct):
    category: str | None = field(name="statusCategory", default=None)
    barcode: str | None = field(name="oneDBarcode", default=None)
    unique: str | None = field(name="uniqueItemId", default=None)
    origin: str | None = field(name="originCountryName", default=None)
    destination: str | None = field(name="destinationCountryName", default=None)
    product: Any = field(name="productName", default=None)
    code: str | None = field(name="lastEventCode", default=None)
    what: str | None = field(name="lastEventName", default=None)
    at: str | None = field(name="lastEventDateTime", default=None)
    place: str | None = field(name="lastEventLocationName", default=None)


class _Signature(Struct, rename={"by": "recipientName"}):
    by: str | None = None


class _Estimate(Struct):
    date: str | None = None


class _Error(Struct, rename={"code": "errorCode", "said": "errorDescription"}):
    code: str | None = None
    said: str | None = None


class _Piece(Struct, rename={"number": "mailPieceId", "expected": "estimatedDelivery"}):
    number: str | None = None
    summary: _Summary | None = None
    signature: _Signature | None = None
    expected: _Estimate | None = None
    events: list[_Event] | None = None
    error: _Error | None = None

    @property
    def listed(self) -> list[_Event]:
        """Its events; where there are none, the last one that its summary tells of."""
        last = self.summary
        if self.events or last is None or not last.at:
            return self.events or []
        return [_Event(last.code, last.what, last.at, last.place)]


class _Answer(Struct, rename={"pieces": "mailPieces", "status": "httpCode"}):
    pieces: list[_Piece] | _Piece | None = None
    status: str | int | None = None
    errors: list[_Error] | None = None


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number's events."""
    client, secret = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    number = numbers.alphanumeric(request.number)
    headers = {
        "X-IBM-Client-Id": client,
        "X-IBM-Client-Secret": secret,
        "X-Accept-RMG-Terms": "yes",
    }
    answer = await fetch.get(["mailpieces", "v2", number, "events"], headers=headers)
    return fetch.read(answer, parse, number)


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the mail piece, or the error code that stands for it."""
    refuse(status, headers, body)
    answer = decode(body, _Answer)
    pieces = answer.pieces if isinstance(answer.pieces, list) else [answer.pieces or _Piece()]
    told = [piece for piece in pieces if piece.listed]
    if status == HTTPStatus.OK and told:
        return _tracking(_ours(told, number))
    errors = [piece.error for piece in pieces if piece.error]
    return _judge([*(answer.errors or ()), *errors], answer, status)


def _ours(pieces: list[_Piece], number: str) -> _Piece:
    for piece in pieces:
        names = _names(piece)
        if not names or number in names:
            return piece
    raise WrongNumber(f"asked for {number}, answered about another mail piece")


def _names(piece: _Piece) -> set[str]:
    summary = piece.summary or _Summary()
    return {name for name in (piece.number, summary.barcode, summary.unique) if name}


def _judge(errors: list[_Error], answer: _Answer, status: int) -> Tracking:
    codes = {error.code for error in errors}
    said = next((told for error in errors if (told := text(error.said))), "no reason given")
    if codes & INVALID:
        raise InvalidNumber(said)
    if codes & NOT_YET:
        return NOT_FOUND_YET
    if codes & DOWN or str(answer.status).startswith("5"):
        raise CourierDown(said)
    if codes & TOO_MANY:
        raise RateLimited(said)
    if codes & OURS:
        raise RequestRefused(said)
    if status == HTTPStatus.BAD_REQUEST and errors:
        raise RequestRefused(said)
    inside = str(answer.status)
    refuse(int(inside) if re.fullmatch(r"\d{3}", inside, re.ASCII) else status, {}, b"")
    raise unexpected(status, "neither events nor a known error code")


def _tracking(piece: _Piece) -> Tracking:
    summary = piece.summary or _Summary()
    listed = piece.listed
    scans = [_scan(event) for event in listed]
    backwards = scans[0].checkpoint.checkpoint_time >= scans[-1].checkpoint.checkpoint_time
    past = history(scans, newest_first=backwards)
    category = CATEGORIES.get((text(summary.category) or "").upper())
    status = past.status or category or statuses.IN_TRANSIT
    answer = tracking_of(past, status)
    return answer._replace(
        expected_delivery=text(piece.expected.date) if piece.expected else None,
        signed_by=text(piece.signature.by) if answer.delivered_at and piece.signature else None,
        origin=text(summary.origin),
        destination=text(summary.destination),
        service=inside(summary.product),
        unknown_codes=statuses.unknown_codes((event.code for event in listed), CODES),
    )


def _scan(event: _Event) -> Scan:
    place = Place(location=event.place)
    return scan(read_iso(event.at or ""), event.what, _known(event), event.code, place)


def _known(event: _Event) -> statuses.Status | None:
    said = text(event.what) or ""
    known = CODES.get(event.code or "")
    return statuses.unless_denied(known, said) if known else statuses.recognise(said)
