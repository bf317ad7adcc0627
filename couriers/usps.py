"""United States Postal Service: Tracking 3.2 (POST v3r2) and the older 3.0 (GET v3).

Sources: the service's own OpenAPI text of the tracking API, its repository of examples and its
"Error Inventory". The older API is asked when `base_url` ends in `/tracking/v3`.

The newer one takes a list of numbers, and answers by a list of parcels and errors with their
numbers: 207 where some are not known, 404 where none is. Its OpenAPI text says so; that it takes 35
is what its users read there.

Traps seen in its answers: `GMTTimestamp` keeps the local day when the evening has crossed midnight
at Greenwich, so the instant is computed from the local time and `GMTOffset`; some events have
neither; a `Z` behind the local time is a filler. "Delivered, To Original Sender" is a return.
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from couriers.http.credentials import Grant, credentials
from couriers.http.refusals import refuse, unexpected
from couriers.http.several import Cut, Ends, parser_of, track_each
from couriers.reading import numbers, statuses
from couriers.reading.answer import Answer, decode, decode_each, inside, place, text
from couriers.reading.checkpoints import Place, Scan, history, newest, read_iso, scan, tracking_of
from couriers.reading.countries import country
from tracking.checkpoint import NOT_FOUND_YET, Checkpoint, Tag, Tracking
from tracking.errors import AuthFailed, InvalidNumber, RequestRefused, UnreadableAnswer, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "USPS"
BASE_URL = "https://apis.usps.com"
TOKEN_URL = "https://apis.usps.com/oauth2/v3/token"  # noqa: S105 - an address, not a password
CREDENTIALS: tuple[str, ...] = ("client_id", "client_secret")
CREDENTIALS_FROM = "developers.usps.com: an app with the tracking scope (granted separately)"
PATTERNS: tuple[numbers.NumberForm, ...] = (
    numbers.form(r"(?:420\d{5}(?:\d{4})?)?9[1-5]\d{20}", lambda number: numbers.gs1(number[-22:])),
    numbers.form(r"(?:420\d{5}(?:\d{4})?)?9[1-5]\d{24}", lambda number: numbers.gs1(number[-26:])),
    numbers.form(r"\d{20}", lambda number: numbers.gs1(number) or numbers.gs1(f"91{number}")),
    numbers.s10("US"),
)
VERIFIED = (
    "the service's OpenAPI text, examples and error inventory; never run against the live site"
)

EVENTS: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "MA GX GA 89",
        statuses.ACCEPTED: "80 83 03 OA PA TM UA AD",
        statuses.ARRIVED: "81 07 10 14 19 41 A1",
        statuses.DEPARTED: "82 42 EF SF T1",
        # DX: "awaiting delivery scan"; nobody knows better, and nothing is wrong yet.
        statuses.IN_TRANSIT: "L1 EX NT TL PC 08 15 17 DX",
        statuses.FORWARDED: "06",
        statuses.OUT_FOR_DELIVERY: "OF",
        statuses.FOR_PICKUP: "16",
        statuses.ATTEMPTED: "02 52 53 54 55 56",
        statuses.BUSINESS_CLOSED: "51",
        statuses.DELIVERED: "01",
        statuses.COLLECTED: "43",
        statuses.REFUSED: "04",
        statuses.WRONG_ADDRESS: "05 21 22 25 26",
        statuses.MOVED: "23 24",
        statuses.PICKUP_MISSED: "27",
        statuses.PROBLEM: "28 11",
        statuses.RETURNING: "09 29 31 44",
    }
)
"""`eventCode`: Publication 199, appendix on tracking scan events, with codes seen in answers."""

CATEGORIES: dict[str, statuses.Status] = {
    "pre-shipment": statuses.INFO_RECEIVED,
    "accepted": statuses.ACCEPTED,
    "in transit": statuses.IN_TRANSIT,
    "in-transit": statuses.IN_TRANSIT,
    "moving through network": statuses.IN_TRANSIT,
    "preparing for delivery": statuses.ARRIVED,
    "forwarded": statuses.FORWARDED,
    "out for delivery": statuses.OUT_FOR_DELIVERY,
    "delivery attempt": statuses.ATTEMPTED,
    "delivery attempt: action needed": statuses.ATTEMPTED,
    "available for pickup": statuses.FOR_PICKUP,
    # Somebody else has it, who may be a shipping partner: not yet the addressee.
    "delivered to agent": statuses.FOR_PICKUP,
    "delivered": statuses.DELIVERED,
    "return to sender": statuses.RETURNING,
    "returned to sender": statuses.RETURNED,
    "alert": statuses.PROBLEM,
}
"""`statusCategory`, in lower case: the status of the parcel as a whole."""

REFUSED = frozenset(
    {"access_denied", "invalid_client", "invalid_grant", "invalid_token", "unauthorized_client"}
)
"""`error` where it is only a word: the credentials or the token are not accepted."""

NOT_YET = frozenset({"150001", "150002", "150003", "150004", "150009"})
"""`error.errors[].code`: no update yet, or a number nobody has scanned; ask again."""

NEVER = frozenset({"150007", "150008", "150010", "150011", "150012"})
"""`error.errors[].code`: another carrier's number, a pickup's, a fraud's; asking again is vain."""

