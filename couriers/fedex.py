"""FedEx Track API v1.

A number that was used again has several results: the one with the newest scan counts. Errors stand
inside the results of a 200. `date` has an offset in most events, not in all.

Several numbers, thirty at most by FedEx' introduction to the API, are answered as the one is: by a
list (`completeTrackResults`) of results by number, errors among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from couriers.http.credentials import Grant, credentials
from couriers.http.refusals import TELLING, refuse, unexpected
from couriers.http.several import Cut, Ends, parser_of, track_each
from couriers.reading import numbers, statuses
from couriers.reading.answer import Answer, decode, grams, inside, place, text
from couriers.reading.checkpoints import (
    Moment,
    Place,
    Scan,
    history,
    latest,
    newest,
    read_iso,
    scan,
)
from couriers.reading.countries import country
from tracking.checkpoint import NOT_FOUND_YET, Checkpoint, Tag, Tracking
from tracking.errors import AuthFailed, CourierDown, InvalidNumber, RequestRefused, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "FedEx"
BASE_URL = "https://apis.fedex.com"
TOKEN_URL = "https://apis.fedex.com/oauth/token"  # noqa: S105 - an address, not a password
CREDENTIALS: tuple[str, ...] = ("client_id", "client_secret")
CREDENTIALS_FROM = "developer.fedex.com: a project with the Track API"
PATTERNS: tuple[numbers.NumberForm, ...] = (
    numbers.form(r"\d{15}", numbers.gs1),
    # As usual as those, but one in ten of Purolator's 12 digits has this check digit too: behind
    # another form, such a number is Purolator's first of all.
    numbers.form(r"\d{12}", numbers.weights_1_3_7),
    numbers.form(
        r"(?!420)(?:[0-8]\d|96)\d{32}", lambda number: numbers.weights_1_3_7(number[-14:])
    ),
    numbers.form(r"96\d{20}", lambda number: numbers.gs1(number[-15:])),
    numbers.form(r"92\d{20}", numbers.gs1),
    numbers.form(r"\d{20}", lambda number: numbers.gs1(f"92{number}")),
    numbers.form(r"0[0124]\d{16}", lambda number: numbers.gs1(number[2:])),
    numbers.form(r"3\d{31}", lambda number: numbers.weights_1_3_7(number[16:28])),
)
VERIFIED = "FedEx' API reference and answers described by users; never run against the live site"

CODES: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "OC OX IN MD EP",
        statuses.ACCEPTED: "PU PX AP OF",
        statuses.IN_TRANSIT: "IT IX AE AO EA ED EO OW PF PM RL SP",
        statuses.ARRIVED: "AA AC AF AR AX FD PL SF",
        statuses.DEPARTED: "DP LO TR",
        statuses.CUSTOMS_BEGUN: "CP",
        statuses.CUSTOMS_DONE: "CC",
        statuses.CUSTOMS_DELAY: "CD",
        statuses.OUT_FOR_DELIVERY: "OD AD",
        statuses.FOR_PICKUP: "HL HP",
        statuses.DELIVERED: "DL",
        statuses.PROBLEM: "DE SE CA",
        statuses.OUTSIDE_CAUSE: "DY DD PD PY",
        statuses.RETURNING: "RS RT",
    }
)
"""`eventType`, `latestStatusDetail.code` and `.derivedCode`: the API reference's status codes."""

REASONS: dict[str, statuses.Status] = {
    "03": statuses.WRONG_ADDRESS,
    "07": statuses.REFUSED,
    "08": statuses.NOBODY_THERE,
}
"""`exceptionCode`, which tells why an event DE or SE came about; else its words do."""

SILENT = frozenset({"CH", "DR", "DS", "HA", "LP", "RC", "RD", "RG", "RM", "RP", "RR"})
"""Codes of the same list that say nothing of where a parcel is: wishes of the addressee, labels for
a return that may come, vehicles on their way to the sender."""

UNKNOWN = "NOTFOUND"
"""How the codes of all errors end that mean "not known (yet)"."""

INVALID = frozenset({"TRACKING.TRACKINGNUMBER.INVALID"})
DOWN = ("SYSTEM.", "INTERNAL.", "SERVICE.UNAVAILABLE")
"""How the codes of outages begin, which also come inside a 200."""
REFUSED = frozenset({"NOT.AUTHORIZED.ERROR", "FORBIDDEN.ERROR", "LOGIN.REAUTHENTICATE.ERROR"})

_REFERENCES = ("SHIPPER_REFERENCE", "CUSTOMER_REFERENCE")


class _Address(Struct):
    city: str | None = None
    state: str | None = field(name="stateOrProvinceCode", default=None)
    postal_code: str | None = field(name="postalCode", default=None)
    code: str | None = field(name="countryCode", default=None)
    name: str | None = field(name="countryName", default=None)


