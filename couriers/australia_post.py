"""Australia Post's Shipping and Tracking API, for its own articles and StarTrack's.

Errors about a number stand inside a 200. A consignment nests its articles one level deeper. Events
carry no codes, so their sentences are all there is; what is delivered follows from an article's
`status`. All times are Australian eastern ones with their offset, even for scans in Chicago: the
instant is right, the hour is not that of the place.

Ten numbers, at most, are asked for in one call, with commas between them. Australia Post's sample
answers two: a list of results, each with its number, and with articles or errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from couriers.http.credentials import basic_auth, credentials
from couriers.http.refusals import TELLING, refuse, unexpected
from couriers.http.several import Cut, Ends, parser_of, track_each
from couriers.reading import numbers, statuses
from couriers.reading.answer import Answer, decode, inside, others, text
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
from couriers.reading.countries import Country, country
from tracking.checkpoint import NOT_FOUND_YET, Checkpoint, Tag, Tracking
from tracking.errors import (
    CourierDown,
    InvalidNumber,
    RateLimited,
    RequestRefused,
    UnreadableAnswer,
    WrongNumber,
)
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "Australia Post"
BASE_URL = "https://digitalapi.auspost.com.au"
CREDENTIALS: tuple[str, ...] = ("api_key", "password", "account_number")
CREDENTIALS_FROM = "developers.auspost.com.au: Shipping and Tracking, for contract customers"
PATTERNS: tuple[numbers.NumberForm, ...] = (
    numbers.s10("AU"),
    numbers.form(r"(?!1Z)(?=\d*[A-Z])[0-9A-Z]{3,5}\d{11,18}", loose=True),
    numbers.form(r"(?=\d*[A-Z])[0-9A-Z]{3,5}\d{7,9}", loose=True),
)
VERIFIED = (
    "Australia Post's reference, its status tables and samples; never run against the live site"
)

STATUSES: dict[str, statuses.Status] = {
    "created": statuses.INFO_RECEIVED,
    "sealed": statuses.INFO_RECEIVED,
    "initiated": statuses.INFO_RECEIVED,
    "in transit": statuses.IN_TRANSIT,
    "delivered": statuses.DELIVERED,
    "awaiting collection": statuses.FOR_PICKUP,
    "possible delay": statuses.PROBLEM,
    "unsuccessful pickup": statuses.PROBLEM,
    "article damaged": statuses.DAMAGED,
    "cancelled": statuses.PROBLEM,
    "held by courier": statuses.PROBLEM,
    "cannot be delivered": statuses.WRONG_ADDRESS,
    "at delivery depot": statuses.ARRIVED,
    "booked in": statuses.ARRIVED,
    "delivered in full": statuses.DELIVERED,
    "final shortage": statuses.PROBLEM,
    "on board for delivery": statuses.OUT_FOR_DELIVERY,
    # A part of a consignment is not the consignment.
    "partial delivery": statuses.IN_TRANSIT,
    "picked up": statuses.ACCEPTED,
    "ready for pickup": statuses.FOR_PICKUP,
    "re-consigned": statuses.FORWARDED,
    "scanned in transit": statuses.IN_TRANSIT,
    "to be re-delivered": statuses.ATTEMPTED,
    "unsuccessful delivery": statuses.ATTEMPTED,
}
"""`status` of an article, in lower case: the tables of articles and of StarTrack consignments."""

SILENT = frozenset({"unknown", "track items for detailed delivery information"})
"""Statuses that leave it to the events, or to the articles of a consignment."""

SENTENCES: dict[str, statuses.Status] = {
    "shipping information received by australia post": statuses.INFO_RECEIVED,
    "shipping information approved by australia post": statuses.INFO_RECEIVED,
    "shipment information received": statuses.INFO_RECEIVED,
    "received by australia post": statuses.ACCEPTED,
    "received and accepted by australia post": statuses.ACCEPTED,
    "received by our network": statuses.ACCEPTED,
    "item lodged": statuses.ACCEPTED,
    "we've got it": statuses.ACCEPTED,
    "incorrectly sorted and forwarded to correct location": statuses.FORWARDED,
    "redirected to new address": statuses.FORWARDED,
    "received item from sender (outbound)": statuses.ACCEPTED,
    "cleared and awaiting international departure": statuses.IN_TRANSIT,
    "processed through australia post facility": statuses.IN_TRANSIT,
    "item processed at facility": statuses.IN_TRANSIT,
    "processed by air carrier": statuses.IN_TRANSIT,
    "arrived at facility in destination country": statuses.ARRIVED_ABROAD,
    "arrived awaiting clearance (inbound)": statuses.CUSTOMS_BEGUN,
    "item is in customs": statuses.CUSTOMS_BEGUN,
    "item cleared by customs": statuses.CUSTOMS_DONE,
    "onboard for delivery": statuses.OUT_FOR_DELIVERY,
    "on board for delivery": statuses.OUT_FOR_DELIVERY,
    "with australia post for delivery today": statuses.OUT_FOR_DELIVERY,
    "it's coming today": statuses.OUT_FOR_DELIVERY,
    "delivered": statuses.DELIVERED,
    "delivered - left in a safe place": statuses.DELIVERED,
    "delivered in full": statuses.DELIVERED,
}
"""Whole sentences of events, in lower case, as its samples have them."""

INVALID = frozenset({"ESB-10001", "ESB-10002"})
UNKNOWN = frozenset({"51104"})
DOWN = frozenset({"ESB-20010", "ESB-20050", "99999"})
TOO_MANY = frozenset({"API_002"})
"""Codes of errors: no number of theirs, or no tracked product; not found (yet); an outage, also
inside a 200; too many requests. The rest (51100 to 51103) says that we asked wrongly."""

_PLACE = re.compile(r"(?P<city>.+) (?P<state>ACT|NSW|NT|QLD|SA|TAS|VIC|WA)")
_ABROAD = re.compile(r".*(?:\((?P<code>[A-Z]{2})\)|, (?P<name>[^,]+))|(?P<bare>[A-Z]{2})")
_BACK = re.compile(r"\b(?:being returned|return(?:ed|ing)? to sender)\b", re.IGNORECASE)
_PERHAPS = re.compile(r"\b(?:will|may|if|unless)\b", re.IGNORECASE)


class _Event(msgspec.Struct):
    description: str | None = None
    date: str | None = None
    location: str | None = None


class _Item(msgspec.Struct, rename={"article": "article_id", "product": "product_type"}):
    """An article; or a consignment, whose articles are its `items`."""

    article: str | None = None
    status: str | None = None
    events: list[_Event] | None = None
    items: list[_Item] | None = None
    product: Any = None


class _Complaint(msgspec.Struct):
    """Why there is no answer. Some services write `error_code`."""

    code: str | None = None
    error_code: str | None = None
    name: str | None = None
    message: str | None = None


class _Result(msgspec.Struct, rename={"number": "tracking_id", "items": "trackable_items"}):
    number: str | None = None
    status: str | None = None
    items: list[_Item] | None = None
    errors: list[_Complaint] | None = None


class _Named(msgspec.Struct, rename={"number": "tracking_id"}):
    number: str | None = None


class _Reply(msgspec.Struct, rename={"results": "tracking_results"}):
    results: list[_Result] | None = None
    errors: list[_Complaint] | None = None


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number."""
    return fetch.read(await _ask(fetch, [request.number]), parse, request.number)