OLDER = "/tracking/v3"
"""How the `base_url` of the older service ends, as `couriers.slugs` has it."""

_ROUTED = tuple(
    re.compile(rf"420\d{{{digits}}}(9\d{{21}}(?:\d{{4}})?)", re.ASCII) for digits in (5, 9)
)


class _Event(Struct):
    """One scan. Only what is read is named: the service adds and renames the rest at will."""

    what: str | None = field(name="eventType", default=None)
    at: str | None = field(name="eventTimestamp", default=None)
    offset: str | None = field(name="GMTOffset", default=None)
    country: str | None = field(name="eventCountry", default=None)
    city: str | None = field(name="eventCity", default=None)
    state: str | None = field(name="eventState", default=None)
    zip_code: str | int | None = field(name="eventZIPCode", default=None)
    zip_code_v3: str | int | None = field(name="eventZIP", default=None)
    name: str | None = None
    code: str | int | None = field(name="eventCode", default=None)


class _Detail(Struct):
    """One reason; `code` is of the error inventory (150001 …)."""

    code: str | int | None = None
    title: str | None = None


class _Error(Struct):
    """Why there is no answer, for the whole request or for one item."""

    code: str | int | None = None
    message: str | None = None
    errors: list[_Detail] | None = None


class _Expectation(Struct, rename={"date": "expectedDeliveryDate"}):
    date: str | None = None


class _Item(Struct):
    """One parcel: v3 answers it bare, v3r2 in a list, and either may hold an error instead."""

    number: str | int | None = field(name="trackingNumber", default=None)
    status: str | None = None
    category: str | None = field(name="statusCategory", default=None)
    events: list[_Event] | None = field(name="trackingEvents", default=None)
    expected: str | None = field(name="expectedDeliveryTimeStamp", default=None)
    expectation: _Expectation | None = field(name="deliveryDateExpectation", default=None)
    origin_city: str | None = field(name="originCity", default=None)
    origin_state: str | None = field(name="originState", default=None)
    destination_city: str | None = field(name="destinationCity", default=None)
    destination_state: str | None = field(name="destinationState", default=None)
    mail_class: Any = field(name="mailClass", default=None)
    status_code: str | int | None = field(name="statusCode", default=None)
    error: _Error | str | None = None


class _Named(Struct, rename={"number": "trackingNumber"}):
    number: str | int | None = None


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number; a postal code and a shipping date tell re-used numbers apart."""
    answer = await _ask(fetch, [request.number], request.fields)
    return fetch.read(answer, parse, request.number)


async def track_many(fetch: Fetch, requests: Sequence[TrackingRequest]) -> Ends:
    """Ask for several numbers, all with the postal code and the shipping date of the first."""
    ask = functools.partial(_ask, fields=requests[0].fields)
    return await track_each(fetch, requests, ask, parse_many)


async def _ask(fetch: Fetch, wanted: Sequence[str], fields: Mapping[str, str]) -> Answer:
    client, secret = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    named = list(map(numbers.alphanumeric, wanted))
    posted = {"client_id": client, "client_secret": secret, "grant_type": "client_credentials"}
    grant = Grant(fetch.settings.token_url, json=posted)
    inputs = _inputs(fields)
    if fetch.settings.base_url.rstrip("/").endswith(OLDER):
        query = {"expand": "DETAIL"} | inputs
        return await fetch.get(["tracking", named[0]], query=query, grant=grant)
    asked = [{"trackingNumber": number} | inputs for number in named]
    return await fetch.post(["tracking", "v3r2", "tracking"], json=asked, grant=grant)


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the answer of either version: an item (v3), or a list of items, each on its own."""
    refuse(status, headers, body)
    match status:
        case HTTPStatus.OK | HTTPStatus.MULTI_STATUS:
            item = _ours(body, number)
            if item.error is None:
                return _tracking(item)
            own = item.error.code if isinstance(item.error, _Error) else None
            return _judge(item.error, str(item.status_code or own))
        case HTTPStatus.BAD_REQUEST | HTTPStatus.NOT_FOUND:
            error = decode(body, _Item).error
            if error is None:
                raise unexpected(status, "no error object")
            return _judge(error, str(status))
    raise unexpected(status)


def _numbers(piece: bytes) -> set[str]:
    number = decode(piece, _Named).number
    return set() if number is None else _names(str(number))


def _inputs(fields: Mapping[str, str]) -> dict[str, str]:
    inputs = {}
    if code := re.match(r"\d{5}(?!\d)", fields.get("tracking_postal_code", "").strip()):
        inputs["destinationZIPCode"] = code[0]
    if day := re.fullmatch(r"(\d{4})-?(\d\d)-?(\d\d)", fields.get("tracking_ship_date", "")):
        inputs["mailingDate"] = "-".join(day.groups())
    return inputs


