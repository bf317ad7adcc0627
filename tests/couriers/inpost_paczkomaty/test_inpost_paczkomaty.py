"""InPost's Tracking in ShipX. The answers are written after its description."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import inpost_paczkomaty
from couriers.inpost_paczkomaty import CODES, SILENT
from tracking.checkpoint import Tag, Tracking
from tracking.errors import (
    AuthFailed,
    CourierDown,
    CourierError,
    InvalidNumber,
    RateLimited,
    RequestRefused,
    UnreadableAnswer,
    WrongNumber,
)
from tracking.request import Number, Slug, TrackingRequest

NUMBER = "600000000000000000000018"

Json = dict[str, object]


def event(at: str, status: str, agency: str | None = None) -> Json:
    return {
        "status": status,
        "origin_status": "X",
        "agency": agency,
        "datetime": f"{at}.000+01:00",
    }


CONFIRMED = event("2026-01-19T10:00:00", "confirmed")
POSTED = event("2026-01-19T17:45:00", "dispatched_by_sender", "Oddział Kraków")
SORTED = event("2026-01-20T01:30:00", "adopted_at_sorting_center", "Sortownia")
LOADED = event("2026-01-20T08:15:00", "out_for_delivery")
WAITING = event("2026-01-20T10:00:00", "ready_to_pickup")
DELIVERED = event("2026-01-20T18:05:00", "delivered")


def reply(*events: Json, number: str = NUMBER, status: str = "", **more: object) -> Json:
    return {
        "tracking_number": number,
        "type": "inpost_locker_standard",
        "service": "inpost_locker_standard",
        "custom_attributes": {"size": "A", "target_machine_id": "KRA01M"},
        "status": status or (events[0]["status"] if events else None),
        "tracking_details": list(events),
        "expected_flow": [],
        **more,
    }


def refusal(status: int, error: str) -> Json:
    return {"status": status, "error": error, "message": "no", "details": {}}


def parse(body: object, status: int = 200) -> Tracking:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return inpost_paczkomaty.parse(status, {}, data, NUMBER)


def test_a_delivered_parcel() -> None:
    told = parse(reply(DELIVERED, WAITING, LOADED, SORTED, POSTED, CONFIRMED))

    assert (told.tag, told.subtag) == (Tag.DELIVERED, "Delivered_001")
    assert told.delivered_at == "2026-01-20T18:05:00"
    assert told.delivered_at_utc == datetime(2026, 1, 20, 17, 5, tzinfo=UTC)
    assert (told.destination, told.unknown_codes) == ("KRA01M", ())
    first, second = told.checkpoints[:2]
    assert (first.tag, first.message, first.location) == (Tag.INFO_RECEIVED, "confirmed", None)
    assert (second.raw_tag, second.message) == ("dispatched_by_sender", "dispatched by sender")
    assert (second.location, second.checkpoint_offset) == ("Oddział Kraków", "+01:00")


@pytest.mark.parametrize(
    ("newest", "tag"),
    [(SORTED, Tag.IN_TRANSIT), (LOADED, Tag.OUT_FOR_DELIVERY), (WAITING, Tag.AVAILABLE_FOR_PICKUP)],
)
def test_a_parcel_under_way(newest: Json, tag: Tag) -> None:
    assert parse(reply(newest, POSTED)).tag is tag


@pytest.mark.parametrize(
    ("status", "subtag"),
    [
        ("pickup_time_expired", "Exception_008"),
        ("rejected_by_receiver", "Exception_003"),
        ("undelivered_incomplete_address", "Exception_007"),
        ("pickup_reminder_sent_address", "AttemptFail_002"),
        ("avizo", "Exception_010"),
        ("readdressed", "InTransit_009"),
    ],
)
def test_what_its_statuses_mean(status: str, subtag: str) -> None:
    assert parse(reply(event("2026-01-20T12:00:00", status), POSTED)).subtag == subtag


def test_returned_to_sender_is_said_when_the_way_back_begins() -> None:
    told = parse(reply(event("2026-01-22T12:00:00", "returned_to_sender"), WAITING, POSTED))

    assert (told.subtag, told.active) == ("Exception_010", True)


@pytest.mark.parametrize("status", sorted(SILENT))
def test_what_follows_a_delivery_does_not_undo_it(status: str) -> None:
    assert parse(reply(event("2026-01-21T09:00:00", status), DELIVERED)).delivered


def test_a_new_parcel_has_a_status_before_it_has_an_event() -> None:
    told = parse(reply(status="created"))

    assert (told.tag, told.checkpoints) == (Tag.INFO_RECEIVED, ())


def test_a_status_that_nobody_knows_is_in_transit_and_named() -> None:
    told = parse(reply(event("2026-01-20T12:00:00", "delivered_by_drone"), POSTED))

    assert (told.tag, told.unknown_codes) == (Tag.IN_TRANSIT, ("delivered_by_drone",))


def test_an_unknown_number_may_become_known() -> None:
    told = parse(refusal(404, "resource_not_found"), 404)

    assert (told.tag, told.checkpoints) == (Tag.PENDING, ())


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, refusal(401, "unauthorized"), AuthFailed),
        (403, refusal(403, "forbidden"), AuthFailed),
        (429, refusal(429, "too_many_requests"), RateLimited),
        (500, refusal(500, "internal_server_error"), CourierDown),
        (503, b"<html>", CourierDown),
        (400, refusal(400, "invalid_parameter"), RequestRefused),
        (302, b"", RequestRefused),
        (404, refusal(404, "routing_error"), UnreadableAnswer),
        (404, b"<html>", UnreadableAnswer),
        (200, b"<html>", UnreadableAnswer),
        (200, {}, UnreadableAnswer),
        (200, reply(), UnreadableAnswer),
        (200, reply({"status": "delivered", "datetime": "20.01.2026"}), UnreadableAnswer),
        (200, reply(DELIVERED, number="600000000000000000000026"), WrongNumber),
    ],
)
def test_what_is_no_answer(status: int, body: object, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


def test_only_one_status_means_delivered() -> None:
    delivered = {code for code, status in CODES.items() if status.tag is Tag.DELIVERED}

    assert delivered == {"delivered"}
    assert not SILENT & CODES.keys()


async def test_it_is_asked_without_credentials(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[tuple[str, str | None]] = []

    async def site(request: web.BaseRequest) -> web.Response:
        asked.append((request.path_qs, request.headers.get("Authorization")))
        return web.json_response(reply(DELIVERED))

    fetch = fetch_for(await courier(site), slug="inpost-paczkomaty", credentials={})
    told = await inpost_paczkomaty.track(
        fetch, TrackingRequest(Slug("inpost-paczkomaty"), Number(NUMBER), NUMBER)
    )

    assert told.delivered
    assert asked == [(f"/v1/tracking/{NUMBER}", None)]
    assert permit.steps == ["before_send", "after_send"]


async def test_a_number_that_would_reach_another_address_is_asked_of_nobody(
    fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    request = TrackingRequest(Slug("inpost-paczkomaty"), Number("600/../1"), "600/../1")
    with pytest.raises(InvalidNumber):
        await inpost_paczkomaty.track(fetch_for("http://127.0.0.1:1"), request)

    assert permit.steps == []
