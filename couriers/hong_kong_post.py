"""Hongkong Post's Mail Tracking API for registered EC-Ship users: unverified.

The public description (specification 1.0, April 2024) names the two addresses, the token's 15
minutes, batches of numbers, 100,000 requests a day and 100 ms between them. The names of fields are
for registered users only: those below are assumptions, and stand in the `rename` tables and
nowhere else. Correct them there when you have the specification. The web page and the chatbot are
no way round: they are behind a CAPTCHA, or give no history.

"The item left Hong Kong for its destination" is a departure, not a delivery. Times are local to
where the scan happened, abroad as often as not, so no offset is ever added.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from msgspec import Struct, field

from couriers.http.credentials import Grant, credentials
from couriers.http.refusals import refuse, unexpected
from couriers.reading import numbers, statuses
from couriers.reading.answer import decode, text
from couriers.reading.checkpoints import (
    Moment,
    Place,
    Scan,
    history,
    read_day_first,
    read_iso,
    scan,
    tracking_of,
)
from couriers.reading.countries import country
from tracking.checkpoint import NOT_FOUND_YET, Tracking
from tracking.errors import InvalidNumber, RequestRefused, UnreadableAnswer, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "Hongkong Post"
BASE_URL = "https://ec-ship.hongkongpost.hk"
TOKEN_URL = "https://ec-ship.hongkongpost.hk/api/authenticate"  # noqa: S105 - an address
CREDENTIALS: tuple[str, ...] = ("username", "password")
CREDENTIALS_FROM = "EC-Ship, API portal: an account registered for the Mail Tracking API"
PATTERNS: tuple[numbers.NumberForm, ...] = (numbers.s10("HK"),)
VERIFIED = (
    "nothing: the public description names addresses and limits, but no fields; never run "
    "against the live site"
)

_TOKEN_SECONDS = 900.0
_ASKED = "itemNo"


class _Event(Struct):
    at: str | None = field(name="eventDateTime", default=None)
    what: str | None = field(name="status", default=None)
    code: str | int | None = field(name="statusCode", default=None)
    place: str | None = field(name="location", default=None)
    land: str | None = field(name="country", default=None)


class _Item(Struct):
    number: str | None = field(name="itemNo", default=None)
    events: list[_Event] | None = None
    said: str | None = field(name="message", default=None)


class _Reply(Struct, rename={"said": "message"}):
    items: list[_Item] | None = None
    said: str | None = None


_SENTENCES: dict[str, statuses.Status] = {
    "sender is preparing item for posting": statuses.INFO_RECEIVED,
    "posted": statuses.ACCEPTED,
    "item posted and is being processed": statuses.ACCEPTED,
    "the item arrived at processing centre": statuses.ARRIVED,
    "arrived at processing centre (inward office of exchange)": statuses.ARRIVED,
    "arrived and is being processed": statuses.ARRIVED,
    "arrived the delivery office and is being processed": statuses.ARRIVED,
    "handed over to carrier / left for destination": statuses.DEPARTED,
    "held by customs": statuses.CUSTOMS_BEGUN,
    "released from customs / despatched from processing centre "
    "(inward office of exchange)": statuses.CUSTOMS_DONE,
    "delivery incomplete": statuses.ATTEMPTED,
    "delivered": statuses.DELIVERED,
}
"""Its status vocabulary, as seen on its own pages; only a whole sentence means Delivered."""


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number, although the service takes batches: each request is one permit."""
    username, password = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    number = numbers.alphanumeric(request.number)
    grant = Grant(
        fetch.settings.token_url,
        json={"username": username, "password": password},
        member="token",
        lifetime=_TOKEN_SECONDS,
    )
    path = ["api", "version", "1", "mailTracking"]
    answer = await fetch.post(path, json={_ASKED: [number]}, grant=grant)
    return fetch.read(answer, parse, number)


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the batch's answer for the one number that was asked."""
    refuse(status, headers, body)
    reply = decode(body, _Reply)
    if status == HTTPStatus.BAD_REQUEST:
        return _told(reply.said, RequestRefused(text(reply.said) or "malformed request (400)"))
    if status != HTTPStatus.OK:
        raise unexpected(status)
    if reply.items is None:
        return _told(reply.said, UnreadableAnswer("neither items nor a known message"))
    item = next((item for item in reply.items if text(item.number) == number), None)
    if item is None:
        raise WrongNumber(f"asked for {number}, answered with {len(reply.items)} other items")
    if not item.events:
        return _told(item.said, UnreadableAnswer("neither events nor a known message"))
    return _tracking(item.events)


def _told(said: str | None, otherwise: RequestRefused | UnreadableAnswer) -> Tracking:
    """Read a message that stands for events. Unknown and too old share the words "no record"."""
    if re.search(r"no record", said or "", re.IGNORECASE):
        return NOT_FOUND_YET
    if re.search(r"invalid (?:mail|item|tracking) number", said or "", re.IGNORECASE):
        raise InvalidNumber(text(said) or "")
    raise otherwise


def _tracking(listed: list[_Event]) -> Tracking:
    scans = [_scan(event) for event in listed]
    # One day's events carry the same date and no time: then as the original saw them, newest first.
    backwards = scans[0].checkpoint.checkpoint_time >= scans[-1].checkpoint.checkpoint_time
    past = history(scans, newest_first=backwards)
    return tracking_of(past)


def _scan(event: _Event) -> Scan:
    said = text(event.what) or ""
    end = None if text(event.code) else statuses.recognise_end(said)
    known = _SENTENCES.get(statuses.whole(said)) or end or statuses.recognise(said)
    place = Place(country(text(event.land)), location=event.place)
    return scan(_moment(event), said, known, event.code, place)


def _moment(event: _Event) -> Moment:
    at = event.at or ""
    return read_iso(at) if re.match(r"\d{4}-", at.strip()) else read_day_first(at)