def _ours(body: bytes, number: str) -> _Item:
    items = decode_each(body, _Item)
    named = [item for item in items if item.number is not None]
    for item in named:
        if _names(str(item.number)) & _names(number):
            return item
    if named or len(items) != 1:
        raise WrongNumber(f"asked for {number}, answered with {len(items)} other items")
    return items[0]


def _names(number: str) -> set[str]:
    """Give a number with and without the routing (420, ZIP or ZIP+4) that only a label carries."""
    plain = number.replace(" ", "").upper()
    behind = (found[1] for form in _ROUTED if (found := form.fullmatch(plain)))
    return {plain, *behind}


parse_many = parser_of(parse, Cut((), _numbers, forms=_names, speaks_for_all=True))


def _judge(error: _Error | str, status: str) -> Tracking:
    """Read an error by its code, then by its status: HTTP's own, or that of one item of a list."""
    if isinstance(error, str):
        if error in REFUSED:
            raise AuthFailed(f"the service answered {error}")
        raise UnreadableAnswer(f"an error without a known meaning: {error[:40]}")
    details = error.errors or []
    codes = {str(detail.code) for detail in details}
    said = text(error.message) or text(details[0].title if details else None) or "no reason given"
    if codes & NEVER:
        raise InvalidNumber(said)
    if codes & NOT_YET or status == str(HTTPStatus.NOT_FOUND.value):
        return NOT_FOUND_YET
    if status == str(HTTPStatus.BAD_REQUEST.value):
        raise RequestRefused(said)
    refuse(int(status) if re.fullmatch(r"\d{3}", status, re.ASCII) else 0, {}, said.encode())
    raise UnreadableAnswer(f"an item failed with {status[:40]}: {said}")


def _tracking(item: _Item) -> Tracking:
    past = history(map(_scan, item.events or ()), newest_first=True)
    answer = tracking_of(past, _overall(item, past.checkpoints))
    receivers = [event.name for event in item.events or () if _status(event).tag is Tag.DELIVERED]
    expected = item.expected or (item.expectation.date if item.expectation else None)
    return answer._replace(
        expected_delivery=text(expected),
        signed_by=text(receivers[0]) if answer.delivered_at and receivers else None,
        origin=place(item.origin_city, item.origin_state),
        destination=place(item.destination_city, item.destination_state),
        service=_plain(inside(item.mail_class)),
        unknown_codes=statuses.unknown_codes((event.code for event in item.events or ()), EVENTS),
    )


def _plain(said: str | None) -> str | None:
    """Take the HTML out of a name: "Priority Mail<SUP>&reg;</SUP>"."""
    return text(html.unescape(re.sub(r"<[^<>]*>", "", said))) if said else None


def _scan(event: _Event) -> Scan:
    moment = read_iso(event.at or "", place_offset=event.offset, zone_is_fake=True)
    zip_code = event.zip_code or event.zip_code_v3
    place = Place(country(text(event.country)), event.city, event.state, zip_code)
    return scan(moment, event.what, _status(event), event.code, place)


def _status(event: _Event) -> statuses.Status:
    said = text(event.what) or ""
    known = EVENTS.get(text(event.code) or "") or statuses.status_from_words(said)
    if known is statuses.ATTEMPTED:
        detail = statuses.recognise(said)
        return detail if detail and detail.tag is Tag.ATTEMPT_FAIL else known
    return _received(known, said)


def _received(status: statuses.Status, said: str) -> statuses.Status:
    """Correct a delivery by who received it: the sender again, or an agent of somebody."""
    if status.tag is not Tag.DELIVERED:
        return status
    if re.search(r"original sender|return(?:ed)? to sender", said, re.IGNORECASE):
        return statuses.RETURNED
    if re.search(r"to agent\b", said, re.IGNORECASE):
        return statuses.FOR_PICKUP
    if re.search(r"\bneighbou?r\b", said, re.IGNORECASE):
        return statuses.AT_NEIGHBOUR
    if "picked up" in said.lower():
        return statuses.COLLECTED
    return statuses.unless_sent_back(status, said)


def _overall(item: _Item, events: tuple[Checkpoint, ...]) -> statuses.Status:
    last = newest(events)
    said = text(item.status) or (last.message if last else "")
    known = CATEGORIES.get((text(item.category) or "").lower())
    if known is None:
        if last is None and not said:
            raise UnreadableAnswer("neither events nor a status")
        return statuses.Status(last.tag, last.subtag) if last else statuses.status_from_words(said)
    known = _received(known, said)
    told = (Tag.EXCEPTION, Tag.ATTEMPT_FAIL) if known is statuses.PROBLEM else (known.tag,)
    return statuses.Status(last.tag, last.subtag) if last and last.tag in told else known
