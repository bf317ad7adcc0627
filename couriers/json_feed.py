"""Any courier behind an HTTP feed of our own shape: a new slug by configuration alone.

`GET {base_url}/{slug}/{number}` answers a tracking in the words of the stored result: `tag`,
`checkpoints` of `checkpoint_time`, `message`, `country_name` and whatever else is known
(docs/interface.md). 404 means that the number is not known yet. An optional setting `token` is sent
as a bearer token.

Where `numbers_per_call` says that the feed takes several, these are asked for by
`POST {base_url}/{slug}` with `{"numbers": ["A1", "B2"]}`, and answered by an object of such
trackings by number; `null` is a number that is not known yet.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from couriers.http.refusals import refuse, unexpected
from couriers.http.several import Ends, members, read_part
from couriers.reading import numbers, statuses
from couriers.reading.answer import Answer, address, decode, grams, others, text
from couriers.reading.checkpoints import Moment, decisive, is_kept, newest, oldest_first, read_iso
from couriers.reading.countries import country
from tracking.checkpoint import NOT_FOUND_YET, Checkpoint, Tag, Tracking
from tracking.errors import CourierError, RequestRefused, UnreadableAnswer, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "JSON feed"
BASE_URL = ""
CREDENTIALS: tuple[str, ...] = ()
CREDENTIALS_FROM = "the people who run the feed, if it asks for a token"
PATTERNS: tuple[numbers.NumberForm, ...] = ()
VERIFIED = "its own description in docs/couriers.md"


class _Event(msgspec.Struct):
    checkpoint_time: str
    message: str = ""
    checkpoint_offset: str | None = None
    country_name: str | None = None
    country_iso3: str | None = None
    city: str | None = None
    state: str | None = None
    postal_code: str | int | None = None
    location: str | None = None
    tag: str | None = None
    subtag: str | None = None
    raw_tag: str | int | None = None


class _Feed(msgspec.Struct):
    tag: str | None = None
    subtag: str | None = None
    checkpoints: list[_Event] | None = None
    tracking_number: str | None = None
    expected_delivery: str | None = None
    delivered_at: str | None = None
    signed_by: str | None = None
    origin: str | None = None
    destination: str | None = None
    proof_of_delivery: str | None = None
    weight_grams: int | float | None = None
    service: str | None = None
    reference: str | int | None = None
    sub_parcels: list[str] | None = None


_DROPPED = str.maketrans("", "", " -")

_NOT_SEVERAL = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask the feed for one number."""
    answer = await fetch.get([request.slug, request.number], headers=_headers(fetch))
    return fetch.read(answer, parse, request.number)


async def track_many(fetch: Fetch, requests: Sequence[TrackingRequest]) -> Ends:
    """Ask the feed for several numbers."""
    asked = list(dict.fromkeys(str(request.number) for request in requests))
    answer = await fetch.post([requests[0].slug], json={"numbers": asked}, headers=_headers(fetch))
    return fetch.read_many(answer, parse_many, asked)


def _headers(fetch: Fetch) -> dict[str, str]:
    token = fetch.settings.credentials.get("token")
    return {"Authorization": f"Bearer {token}"} if token else {}


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the feed's answer. A tag that AfterShip does not have makes it unreadable."""
    refuse(status, headers, body)
    match status:
        case HTTPStatus.OK:
            return _tracking(decode(body, _Feed), number)
        case HTTPStatus.NOT_FOUND:
            return NOT_FOUND_YET
        case HTTPStatus.BAD_REQUEST:
            raise RequestRefused("the feed calls our request malformed (400)")
    raise unexpected(status)


def parse_many(
    status: int, headers: Mapping[str, str], body: bytes, numbers: Sequence[str]
) -> Ends:
    """Read what the feed says of each number, as if it had come alone; null is a 404."""
    refuse(status, headers, body)
    if status in _NOT_SEVERAL:
        raise RequestRefused(
            f"the feed does not take these numbers together ({status}); is numbers_per_call right?"
        )
    if status != HTTPStatus.OK:
        raise unexpected(status)
    told = members(body)
    if any(number not in told for number in numbers):
        told = {_plain(name): value for name, value in told.items()} | told
    ends: dict[str, Tracking | CourierError] = {}
    for number in numbers:
        part = told[number] if number in told else told.get(_plain(number))
        if part == b"null":
            ends[number] = NOT_FOUND_YET
        elif part is not None:
            ends[number] = read_part(parse, Answer(status, headers, part), number)
    return ends


