"""Any courier behind an HTTP feed of our own shape: a new slug by configuration alone.

`GET {base_url}/{slug}/{number}` answers a tracking in the words of the stored result: `tag`,
`checkpoints` of `checkpoint_time`, `message`, `country_name` and whatever else is known
(docs/interface.md). 404 means that the number is not known yet. An optional setting `token` is sent
as a bearer token.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from couriers.http.refusals import refuse, unexpected
from couriers.reading import numbers, statuses
from couriers.reading.answer import address, decode, grams, others, text
from couriers.reading.checkpoints import Moment, decisive, newest, oldest_first, read_iso
from couriers.reading.countries import country
from tracking.checkpoint import NOT_FOUND_YET, Checkpoint, Tag, Tracking
from tracking.errors import RequestRefused, UnreadableAnswer, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "JSON feed"
BASE_URL = ""
CREDENTIALS: tuple[str, ...] = ()
ASKS = "`GET {base_url}/{slug}/{number}`"
AUTH = "a bearer token, where one is set"
CREDENTIALS_FROM = "the people who run the feed, if it asks for a token"
PATTERNS: tuple[numbers.NumberForm, ...] = ()
QUOTA = "the feed's own"
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


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask the feed for one number."""
    token = fetch.settings.credentials.get("token")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = await fetch.get([request.slug, request.number], headers=headers)
    return fetch.read(answer, parse, request.number)


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
    return Tracking(
        tag=status.tag,
        subtag=status.subtag,
        checkpoints=events,
        expected_delivery=text(feed.expected_delivery),
        delivered_at=delivered.local if delivered else None,
        delivered_at_utc=delivered.utc if delivered else None,
        signed_by=text(feed.signed_by),
        origin=text(feed.origin),
        destination=text(feed.destination),
        proof_of_delivery=address(feed.proof_of_delivery),
        weight_grams=grams(feed.weight_grams, "g"),
        service=text(feed.service),
        reference=text(feed.reference),
        sub_parcels=others(feed.sub_parcels, number) if feed.sub_parcels else (),
    )


def _checkpoint(event: _Event) -> Checkpoint:
    beside = None if event.checkpoint_offset is None else text(event.checkpoint_offset)
    local, offset, utc = read_iso(event.checkpoint_time, place_offset=beside)
    tag, subtag = _status(event.tag, event.subtag) or statuses.IN_TRANSIT
    name = text(event.country_name)
    named = country(name or text(event.country_iso3))
    # By place, in the order of Checkpoint: names would cost as much as the reading of its time.
    # Most feeds say little of a place, so `text` is not asked about what is absent.
    return Checkpoint(
        local,
        text(event.message) or "",
        tag,
        subtag,
        name or (named.name if named else None),
        named.iso3 if named else None,
        offset,
        utc,
        None if event.city is None else text(event.city),
        None if event.state is None else text(event.state),
        None if event.postal_code is None else text(event.postal_code),
        None if event.location is None else text(event.location),
        None if event.raw_tag is None else text(event.raw_tag),
    )


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
    return number.upper().translate(str.maketrans("", "", " -"))
