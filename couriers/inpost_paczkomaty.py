"""InPost's ShipX in Poland: its Tracking resource, which asks for no credentials.

An event says no more than its status, so that is its message too. "Returned to sender" is what
InPost says when the way back begins; no status says that it has ended. A parcel that was delivered
may get a complaint or a confirmation of receipt: they decide nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from couriers.http.refusals import TELLING, refuse, unexpected
from couriers.reading import numbers, statuses
from couriers.reading.answer import decode, inside, text
from couriers.reading.checkpoints import Place, Scan, history, read_iso, scan, tracking_of
from tracking.checkpoint import NOT_FOUND_YET, Tracking
from tracking.errors import RequestRefused, UnreadableAnswer, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "InPost Paczkomaty"
BASE_URL = "https://api-shipx-pl.easypack24.net"
CREDENTIALS: tuple[str, ...] = ()
CREDENTIALS_FROM = "none needed"
PATTERNS: tuple[numbers.NumberForm, ...] = (numbers.form(r"\d{24}"),)
VERIFIED = (
    "InPost's description of the resource and the texts of its statuses; never run against the "
    "live site"
)

CODES: dict[str, statuses.Status] = statuses.by_code(
    {
        statuses.INFO_RECEIVED: "created offers_prepared offer_selected confirmed",
        statuses.ACCEPTED: (
            "dispatched_by_sender dispatched_by_sender_to_pok collected_from_sender "
            "taken_by_courier taken_by_courier_from_pok"
        ),
        statuses.ARRIVED: (
            "adopted_at_source_branch adopted_at_sorting_center adopted_at_target_branch"
        ),
        statuses.DEPARTED: "sent_from_source_branch sent_from_sorting_center",
        # From a place where it was kept meanwhile, on to the locker that was chosen.
        statuses.IN_TRANSIT: (
            "stack_parcel_pickup_time_expired stack_parcel_in_box_machine_pickup_time_expired "
            "unstack_from_customer_service_point unstack_from_box_machine"
        ),
        statuses.FORWARDED: "redirect_to_box readdressed",
        statuses.OUT_FOR_DELIVERY: "out_for_delivery out_for_delivery_to_address",
        statuses.FOR_PICKUP: (
            "ready_to_pickup ready_to_pickup_from_pok ready_to_pickup_from_pok_registered "
            "ready_to_pickup_from_branch pickup_reminder_sent stack_in_customer_service_point "
            "stack_in_box_machine courier_avizo_in_customer_service_point"
        ),
        statuses.DELIVERED: "delivered",
        statuses.NOBODY_THERE: "pickup_reminder_sent_address",
        statuses.ATTEMPTED: "undelivered_cod_cash_receiver undelivered_no_mailbox",
        statuses.PICKUP_MISSED: "pickup_time_expired",
        statuses.REFUSED: "rejected_by_receiver",
        statuses.WRONG_ADDRESS: (
            "undelivered_wrong_address undelivered_incomplete_address undelivered_unknown_receiver "
            "undelivered_not_live_address"
        ),
        statuses.PROBLEM: "canceled oversized delay_in_delivery undelivered",
        statuses.RETURNING: (
            "returned_to_sender avizo undelivered_lack_of_access_letterbox "
            "taken_by_courier_from_customer_service_point"
        ),
    }
)
"""`status`: the list that `GET /v1/statuses` gives, by the texts that InPost has for each."""

SILENT = frozenset(
    {"claimed", "return_pickup_confirmation_to_sender", "canceled_redirect_to_box", "other"}
)
"""Statuses that say nothing of where a parcel is."""

NOT_YET = "resource_not_found"


class _Event(Struct):
    status: str | None = None
    datetime: str | None = None
    agency: str | None = None


class _Attributes(Struct, rename={"target": "target_machine_id"}):
    target: str | None = None


class _Reply(Struct):
    number: str | None = field(name="tracking_number", default=None)
    status: str | int | None = None
    attributes: _Attributes | None = field(name="custom_attributes", default=None)
    events: list[_Event] | None = field(name="tracking_details", default=None)
    service: Any = None
    error: str | None = None
    said: str | None = field(name="message", default=None)


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number, of a locker's parcel or a courier's."""
    number = numbers.alphanumeric(request.number)
    return fetch.read(await fetch.get(["v1", "tracking", number]), parse, number)


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the parcel, or the error that stands in its place."""
    refuse(status, headers, body, TELLING)
    reply = decode(body, _Reply)
    if status == HTTPStatus.OK and reply.number:
        return _tracking(reply, number)
    if status == HTTPStatus.NOT_FOUND and reply.error == NOT_YET:
        return NOT_FOUND_YET
    said = f"{text(reply.error) or 'no error named'} ({text(reply.said) or 'no reason given'})"
    if status == HTTPStatus.BAD_REQUEST and reply.error:
        raise RequestRefused(said)
    raise unexpected(status, said)


def _tracking(reply: _Reply, number: str) -> Tracking:
    if text(reply.number) != number:
        raise WrongNumber(f"asked for {number}, answered about another parcel")
    listed = reply.events or []
    past = history(map(_scan, listed), newest_first=True)
    # The status is that of the newest event; a new parcel has one before it has any event.
    status = past.status or CODES.get(text(reply.status) or "")
    if status is None and not listed:
        raise UnreadableAnswer("a parcel with neither a known status nor an event")
    answer = tracking_of(past, status)
    return answer._replace(
        destination=text(reply.attributes.target) if reply.attributes else None,
        service=inside(reply.service),
        unknown_codes=statuses.unknown_codes((event.status for event in listed), CODES, SILENT),
    )


def _scan(event: _Event) -> Scan:
    code = text(event.status) or ""
    known = None if code in SILENT else CODES.get(code, statuses.IN_TRANSIT)
    message = code.replace("_", " ")
    place = Place(location=event.agency)
    return scan(read_iso(event.datetime or ""), message, known, code, place)