def _tracking(feed: _Feed, number: str) -> Tracking:
    told = text(feed.tracking_number)
    if told is not None and _plain(told) != _plain(number):
        raise WrongNumber(f"asked for {number}, answered about {told[:80]}")
    listed = feed.checkpoints or []
    backwards = len(listed) > 1 and listed[0].checkpoint_time > listed[-1].checkpoint_time
    read = [_checkpoint(event) for event in listed]
    events = oldest_first(read, newest_first=backwards)
    status = _status(feed.tag, feed.subtag)
    if status is None:
        bearing = [made for made, event in zip(read, listed, strict=True) if text(event.tag)]
        last = decisive(events, bearing[::-1])
        if last is None:
            raise UnreadableAnswer("no tag, neither of the parcel nor of a checkpoint")
        status = statuses.Status(last.tag, last.subtag)
    delivered = _delivered(feed, events) if status.tag is Tag.DELIVERED else None
    return Tracking(  # by place, as its checkpoints
        status.tag,
        status.subtag,
        events,
        text(feed.expected_delivery),
        delivered.local if delivered else None,
        delivered.utc if delivered else None,
        text(feed.signed_by),
        text(feed.origin),
        text(feed.destination),
        address(feed.proof_of_delivery),
        grams(feed.weight_grams, "g"),
        text(feed.service),
        text(feed.reference),
        others(feed.sub_parcels, number) if feed.sub_parcels else (),
    )


_words = functools.lru_cache(maxsize=256)(text)
"""Feeds say the same things of all parcels: looking up costs a third of reading."""


def _checkpoint(event: _Event) -> Checkpoint:
    local, offset, utc = event.checkpoint_time, None, None
    if event.checkpoint_offset is not None or not is_kept(local):
        local, offset, utc = read_iso(local, place_offset=text(event.checkpoint_offset))
    tag, subtag = _status(event.tag, event.subtag) or statuses.IN_TRANSIT
    name, iso3 = _country(event.country_name, event.country_iso3)
    # By place, in the order of Checkpoint, and without its `__new__`, which is written in Python:
    # names would cost as much as the reading of the time, `__new__` half as much.
    # Most feeds say little of a place, so `text` is not asked about what is absent.
    made = (
        local,
        _words(event.message) or "",
        tag,
        subtag,
        name,
        iso3,
        offset,
        utc,
        None if event.city is None else _words(event.city),
        None if event.state is None else _words(event.state),
        None if event.postal_code is None else text(event.postal_code),
        None if event.location is None else _words(event.location),
        None if event.raw_tag is None else text(event.raw_tag),
    )
    return tuple.__new__(Checkpoint, made)


@functools.lru_cache(maxsize=256)
def _country(name: str | None, iso3: str | None) -> tuple[str | None, str | None]:
    """Read a country: its name, which stays as the feed writes it, and its code."""
    written = text(name)
    known = country(written or text(iso3))
    return (written or known.name, known.iso3) if known else (written, None)


@functools.lru_cache(maxsize=256)
def _status(tag_text: str | None, subtag: str | None) -> statuses.Status | None:
    """Check a tag and its subtag, which is `<tag>_001` unless given; None for no tag."""
    told = text(tag_text)
    if told is None:
        return None
    try:
        tag = Tag(told)
    except ValueError as unknown:
        raise UnreadableAnswer(f"{tag_text!r} is no tag: {', '.join(Tag)}") from unknown
    given = text(subtag)
    if given is None:
        return statuses.Status(tag, f"{tag}_001")
    if not re.fullmatch(rf"{tag}_\d{{3}}", given, re.ASCII):
        raise UnreadableAnswer(f"{given[:60]!r} is no subtag of {tag}")
    return statuses.Status(tag, given)


def _delivered(feed: _Feed, events: tuple[Checkpoint, ...]) -> Moment | None:
    if told := text(feed.delivered_at):
        return read_iso(told)
    last = newest(events, Tag.DELIVERED)
    return Moment(last.checkpoint_time, utc=last.checkpoint_utc) if last else None


def _plain(number: str) -> str:
    return number.upper().translate(_DROPPED)
