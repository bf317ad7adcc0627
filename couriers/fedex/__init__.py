"""FedEx Track API v1.

A number that was used again has several results: the one with the newest scan counts. Errors stand
inside the results of a 200. `date` has an offset in most events, not in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from couriers.fedex.answer import (
    Address,
    Complete,
    Error,
    Event,
    Frame,
    Latest,
    Party,
    Receipt,
    Reply,
    Result,
)
from couriers.fedex.codes import CODES, DOWN, INVALID, REASONS, REFUSED, SILENT, UNKNOWN
from couriers.http.numbers import alphanumeric
from couriers.http.refusals import TELLING, refuse, unexpected
from couriers.http.settings import credentials
from couriers.http.tokens import Grant
from couriers.reading import statuses
from couriers.reading.answer import decode, place, text
from couriers.reading.check_digits import gs1, weights_1_3_7
from couriers.reading.checkpoints import (
    Place,
    Scan,
    history,
    newest,
    scan,
    unknown_codes,
    unless_returned,
)
from couriers.reading.countries import country
from couriers.reading.details import grams, inside
from couriers.reading.number_forms import NumberForm, form
from couriers.reading.status_phrases import recognise, unless_denied
from couriers.reading.statuses import Status
from couriers.reading.times import Moment, read_iso
from tracking.checkpoint import NOT_FOUND_YET, Checkpoint, Tag, Tracking
from tracking.errors import AuthFailed, CourierDown, InvalidNumber, RequestRefused, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "FedEx"
BASE_URL = "https://apis.fedex.com"
TOKEN_URL = "https://apis.fedex.com/oauth/token"  # noqa: S105 - an address, not a password
CREDENTIALS: tuple[str, ...] = ("client_id", "client_secret")
ASKS = "`POST /track/v1/trackingnumbers`"
AUTH = "OAuth client credentials, as a form"
CREDENTIALS_FROM = "developer.fedex.com: a project with the Track API"
REQUIRED_FIELDS: tuple[str, ...] = ()
PATTERNS: tuple[NumberForm, ...] = (
    form(r"\d{15}", gs1),
    # As usual as those, but one in ten of Purolator's 12 digits has this check digit too: behind
    # another form, such a number is Purolator's first of all.
    form(r"\d{12}", weights_1_3_7),
    form(r"(?!420)(?:[0-8]\d|96)\d{32}", lambda number: weights_1_3_7(number[-14:])),
    form(r"96\d{20}", lambda number: gs1(number[-15:])),
    form(r"92\d{20}", gs1),
    form(r"\d{20}", lambda number: gs1(f"92{number}")),
    form(r"0[0124]\d{16}", lambda number: gs1(number[2:])),
    form(r"3\d{31}", lambda number: weights_1_3_7(number[16:28])),
)
QUOTA = (
    "1,400 calls in 10 s per project, and a daily quota per organisation that ends at 00:00 "
    "GMT (documented)"
)
VERIFIED = "FedEx' API reference and answers described by users; never run against the live site"

_REFERENCES = ("SHIPPER_REFERENCE", "CUSTOMER_REFERENCE")


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number, although the service takes thirty: each request is one permit."""
    client, secret = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    number = alphanumeric(request.number)
    form = {"grant_type": "client_credentials", "client_id": client, "client_secret": secret}
    asked = {
        "includeDetailedScans": True,
        "trackingInfo": [{"trackingNumberInfo": {"trackingNumber": number}}],
    }
    grant = Grant(fetch.settings.token_url, form=form)
    answer = await fetch.post(["track", "v1", "trackingnumbers"], json=asked, grant=grant)
    return fetch.read(answer, parse, number)


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the result with the newest scan; errors only where there is no scan."""
    refuse(status, headers, body, TELLING)
    answer = decode(body, Reply)
    complete = (answer.output.complete if answer.output else None) or []
    results = [result for one in complete for result in _ours(one, number)]
    if any(one.results for one in complete) and not results:
        raise WrongNumber(f"asked for {number}, answered about {len(complete)} other numbers")
    told = [result for result in results if result.is_told]
    if told:
        return max((_tracking(result) for result in told), key=_newest_scan)
    errors = [result.error for result in results if result.error] + (answer.errors or [])
    return _judge(errors, status)


def _ours(complete: Complete, number: str) -> list[Result]:
    results = complete.results or []
    if complete.number in (number, None):
        return results
    return [result for result in results if result.info and result.info.number == number]


def _newest_scan(told: Tracking) -> str:
    return told.checkpoints[-1].checkpoint_time if told.checkpoints else ""


def _judge(errors: list[Error], status: int) -> Tracking:
    codes = [error.code or "" for error in errors]
    said = next((told for e in errors if (told := text(e.message))), "no reason given")
    if INVALID.intersection(codes):
        raise InvalidNumber(said)
    if any(code.endswith(UNKNOWN) for code in codes):
        return NOT_FOUND_YET
    if any(code.startswith(DOWN) for code in codes):
        raise CourierDown(said)
    if REFUSED.intersection(codes):
        raise AuthFailed(said)
    if errors:
        raise RequestRefused(f"{', '.join(codes)}: {said}")
    raise unexpected(status, "neither scans nor errors")


def _tracking(result: Result) -> Tracking:
    told = history(map(_scan, result.scans or ()), newest_first=True)
    events, last = told
    status = _latest(result.latest) or told.status or statuses.IN_TRANSIT
    status = unless_returned(status, last)
    if last and last.tag is status.tag:
        status = Status(last.tag, last.subtag)
    times = {time.kind: text(time.at) for time in result.times or ()}
    delivery = _delivery(events, times) if status.tag is Tag.DELIVERED else None
    receipt = result.receipt or Receipt()
    return Tracking(
        tag=status.tag,
        subtag=status.subtag,
        checkpoints=events,
        expected_delivery=times.get("ESTIMATED_DELIVERY") or _until(result.frame),
        delivered_at=delivery.local if delivery else None,
        delivered_at_utc=delivery.utc if delivery else None,
        signed_by=(text(receipt.signed) or text(receipt.received)) if delivery else None,
        origin=_city(result.shipper),
        destination=_city(result.recipient),
        weight_grams=_grams(result),
        service=inside(result.service, "description"),
        reference=_reference(result),
        unknown_codes=unknown_codes(map(_code, _coded(result)), CODES, SILENT),
    )


def _grams(result: Result) -> int | None:
    path = ("weightAndDimensions", "weight")
    return grams(inside(result.package, *path, "value"), inside(result.package, *path, "unit"))


def _reference(result: Result) -> str | None:
    """Find the sender's reference: an identifier has one value, or several."""
    listed = result.more.get("packageIdentifiers") if isinstance(result.more, dict) else None
    named = {inside(each, "type"): each for each in listed} if isinstance(listed, list) else {}
    ours = next((named[kind] for kind in _REFERENCES if kind in named), None)
    return inside(ours, "values") or inside(ours, "value")