class _Event(Struct):
    """One event; `reason` and `why` tell how an exception came about."""

    date: str | None = None
    kind: str | None = field(name="eventType", default=None)
    derived: str | None = field(name="derivedStatusCode", default=None)
    what: str | None = field(name="eventDescription", default=None)
    reason: str | None = field(name="exceptionCode", default=None)
    why: str | None = field(name="exceptionDescription", default=None)
    place: _Address | None = field(name="scanLocation", default=None)


class _Latest(Struct, rename={"derived": "derivedCode"}):
    code: str | None = None
    derived: str | None = None
    description: str | None = None


class _Time(Struct, rename={"kind": "type", "at": "dateTime"}):
    """One of several times, told apart by its kind (ESTIMATED_DELIVERY, …)."""

    kind: str | None = None
    at: str | None = None


class _Window(Struct):
    """A span of time that FedEx names; only its end is read."""

    ends: str | None = None


class _Frame(Struct):
    window: _Window | None = None


class _Receipt(Struct, rename={"signed": "signedByName", "received": "receivedByName"}):
    signed: str | None = None
    received: str | None = None


class _Party(Struct):
    address: _Address | None = None


class _Error(Struct):
    """Why there is no result; also inside a 200."""

    code: str | None = None
    message: str | None = None


class _NumberInfo(Struct, rename={"number": "trackingNumber"}):
    number: str | None = None


class _Result(Struct):
    """One parcel; a number that was used again has several."""

    info: _NumberInfo | None = field(name="trackingNumberInfo", default=None)
    latest: _Latest | None = field(name="latestStatusDetail", default=None)
    scans: list[_Event] | None = field(name="scanEvents", default=None)
    times: list[_Time] | None = field(name="dateAndTimes", default=None)
    frame: _Frame | None = field(name="estimatedDeliveryTimeWindow", default=None)
    receipt: _Receipt | None = field(name="deliveryDetails", default=None)
    shipper: _Party | None = field(name="shipperInformation", default=None)
    recipient: _Party | None = field(name="recipientInformation", default=None)
    package: Any = field(name="packageDetails", default=None)
    service: Any = field(name="serviceDetail", default=None)
    more: Any = field(name="additionalTrackingInfo", default=None)
    error: _Error | None = None

    @property
    def is_told(self) -> bool:
        """False where neither a scan nor a status says anything of the parcel."""
        now = self.latest
        told = now is not None and bool(now.code or now.derived or now.description)
        return bool(self.scans) or (told and self.error is None)


class _Complete(Struct, rename={"number": "trackingNumber", "results": "trackResults"}):
    number: str | None = None
    results: list[_Result] | None = None


class _Named(Struct, rename={"number": "trackingNumberInfo"}):
    number: _NumberInfo | None = None


class _CompleteNamed(Struct, rename={"number": "trackingNumber", "results": "trackResults"}):
    """The numbers in the results of one number, and nothing else."""

    number: str | None = None
    results: list[_Named] | None = None


class _Output(Struct, rename={"complete": "completeTrackResults"}):
    complete: list[_Complete] | None = None


class _Reply(Struct):
    output: _Output | None = None
    errors: list[_Error] | None = None


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number."""
    return fetch.read(await _ask(fetch, [request.number]), parse, request.number)


async def track_many(fetch: Fetch, requests: Sequence[TrackingRequest]) -> Ends:
    """Ask for several numbers."""
    return await track_each(fetch, requests, _ask, parse_many)


async def _ask(fetch: Fetch, wanted: Sequence[str]) -> Answer:
    client, secret = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    form = {"grant_type": "client_credentials", "client_id": client, "client_secret": secret}
    asked = {
        "includeDetailedScans": True,
        "trackingInfo": [
            {"trackingNumberInfo": {"trackingNumber": numbers.alphanumeric(each)}}
            for each in wanted
        ],
    }
    grant = Grant(fetch.settings.token_url, form=form)
    return await fetch.post(["track", "v1", "trackingnumbers"], json=asked, grant=grant)


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the result with the newest scan; errors only where there is no scan."""
    refuse(status, headers, body, TELLING)
    answer = decode(body, _Reply)
    complete = (answer.output.complete if answer.output else None) or []
    results = [result for one in complete for result in _ours(one, number)]
    if any(one.results for one in complete) and not results:
        raise WrongNumber(f"asked for {number}, answered about {len(complete)} other numbers")
    told = [result for result in results if result.is_told]
    if told:
        return latest(map(_tracking, told))
    errors = [result.error for result in results if result.error] + (answer.errors or [])
    return _judge(errors, status)


