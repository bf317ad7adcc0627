"""DHL Express through the Unified API. The answers are written after its API reference."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import dhl
from tracking.checkpoint import Tag, Tracking
from tracking.errors import (
    AuthFailed,
    CourierDown,
    CourierError,
    NoCredentials,
    RateLimited,
    RequestRefused,
    UnreadableAnswer,
    WrongNumber,
)
from tracking.request import Number, Slug, TrackingRequest

NUMBER = "0123456784"


def event(at: str, code: str, what: str = "") -> dict[str, object]:
    address = {"countryCode": "NL", "postalCode": "1043 AG", "addressLocality": "AMSTERDAM"}
    return {
        "timestamp": at,
        "statusCode": code,
        "status": what,
        "description": what,
        "location": {"address": address},
    }


LABEL = event("2026-03-02T09:30:00", "pre-transit", "Shipment information received")
MOVING = event("2026-03-03T17:40:00", "transit", "Processed at AMSTERDAM")
OUT = event("2026-03-05T08:10:00", "transit", "Shipment is out for delivery with courier")
DELIVERED = event("2026-03-05T13:05:00", "delivered", "Delivered - Signed for by: J DOE")


def shipment(*events: dict[str, object], **more: object) -> dict[str, object]:
    now = {"status": events[0]} if events else {}
    return {"id": NUMBER, "service": "express", "events": list(events)} | now | more


def reply(*shipments: dict[str, object]) -> dict[str, object]:
    return {"url": "x", "shipments": list(shipments)}


def parse(body: object, status: int = 200) -> Tracking:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return dhl.parse(status, {}, data, NUMBER)


@pytest.mark.parametrize("at", ["2026-03-05T13:05:00Z", "2026-03-05T13:05:00.000Z"])
def test_a_z_behind_a_local_time_is_no_zone(at: str) -> None:
    told = parse(reply(shipment(event(at, "delivered", "Delivered"))))

    [point] = told.checkpoints
    assert (point.checkpoint_time, point.checkpoint_offset) == ("2026-03-05T13:05:00", None)
    assert (point.checkpoint_utc, told.delivered_at_utc) == (None, None)


def test_a_delivered_shipment() -> None:
    told = parse(
        reply(
            shipment(
                DELIVERED,
                OUT,
                MOVING,
                LABEL,
                estimatedTimeOfDelivery="2026-03-05T18:00:00",
                origin={"address": {"addressLocality": "LEIPZIG"}},
                details={"proofOfDelivery": {"signed": {"name": "J DOE"}}},
            )
        )
    )

    assert told.delivered
    assert told.delivered_at == "2026-03-05T13:05:00"
    assert (told.signed_by, told.origin, told.destination) == ("J DOE", "LEIPZIG", None)
    assert told.expected_delivery == "2026-03-05T18:00:00"
    assert [point.tag for point in told.checkpoints] == [
        Tag.INFO_RECEIVED,
        Tag.IN_TRANSIT,
        Tag.OUT_FOR_DELIVERY,
        Tag.DELIVERED,
    ]
    assert told.checkpoints[0].country_iso3 == "NLD"
    assert told.checkpoints[0].location == "AMSTERDAM"


@pytest.mark.parametrize(
    ("code", "what", "subtag"),
    [
        ("pre-transit", "", "InfoReceived_001"),
        ("transit", "Customs clearance status updated", "InTransit_006"),
        ("transit", "Available for pickup at the service point", "AvailableForPickup_001"),
        ("transit", "Delivered to somebody", "InTransit_001"),
        ("failure", "Delivery attempted; nobody was at home", "AttemptFail_002"),
        ("failure", "The consignee refused the shipment", "Exception_003"),
        ("failure", "", "Exception_001"),
        ("failure", "Delivered", "Exception_001"),
        ("delivered", "Delivered", "Delivered_001"),
        ("delivered", "Delivered to the service point", "AvailableForPickup_001"),
    ],
)
def test_the_words_refine_what_the_codes_leave_open(code: str, what: str, subtag: str) -> None:
    assert parse(reply(shipment(event("2026-03-05T08:10:00", code, what)))).subtag == subtag


def test_an_offset_behind_nine_digits_of_a_second_is_read() -> None:
    precise = event("2026-03-05T08:10:00.123456789+01:00", "transit", "x")
    [told] = parse(reply(shipment(precise))).checkpoints

    assert told.checkpoint_time == "2026-03-05T08:10:00"
    assert told.checkpoint_utc == datetime(2026, 3, 5, 7, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "names",
    [
        {"id": int(NUMBER)},
        {"id": "JD01", "details": {"pieceIds": ["JD02", NUMBER]}},
        {"id": "JD01", "details": {"references": {"number": NUMBER, "type": "x"}}},
        {"id": "JD01", "details": {"references": [{"number": "y"}, {"number": int(NUMBER)}]}},
    ],
)
def test_a_shipment_is_ours_by_its_id_its_pieces_or_its_references(
    names: dict[str, object],
) -> None:
    other = shipment(DELIVERED, id="9999999999")

    assert parse(reply(other, shipment(MOVING, **names))).tag is Tag.IN_TRANSIT


def test_somebody_elses_shipment_is_not_ours() -> None:
    with pytest.raises(WrongNumber):
        parse(reply(shipment(DELIVERED, id="9999999999")))


def test_only_its_own_404_is_not_found_yet() -> None:
    problem = {
        "title": "No result found",
        "detail": "No shipment with given tracking number found.",
    }

    assert parse(problem, 404).tag is Tag.PENDING


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (404, {"title": "Not Found"}, UnreadableAnswer),
        (404, b"<html>", UnreadableAnswer),
        (400, {"title": "Bad Request"}, RequestRefused),
        (200, {"shipments": []}, UnreadableAnswer),
        (200, {}, UnreadableAnswer),
        (200, b"<html>", UnreadableAnswer),
        (200, reply(shipment()), UnreadableAnswer),
        (200, reply(shipment(event("05.03.2026", "transit"))), UnreadableAnswer),
        (401, {"title": "Unauthorized"}, AuthFailed),
        (429, {"title": "Too Many Requests"}, RateLimited),
        (500, b"", CourierDown),
    ],
)
def test_what_is_no_answer(status: int, body: object, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


REQUEST = TrackingRequest(
    Slug("dhl"), Number(NUMBER), NUMBER, fields={"tracking_postal_code": "1043 AG"}
)


async def test_it_is_asked_for_an_express_shipment_with_the_key(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[tuple[str, str | None]] = []

    async def site(request: web.BaseRequest) -> web.Response:
        asked.append((str(request.rel_url), request.headers.get("DHL-API-Key")))
        return web.json_response(reply(shipment(DELIVERED)))

    credentials = {"api_key": "the-key"}
    fetch = fetch_for(await courier(site), slug="dhl", credentials=credentials)
    told = await dhl.track(fetch, REQUEST)

    assert told.delivered
    query = f"trackingNumber={NUMBER}&service=express&language=en&recipientPostalCode=1043+AG"
    assert asked == [(f"/track/shipments?{query}", "the-key")]
    assert permit.steps == ["before_send", "after_send"]


async def test_without_a_key_nothing_is_asked(fetch_for: FetchFor) -> None:
    with pytest.raises(NoCredentials, match="TRACKER_COURIERS__DHL__API_KEY"):
        await dhl.track(fetch_for("http://127.0.0.1:1", slug="dhl", credentials={}), REQUEST)
