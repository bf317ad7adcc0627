"""bpost's TrackingInfo, for customers of its parcel service: one parcel, in XML.

States are listed oldest first. bpost publishes no list of their codes: few are known, all others
are read by their words. An unknown parcel is an answer without states, an exception that says so,
or a 404 that is one line of text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from couriers.http.credentials import basic_auth, credentials
from couriers.http.refusals import TELLING, refuse, unexpected
from couriers.reading import numbers, statuses
from couriers.reading.answer import Element, grams, read_xml
from couriers.reading.checkpoints import Place, Scan, history, read_iso, scan, tracking_of
from tracking.checkpoint import NOT_FOUND_YET, Tracking
from tracking.errors import CourierDown, RequestRefused, UnreadableAnswer, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "bpost"
BASE_URL = "https://api.parcel.bpost.cloud"
CREDENTIALS: tuple[str, ...] = ("account_id", "passphrase")
CREDENTIALS_FROM = "bpost's Shipping Manager: the account ID and passphrase of its web services"
PATTERNS: tuple[numbers.NumberForm, ...] = (numbers.form(r"3232\d{20}"), numbers.s10("BE"))
VERIFIED = (
    "bpost's XML schema; of its state codes only those of a delivery are known, as users of the "
    "service tell, and two more of a recorded answer; never run against the live site"
)

CODES: dict[str, statuses.Status] = {f"U0{number}": statuses.DELIVERED for number in range(9)} | {
    "T00": statuses.IN_TRANSIT,
    "L00": statuses.OUT_FOR_DELIVERY,
}
"""`stateCode`, as far as it is known; else the words tell."""

SENTENCES: dict[str, statuses.Status] = {
    "confirmation of preparation of the shipment received": statuses.INFO_RECEIVED,
    "item is announced / landmark global (bpost) received the information": statuses.INFO_RECEIVED,
    "landmark global (bpost) has received the item": statuses.ACCEPTED,
    "your item has been sorted": statuses.IN_TRANSIT,
    "departure to country of destination": statuses.DEPARTED,
    "arrival at international depot": statuses.ARRIVED,
    "the postman's delivery round for your item has started": statuses.OUT_FOR_DELIVERY,
    "item available at pick-up point": statuses.FOR_PICKUP,
}
"""`stateDescription`, as its users read it in English; none of them is a delivery."""

_UNKNOWN = re.compile(
    r"not (?:be )?found|does not exist|(?:unknown|no such) (?:item|parcel|barcode)|no item found",
    re.IGNORECASE,
)
_NO_ITEM = re.compile(rb"\s*no item found\b", re.IGNORECASE)
"""How the text of a 404 begins; a page of a gateway that says "not found" is no such answer."""


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number."""
    account, passphrase = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    number = numbers.alphanumeric(request.number)
    answer = await fetch.get(
        ["services", "trackedmail", "item", number, "trackingInfo"],
        headers={"Authorization": basic_auth(account, passphrase)},
    )
    return fetch.read(answer, parse, number)


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the parcel, or the exception that stands in its place."""
    refuse(status, headers, body, TELLING)
    if status == HTTPStatus.NOT_FOUND and _NO_ITEM.match(body):
        return NOT_FOUND_YET
    root = read_xml(body)
    if broken := root.first("systemException"):
        raise CourierDown(broken.text("message") or "a system exception without a reason")
    if refused := root.first("businessException"):
        return _judge(status, refused)
    parcel = root.first("itemTracking")
    if parcel is None:
        raise unexpected(status, "neither a parcel nor an exception")
    if parcel.text("itemCode") not in (number, None):
        raise WrongNumber(f"asked for {number}, answered about another parcel")
    listed = list(parcel.each("stateInfo"))
    return _tracking(parcel, listed) if listed else NOT_FOUND_YET


def _judge(status: int, exception: Element) -> Tracking:
    said = exception.text("message") or "no reason given"
    if _UNKNOWN.search(said):
        return NOT_FOUND_YET
    told = f"{exception.text('code')}: {said}"
    if status == HTTPStatus.BAD_REQUEST:
        raise RequestRefused(told)
    raise UnreadableAnswer(f"an exception without a known meaning: {told}")


def _tracking(parcel: Element, listed: list[Element]) -> Tracking:
    past = history(map(_scan, listed), newest_first=False)
    window, item = parcel.first("deliveryTimeWindow"), parcel.first("itemDetail")
    return tracking_of(past)._replace(
        expected_delivery=window.text("plannedDeliveryDateWindowEnd") if window else None,
        origin=parcel.text("cityOrCountryOfdeparture"),
        destination=parcel.text("cityOrCountryOfDestination"),
        weight_grams=grams(item.text("weightInGrams"), "g") if item else None,
        reference=parcel.text("customerReference"),
        unknown_codes=statuses.unknown_codes((each.text("stateCode") for each in listed), CODES),
    )


def _scan(state: Element) -> Scan:
    code, said = state.text("stateCode"), state.text("stateDescription") or ""
    where = Place(location=state.text("location"))
    return scan(read_iso(state.text("time") or ""), said, _known(code, said), code, where)


def _known(code: str | None, said: str) -> statuses.Status | None:
    known = CODES.get(code or "")
    if known:
        return statuses.unless_denied(known, said)
    return SENTENCES.get(statuses.whole(said)) or statuses.recognise(said)
