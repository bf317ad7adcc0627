"""DPD UK, through the feed behind its own tracking page: unofficial, undocumented, may vanish.

A number is looked up twice or three times: the reference gives a parcel code, the code gives the
events, and where there are none yet, the parcel's own status sentence. Answers are about the right
parcel only if they repeat the number: DPD gives a number to a new parcel within months.

The label ends in a check character that the feed does not know. Times are local to the United
Kingdom and carry no offset. `eventLocation` names who scanned (DPD, a partner, the sender), not
where. "No such reference" is the feed's own sentence; any other 404 means that the feed has moved.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from msgspec import Struct, field

from couriers.http.refusals import refuse, unexpected
from couriers.reading import numbers, statuses
from couriers.reading.answer import decode, text
from couriers.reading.checkpoints import Scan, history, read_iso, scan
from tracking.checkpoint import NOT_FOUND_YET, Tag, Tracking
from tracking.errors import InvalidNumber, UnreadableAnswer, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "DPD UK"
BASE_URL = "https://apis.track.dpd.co.uk"
CREDENTIALS: tuple[str, ...] = ()
CREDENTIALS_FROM = "none needed"
PATTERNS: tuple[numbers.NumberForm, ...] = (
    numbers.form(r"[01]\d{13}[0-9A-Z]", numbers.mod_37_36),
    # By the number of the depot.
    numbers.form(r"15\d{12}", loose=True),
    numbers.form(r"[01]\d{13}", loose=True),
)
VERIFIED = (
    "third parties' descriptions of the unofficial feed behind its page, which may vanish"
    "; never run against the live site"
)

_NUMBER = re.compile(r"(\d{14})[0-9A-Z]?")
_PARCEL_CODE = re.compile(r"[A-Za-z0-9*_-]{1,128}")
_UNKNOWN = re.compile(r"reference.*not be found", re.IGNORECASE)
_AT_THE_END = re.compile(r" at \d{1,2}:\d\d on [a-z]{3} \d{1,2} [a-z]+ \d{4}$")

_CODES: dict[str, statuses.Status] = {
    "000": statuses.INFO_RECEIVED,
    "001": statuses.DELIVERED,
    "004": statuses.ARRIVED,
    "009": statuses.IN_TRANSIT,
    "015": statuses.OUT_FOR_DELIVERY,
}
"""`eventCode`, where an answer has it; as used by an open application for years."""

_SENTENCES: tuple[tuple[re.Pattern[str], statuses.Status], ...] = tuple(
    (re.compile(sentence), status)
    for sentence, status in (
        (r"(?:your|the) parcel has been delivered", statuses.DELIVERED),
        (
            r"(?:your|the) parcel has been delivered,? (?:and )?signed for by .+",
            statuses.SIGNED_FOR,
        ),
        (r"your parcel is waiting for you at home \(left in safe place\)", statuses.DELIVERED),
        (r"your delivery has been cancelled\b.*", statuses.PROBLEM),
    )
)
"""Whole sentences of the feed's fixed vocabulary; only these, not their words, mean Delivered."""


class _Event(Struct):
    at: str | None = field(name="eventDate", default=None)
    what: str | None = field(name="eventText", default=None)
    code: str | int | None = field(name="eventCode", default=None)
    number: str | None = field(name="parcelNumber", default=None)


class _Parcel(Struct):
    number: str | None = field(name="parcelNumber", default=None)
    code: str | None = field(name="parcelCode", default=None)
    collected: str | None = field(name="collectionDate", default=None)
    status: str | None = field(name="trackingStatusCurrent", default=None)


class _Error(Struct):
    message: str | None = None


class _References(Struct):
    data: list[_Parcel] | None = None
    error: _Error | None = None