def _numbers(piece: bytes) -> list[str | None]:
    """Name whom results are about: by their own number, and by those inside that have another."""
    named = decode(piece, _CompleteNamed)
    inside = [result.number for result in named.results or () if result.number]
    return [named.number, *(info.number for info in inside)]


parse_many = parser_of(parse, Cut(("output", "completeTrackResults"), _numbers), TELLING)


def _ours(complete: _Complete, number: str) -> list[_Result]:
    results = complete.results or []
    if complete.number in (number, None):
        return results
    return [result for result in results if result.info and result.info.number == number]


def _judge(errors: list[_Error], status: int) -> Tracking:
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


def _tracking(result: _Result) -> Tracking:
    told = history(map(_scan, result.scans or ()), newest_first=True)
    events, last = told
    status = _latest(result.latest) or told.status or statuses.IN_TRANSIT
    status = statuses.unless_returned(status, last)
    if last and last.tag is status.tag:
        status = statuses.Status(last.tag, last.subtag)
    named = {time.kind: text(time.at) for time in result.times or ()}
    delivery = _delivery(events, named) if status.tag is Tag.DELIVERED else None
    receipt = result.receipt or _Receipt()
    return Tracking(
        tag=status.tag,
        subtag=status.subtag,
        checkpoints=events,
        expected_delivery=named.get("ESTIMATED_DELIVERY") or _until(result.frame),
        delivered_at=delivery.local if delivery else None,
        delivered_at_utc=delivery.utc if delivery else None,
        signed_by=(text(receipt.signed) or text(receipt.received)) if delivery else None,
        origin=_city(result.shipper),
        destination=_city(result.recipient),
        weight_grams=_grams(result),
        service=inside(result.service, "description"),
        reference=_reference(result),
        unknown_codes=statuses.unknown_codes(map(_code, _coded(result)), CODES, SILENT),
    )


def _grams(result: _Result) -> int | None:
    path = ("weightAndDimensions", "weight")
    return grams(inside(result.package, *path, "value"), inside(result.package, *path, "unit"))


def _reference(result: _Result) -> str | None:
    """Find the sender's reference: an identifier has one value, or several."""
    listed = result.more.get("packageIdentifiers") if isinstance(result.more, dict) else None
    named = {inside(each, "type"): each for each in listed} if isinstance(listed, list) else {}
    ours = next((named[kind] for kind in _REFERENCES if kind in named), None)
    return inside(ours, "values") or inside(ours, "value")


def _coded(result: _Result) -> list[_Event | _Latest]:
    return [*(result.scans or ()), *([result.latest] if result.latest else ())]


def _code(told: _Event | _Latest) -> str:
    """Read a code of either; some are written in small letters."""
    code = told.kind if isinstance(told, _Event) else told.code
    return (text(code) or text(told.derived) or "").upper()


def _derived(told: _Event | _Latest) -> statuses.Status | None:
    return CODES.get((text(told.derived) or "").upper())


def _delivery(
    events: tuple[Checkpoint, ...], named: Mapping[str | None, str | None]
) -> Moment | None:
    """Tell when it was delivered: by its scan, else by the answer's list of times."""
    if last := newest(events, Tag.DELIVERED):
        return Moment(last.checkpoint_time, last.checkpoint_offset, last.checkpoint_utc)
    at = named.get("ACTUAL_DELIVERY")
    return read_iso(at) if at else None


def _until(frame: _Frame | None) -> str | None:
    return text(frame.window.ends) if frame and frame.window else None


def _scan(event: _Event) -> Scan:
    at = event.place or _Address()
    where = country(text(at.code) or text(at.name))
    place = Place(where, at.city, at.state, at.postal_code)
    code = text(event.kind) or text(event.derived)
    return scan(read_iso(event.date or ""), _sentence(event), _known(event), code, place)


def _city(party: _Party | None) -> str | None:
    at = (party and party.address) or _Address()
    return place(at.city, at.state, at.code)


def _sentence(event: _Event) -> str:
    return ": ".join(part for part in (text(event.what), text(event.why)) if part)


def _known(event: _Event) -> statuses.Status | None:
    if _code(event) in SILENT:
        return None
    known = CODES.get(_code(event)) or _derived(event)
    if known is statuses.PROBLEM:
        return REASONS.get(event.reason or "") or statuses.recognise(text(event.why) or "") or known
    said = _sentence(event)
    return statuses.unless_denied(known, said) if known else statuses.recognise(said)


def _latest(latest: _Latest | None) -> statuses.Status | None:
    if latest is None:
        return None
    known = CODES.get(_code(latest)) or _derived(latest)
    return statuses.unless_denied(known, text(latest.description) or "") if known else None
