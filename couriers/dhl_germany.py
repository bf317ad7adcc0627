"""DHL Parcel DE Tracking: what business customers of DHL Paket see of their parcels.

The question is XML inside the query, with the name and password of the business portal in it; the
answer is XML that says everything in attributes of elements called "data", and its failures in a
200. A parcel that was destroyed has the standard event code of a delivery, and one that comes back
to its sender the very events of a delivery: only `ruecksendung` tells. Times are local, to the
minute, and begin with the day.

DHL's table of ICE events and RIC reasons, July 2024, says what codes mean. The standard event code
that DHL puts beside them is too coarse to be trusted alone: it calls a parcel that was
destroyed "ZU", which means "delivery successful".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING

from couriers.http.credentials import basic_auth, credentials
from couriers.http.refusals import refuse, unexpected
from couriers.reading import numbers, statuses
from couriers.reading.answer import Element, grams, read_xml
from couriers.reading.checkpoints import (
    Place,
    Scan,
    history,
    latest,
    read_day_first,
    scan,
    tracking_of,
)
from couriers.reading.countries import country
from tracking.checkpoint import NOT_FOUND_YET, Tag, Tracking
from tracking.errors import AuthFailed, InvalidNumber, RequestRefused, UnreadableAnswer, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "DHL Paket"
BASE_URL = "https://api-eu.dhl.com"
CREDENTIALS: tuple[str, ...] = ("api_key", "api_secret", "username", "password")
CREDENTIALS_FROM = (
    "developer.dhl.com: an app with Parcel DE Tracking (key and secret); DHL's business customer "
    "portal: a user with the right to track (username and password)"
)
PATTERNS: tuple[numbers.NumberForm, ...] = (
    numbers.form(r"(?:00)?34\d{16}", numbers.gs1),
    numbers.s10("DE"),
    numbers.form(r"\d{12}", numbers.weights_4_and_9),
    numbers.form(r"JJ?D0003\d{12,16}", loose=True),
    numbers.form(r"JJ?D\d{16,20}", loose=True),
)
VERIFIED = (
    "DHL's table of events and reasons, its sandbox requests and a sandbox answer; all but one of "
    "its error codes as users tell them; never run against the live site"
)

EVENTS: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "PARCV PURCR",
        statuses.PROBLEM: (
            "NTPUP CANCL ALERT CHECK CNFSC DSPSD DTNPC EXPHD LDEXC MSRTD MVDEX MVTEX NTADT PBNDT "
            "RCCLS"
        ),
        statuses.ACCEPTED: "PCKDU SHRCU",
        # STORN: the driver deleted the event before; whatever that was, it did not happen.
        statuses.IN_TRANSIT: "ASMVT LDTHU LDTMV SRTED SECHK RELBL REPCK STORN",
        statuses.DEPARTED: "MVDPT",
        statuses.ARRIVED: "MVARR ULFMV INFCL",
        statuses.FORWARDED: "FWDCF HNDDE OFWRD ROUCR TRBCR",
        statuses.CUSTOMS_BEGUN: "HNDND ICPRC ITBAR HLDCP",
        statuses.CUSTOMS_DELAY: "HLDCU",
        statuses.CUSTOMS_DONE: "RSDCP",
        statuses.FOR_PICKUP: "CNRFC HLDCC",
        statuses.DELIVERED: "DLVRD",
        statuses.REFUSED: "DLVRF",
        statuses.ATTEMPTED: "NTDEL",
        statuses.DAMAGED: "DMGDS",
        statuses.RETURNING: "RETRN",
    }
)
"""`ice`: what happened."""

REASONS: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.COLLECTED: "DLVRD-ACCPK DLVRD-SERPT",
        statuses.AT_NEIGHBOUR: "DLVRD-NGHBR",
        # Handed to customs "for inspection and delivery": the addressee does not have it.
        statuses.CUSTOMS_BEGUN: "DLVRD-CUSTM",
        # Likewise: handed to another carrier.
        statuses.FORWARDED: "DLVRD-HNDTC",
        statuses.DAMAGED: "DLVRF-DMGED EXPHD-DMPHD REPCK-DMGPC",
        statuses.PAYMENT_DUE: "DLVRF-TRPMT",
        statuses.IN_TRANSIT: "DMGDS-LDMGD",
        statuses.PICKUP_MISSED: "HLDCC-NTCCN NTDEL-NTCCN",
        statuses.NOBODY_THERE: "NTDEL-NHOME NTDEL-CNCNR",
        statuses.BUSINESS_CLOSED: "NTDEL-CLOSD",
        statuses.WRONG_ADDRESS: "NTDEL-CPUNK",
        statuses.REFUSED: "NTDEL-RFUSD",
        statuses.RETURNING: "OFWRD-RTSCR OFWRD-RTSSA EXPHD-RTTSP",
        statuses.LOST: "EXPHD-LOSTX RCCLS-LOSTX",
        statuses.CUSTOMS_DELAY: "EXPHD-CLREF EXPHD-PWMFD",
    }
)
"""`ice` with the `ric` that changes its meaning, as "DLVRD-ACCPK"."""

WHY: dict[str, statuses.Status] = {
    "BDADD": statuses.WRONG_ADDRESS,
    "WRGRI": statuses.WRONG_ADDRESS,
    "MOVED": statuses.MOVED,
    "DMGED": statuses.DAMAGED,
    "DMGPC": statuses.DAMAGED,
    "FRMJR": statuses.OUTSIDE_CAUSE,
    "TRPMT": statuses.PAYMENT_DUE,
}
"""`ric` that says why, of an event in EXPLAINED."""

EXPLAINED = frozenset({"ALERT", "EXPHD", "LDEXC", "MVDEX", "MVTEX", "NTDEL", "PURCR"})

STANDARD: dict[str, statuses.Status] = {
    "VA": statuses.INFO_RECEIVED,
    "AN": statuses.PROBLEM,
    "AE": statuses.ACCEPTED,
    "ES": statuses.ACCEPTED,
    "AA": statuses.DEPARTED,
    "EE": statuses.ARRIVED,
    "LA": statuses.ARRIVED,
    "NB": statuses.IN_TRANSIT,
    "PO": statuses.OUT_FOR_DELIVERY,
    "ZO": statuses.CUSTOMS_BEGUN,
    "ZF": statuses.FOR_PICKUP,
    "ZN": statuses.ATTEMPTED,
    "BV": statuses.PROBLEM,
    "ZU": statuses.DELIVERED,
}
"""`standard-event-code`, for an event that has no `ice`."""

LOADED = frozenset({"LDTMV", "SRTED"})
"""`ice` of what happens on all stretches of the way: the standard code says on which."""

STRETCHES = frozenset({"AA", "AE", "EE", "ES", "PO"})

SILENT = frozenset({"ADVIS", "PMTCR", "PMTCS"})
SILENT_STANDARD = frozenset({"DD", "GT"})
SILENT_REASONS = frozenset(
    {"ALERT-DLVTM", "DLVRD-CODAR", "DLVRD-CODRP", "PURCR-REJCT", "PURCR-SECPL"}
)
"""Wishes and notices, and the way of the money of a parcel that was paid on delivery."""

NOT_YET = frozenset({"100", "200"})
INVALID = frozenset({"41"})
MALFORMED = frozenset({"45"})
REFUSED = frozenset({"5", "6", "62"})
"""`code` of the whole answer, "0" if all is well; but for 100, as users of the service tell."""


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number; a postal code makes the courier tell more."""
    key, secret, user, password = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    number = numbers.alphanumeric(request.number)
    asked = {
        "appname": user,
        "password": password,
        "request": "d-get-piece-detail",
        "language-code": "en",
        "piece-code": number,
    }
    if code := request.fields.get("tracking_postal_code"):
        asked["zip-code"] = code
    attributes = " ".join(f'{name}="{escape(value)}"' for name, value in asked.items())
    answer = await fetch.get(
        ["parcel", "de", "tracking", "v0", "shipments"],
        query={
            "xml": f'<?xml version="1.0" encoding="UTF-8" standalone="no"?><data {attributes}/>'
        },
        headers={"Authorization": basic_auth(key, secret)},
    )
    return fetch.read(answer, parse, number)


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the parcel that is ours, or the code that stands for it."""
    refuse(status, headers, body)
    root = read_xml(body)
    _judge(root.attribute("code"), root.attribute("error"))
    parcels = list(_called(root, "piece-shipment"))
    ours = [each for each in parcels if _is(each, number)]
    if parcels and not ours:
        raise WrongNumber(f"asked for {number}, answered about {len(parcels)} other parcels")
    told = [each for each in ours if not _failed(each)]
    if told:
        return latest(_tracking(each, _events(root, each)) for each in told)
    if root.attribute("code") in NOT_YET or ours:
        return NOT_FOUND_YET
    raise unexpected(status, "neither a parcel nor a known code")


def _judge(code: str | None, said: str | None) -> None:
    """Raise what a code means; return for "all is well" and for "nothing known"."""
    said = said or f"code {code}"
    if code in REFUSED:
        raise AuthFailed(said)
    if code in INVALID:
        raise InvalidNumber(said)
    if code in MALFORMED:
        raise RequestRefused(said)
    if code and code != "0" and code not in NOT_YET:
        raise UnreadableAnswer(f"an error without a known meaning: {code[:40]}: {said}")


def _failed(parcel: Element) -> bool:
    """Whether nothing is known of this parcel; raises what else its own code means."""
    code = parcel.attribute("error-status")
    _judge(code, None)
    return code in NOT_YET


def _called(within: Element, name: str) -> Iterator[Element]:
    """Find all elements that call themselves so; hyphens come and go."""
    plain = name.replace("-", "")
    for each in within.each("data"):
        if (each.attribute("name") or "").replace("-", "") == plain:
            yield each


def _is(parcel: Element, number: str) -> bool:
    """Compare as the courier does: a number may lose the zeros before it."""
    names = ("piece-code", "searched-piece-code", "piece-identifier", "upu")
    told = {name.upper().lstrip("0") for each in names if (name := parcel.attribute(each))}
    return not told or number.lstrip("0") in told


def _events(root: Element, parcel: Element) -> list[Element]:
    """List a parcel's events: inside of it, or in a list of the same piece beside it.

    Where there are none, the parcel itself is the one: it has the attributes of its newest event.
    """
    beside = (
        each
        for each in _called(root, "piece-event-list")
        if each.attribute("piece-id") == parcel.attribute("piece-id")
    )
    listed = next((found for each in (parcel, *beside) if (found := _dated(each))), [])
    if not listed and not parcel.attribute("status-timestamp"):
        raise UnreadableAnswer("a parcel with neither an event nor a status")
    return listed or [parcel]


def _dated(within: Element) -> list[Element]:
    return [each for each in _called(within, "piece-event") if each.attribute("event-timestamp")]


def _tracking(parcel: Element, listed: list[Element]) -> Tracking:
    goes_back = _is_return(parcel)
    past = history((_scan(each, goes_back=goes_back) for each in listed), newest_first=False)
    answer = tracking_of(past)
    return answer._replace(
        expected_delivery=parcel.attribute("delivery-date"),
        signed_by=parcel.attribute("recipient-name") if answer.delivered_at else None,
        origin=_country(parcel.attribute("origin-country")),
        destination=_country(parcel.attribute("dest-country")),
        weight_grams=grams(parcel.attribute("shipment-weight")),
        service=parcel.attribute("product-name"),
        reference=(
            parcel.attribute("piece-customer-reference")
            or parcel.attribute("shipment-customer-reference")
        ),
        unknown_codes=statuses.unknown_codes(
            map(_code, listed), EVENTS, STANDARD, SILENT, SILENT_STANDARD
        ),
    )


def _scan(event: Element, *, goes_back: bool) -> Scan:
    at = event.attribute("event-timestamp") or event.attribute("status-timestamp") or ""
    place = Place(country(event.attribute("event-country")), city=event.attribute("event-location"))
    known = _direction(event, _known(event), goes_back=goes_back)
    return scan(read_day_first(at), _sentence(event), known, _code(event), place)


def _sentence(event: Element) -> str:
    names = ("event-status", "event-text", "event-short-status", "status", "short-status")
    return next((said for name in names if (said := event.attribute(name))), "")


def _code(event: Element) -> str | None:
    return event.attribute("ice") or event.attribute("standard-event-code")


def _known(event: Element) -> statuses.Status | None:
    """Read an event by what happened and why; its words correct to whom it was delivered."""
    what, why = event.attribute("ice") or "", event.attribute("ric") or ""
    coarse, said = event.attribute("standard-event-code") or "", _sentence(event)
    if what in SILENT or f"{what}-{why}" in SILENT_REASONS:
        return None
    if not what and coarse in SILENT_STANDARD:
        return None
    known = REASONS.get(f"{what}-{why}") or (WHY.get(why) if what in EXPLAINED else None)
    if known is None and what in LOADED and coarse in STRETCHES:
        known = STANDARD[coarse]
    known = known or (EVENTS.get(what) if what else STANDARD.get(coarse))
    return statuses.unless_denied(known, said) if known else statuses.recognise(said)


def _is_return(element: Element) -> bool:
    return element.attribute("ruecksendung") in ("true", "1")


def _direction(
    event: Element, known: statuses.Status | None, *, goes_back: bool
) -> statuses.Status | None:
    """Read an event of the way back as one; `goes_back` says that the parcel is on it by now."""
    if known is None or known.tag in (Tag.EXCEPTION, Tag.ATTEMPT_FAIL):
        return known
    arrived = known.tag is Tag.DELIVERED
    by_parcel = goes_back and (arrived or event.attribute("ruecksendung") is None)
    if by_parcel or _is_return(event):
        return statuses.RETURNED if arrived else statuses.RETURNING
    return known


def _country(code: str | None) -> str | None:
    where = country(code)
    return where.name if where else None