class _History(Struct):
    data: list[_Event] | _Parcel | None = None


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Look the number up; the postal code helps, and the feed answers without it."""
    number = _bare(request.number)
    query = {
        "origin": "PRTK",
        "postcode": request.fields.get("tracking_postal_code", ""),
        "referenceNumber": number,
    }
    answer = await fetch.get(["v1", "reference"], query=query)
    with fetch.reading(answer):
        code = parse_reference(answer.status, answer.headers, answer.body, number)
    if code is None:
        return NOT_FOUND_YET._replace(http_status=answer.status)
    answer = await fetch.get(["v1", "parcels", code, "parcelevents"])
    with fetch.reading(answer):
        empty = answer.status == HTTPStatus.OK and decode(answer.body, _History).data == []
    if empty:
        answer = await fetch.get(["v1", "parcels", code])
    return fetch.read(answer, parse, number)


def parse_reference(
    status: int, headers: Mapping[str, str], body: bytes, number: str
) -> str | None:
    """Read the first answer: the parcel's code, None when DPD UK does not know the number."""
    refuse(status, headers, body)
    found = decode(body, _References)
    said = text(found.error.message) if found.error else None
    if status == HTTPStatus.NOT_FOUND and _UNKNOWN.search(said or ""):
        return None
    if status != HTTPStatus.OK or found.data is None:
        raise unexpected(status, "the feed has moved, or wants more than a number")
    ours = [parcel for parcel in found.data if _same(parcel.number, number)]
    if not ours:
        raise WrongNumber(f"asked for {number}, answered with {len(found.data)} other parcels")
    code = max(ours, key=lambda parcel: parcel.collected or "").code or ""
    if not _PARCEL_CODE.fullmatch(code):
        raise UnreadableAnswer("the reference holds no parcel code")
    return code


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the last answer: the events, or the parcel itself where it has none yet."""
    refuse(status, headers, body)
    if status != HTTPStatus.OK:
        raise unexpected(status, "the feed has moved")
    match decode(body, _History).data:
        case _Parcel() as parcel:
            return _from_sentence(parcel, number)
        case [_, *_] as listed:
            return _from_events(listed, number)
    raise UnreadableAnswer("neither events nor a parcel")


def _from_sentence(parcel: _Parcel, number: str) -> Tracking:
    if not _same(parcel.number, number):
        raise WrongNumber(f"asked for {number}, answered about {parcel.number!r:.40}")
    said = text(parcel.status)
    if said is None:
        raise UnreadableAnswer("the parcel has neither events nor a status")
    status = _known(None, said) or statuses.IN_TRANSIT
    return Tracking(tag=status.tag, subtag=status.subtag)


def _from_events(listed: list[_Event], number: str) -> Tracking:
    if any(event.number is not None and not _same(event.number, number) for event in listed):
        raise WrongNumber(f"asked for {number}, answered with another parcel's events")
    told = history(map(_scan, listed), newest_first=True)
    status = told.status or statuses.IN_TRANSIT
    delivered = told.last if status.tag is Tag.DELIVERED else None
    signed = re.search(r"signed for by (.+?)\.?$", delivered.message) if delivered else None
    return Tracking(
        tag=status.tag,
        subtag=status.subtag,
        checkpoints=told.checkpoints,
        delivered_at=delivered.checkpoint_time if delivered else None,
        signed_by=signed[1] if signed else None,
        unknown_codes=statuses.unknown_codes((event.raw_tag for event in told.checkpoints), _CODES),
    )


def _scan(event: _Event) -> Scan:
    return scan(read_iso(event.at or ""), event.what, _known(event.code, event.what), event.code)


def _known(code: str | int | None, what: str | None) -> statuses.Status | None:
    said = _AT_THE_END.sub("", statuses.whole(what or ""))
    by_sentence = next((status for form, status in _SENTENCES if form.fullmatch(said)), None)
    if known := _CODES.get(text(code) or ""):
        return statuses.unless_denied(by_sentence or known, said)
    end = None if text(code) else statuses.recognise_end(said)
    return by_sentence or end or statuses.recognise(said)


def _bare(number: str) -> str:
    found = _NUMBER.fullmatch(number)
    if found is None:
        raise InvalidNumber("DPD UK's numbers are 14 digits, with or without a check character")
    return found[1]


def _same(told: str | None, number: str) -> bool:
    found = _NUMBER.fullmatch((told or "").replace(" ", "").upper())
    return found is not None and found[1] == number[:14]