def _coded(result: Result) -> list[Event | Latest]:
    return [*(result.scans or ()), *([result.latest] if result.latest else ())]


def _code(told: Event | Latest) -> str:
    """Read a code of either; some are written in small letters."""
    code = told.kind if isinstance(told, Event) else told.code
    return (text(code) or text(told.derived) or "").upper()


def _derived(told: Event | Latest) -> Status | None:
    return CODES.get((text(told.derived) or "").upper())


def _delivery(
    events: tuple[Checkpoint, ...], times: Mapping[str | None, str | None]
) -> Moment | None:
    """Tell when it was delivered: by its scan, else by the answer's list of times."""
    if last := newest(events, Tag.DELIVERED):
        return Moment(last.checkpoint_time, last.checkpoint_offset, last.checkpoint_utc)
    at = times.get("ACTUAL_DELIVERY")
    return read_iso(at) if at else None


def _until(frame: Frame | None) -> str | None:
    return text(frame.window.ends) if frame and frame.window else None


def _scan(event: Event) -> Scan:
    at = event.place or Address()
    where = country(text(at.code) or text(at.name))
    place = Place(where, at.city, at.state, at.postal_code)
    code = text(event.kind) or text(event.derived)
    return scan(read_iso(event.date or ""), _sentence(event), _known(event), code, place)


def _city(party: Party | None) -> str | None:
    at = (party and party.address) or Address()
    return place(at.city, at.state, at.code)


def _sentence(event: Event) -> str:
    return ": ".join(part for part in (text(event.what), text(event.why)) if part)


def _known(event: Event) -> Status | None:
    if _code(event) in SILENT:
        return None
    known = CODES.get(_code(event)) or _derived(event)
    if known is statuses.PROBLEM:
        return REASONS.get(event.reason or "") or recognise(text(event.why) or "") or known
    return unless_denied(known, _sentence(event)) if known else recognise(_sentence(event))


def _latest(latest: Latest | None) -> Status | None:
    if latest is None:
        return None
    known = CODES.get(_code(latest)) or _derived(latest)
    return unless_denied(known, text(latest.description) or "") if known else None