async def track_many(fetch: Fetch, requests: Sequence[TrackingRequest]) -> Ends:
    """Ask for several numbers."""
    return await track_each(fetch, requests, _ask, parse_many)


async def _ask(fetch: Fetch, wanted: Sequence[str]) -> Answer:
    key, password, account = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    return await fetch.get(
        ["shipping", "v1", "track"],
        query={"tracking_ids": ",".join(map(numbers.alphanumeric, wanted))},
        headers={"Authorization": basic_auth(key, password), "Account-Number": account},
    )


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the result that is ours: its articles, or the error about its number."""
    refuse(status, headers, body, TELLING)
    reply = decode(body, _Reply)
    results = reply.results or []
    ours = [result for result in results if result.number in (number, None)]
    if results and not ours:
        raise WrongNumber(f"asked for {number}, answered about {len(results)} other numbers")
    items = [item for result in ours for item in _items(result)]
    named = [item for item in items if item.article == number]
    if named:
        return latest(map(_tracking, named))
    if items:
        articles = others((item.article for item in items), number)
        return together([_tracking(item) for item in items])._replace(sub_parcels=articles)
    complaints = [each for result in ours for each in result.errors or ()] + (reply.errors or [])
    return _judge(complaints, status)


parse_many = parser_of(
    parse, Cut(("tracking_results",), lambda piece: [decode(piece, _Named).number]), TELLING
)


def _items(result: _Result) -> list[_Item]:
    """List the articles of a result of which it says anything."""
    listed: list[_Item] = []
    for item in result.items or ():
        listed += item.items or [item]
    if len(listed) == 1:
        listed[0].status = listed[0].status or result.status
    return [item for item in listed if item.events or _meaning(item.status)]


def _judge(complaints: list[_Complaint], status: int) -> Tracking:
    codes = {complaint.code or complaint.error_code for complaint in complaints}
    said = next((told for c in complaints if (told := text(c.message) or text(c.name))), "")
    if codes & INVALID:
        raise InvalidNumber(said or "invalid tracking ID")
    if codes & UNKNOWN:
        return NOT_FOUND_YET
    if codes & DOWN:
        raise CourierDown(said or "system error")
    if codes & TOO_MANY:
        raise RateLimited(said or "too many requests")
    if complaints:
        raise RequestRefused(said or "refused without a reason")
    raise unexpected(status, "neither articles nor errors")


def _meaning(status: str | None) -> statuses.Status | None:
    return STATUSES.get(statuses.whole(status or ""))


def _tracking(item: _Item) -> Tracking:
    by_status = _meaning(item.status)
    scans = (_scan(event, _known(event, by_status)) for event in item.events or ())
    past = events, last = history(scans, newest_first=True)
    if by_status is None and not events:
        raise UnreadableAnswer("an article with neither a status nor an event")
    status = by_status or (statuses.Status(last.tag, last.subtag) if last else statuses.IN_TRANSIT)
    status = statuses.refined(status, last)
    if status.tag is Tag.DELIVERED and any(_goes_back(event) for event in events):
        status = statuses.RETURNED
    elif status.tag is Tag.DELIVERED and last and last.tag is Tag.AVAILABLE_FOR_PICKUP:
        status = statuses.FOR_PICKUP  # abroad, a post office that has it counts as a delivery
    return tracking_of(past, status)._replace(
        service=inside(item.product),
        unknown_codes=statuses.unknown_codes(
            [item.status and statuses.whole(item.status)], STATUSES, SILENT
        ),
    )


def _goes_back(event: Checkpoint) -> bool:
    """Tell whether the parcel went back: the delivery after that is one to its sender."""
    if statuses.unless_sent_back(statuses.DELIVERED, event.message) == statuses.RETURNED:
        return True
    return bool(_BACK.search(event.message)) and not _PERHAPS.search(event.message)


def _scan(event: _Event, known: statuses.Status | None) -> Scan:
    location = text(event.location)
    inland = _PLACE.fullmatch(location or "")
    place = Place(
        country("AUS") if inland else _abroad(location),
        city=inland["city"] if inland else None,
        state=inland["state"] if inland else None,
        location=location,
    )
    return scan(read_iso(event.date or ""), event.description, known, place=place)


def _known(event: _Event, of_article: statuses.Status | None) -> statuses.Status | None:
    """Read an event's sentence, which ends nothing where the article's status says otherwise.

    "Delivered - …" is a delivery where that status says so too.
    """
    said = statuses.whole(event.description or "")
    arrived = of_article == statuses.DELIVERED
    end = statuses.recognise_end(said) if arrived or of_article is None else None
    by_words = SENTENCES.get(said) or end or statuses.recognise(said)
    if by_words is None and arrived and said.startswith("delivered"):
        return statuses.DELIVERED
    return by_words


def _abroad(location: str | None) -> Country | None:
    """Tell the country out of "CHICAGO (US)", "US-60199, UNITED STATES" or "NZ"."""
    found = _ABROAD.fullmatch(location or "")
    where = country(next((part for part in found.groups() if part), None)) if found else None
    return where if where and where.iso3 else None
