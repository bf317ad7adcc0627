"""FedEx Track API v1. The answers are written after its API reference."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import fedex
from couriers.fedex.codes import CODES
from tracking.checkpoint import Tag, Tracking
from tracking.errors import (
    AuthFailed,
    CourierDown,
    CourierError,
    InvalidNumber,
    NoCredentials,
    RateLimited,
    RequestRefused,
    UnreadableAnswer,
    WrongNumber,
)
from tracking.request import Number, Slug, TrackingRequest

NUMBER = "123456789012"
NOT_FOUND = "TRACKING.TRACKINGNUMBER.NOTFOUND"


def scan(at: str, kind: str, what: str = "", why: str = "", reason: str = "") -> dict[str, object]:
    return {
        "date": at,
        "eventType": kind,
        "eventDescription": what,
        "exceptionCode": reason,
        "exceptionDescription": why,
        "scanLocation": {
            "city": "CLOVIS",
            "stateOrProvinceCode": "CA",
            "postalCode": "93612",
            "countryCode": "US",
        },
    }


LABEL = scan("2026-03-02T09:30:00-06:00", "OC", "Shipment information sent to FedEx")
PICKED = scan("2026-03-03T00:00:00", "PU", "Picked up")
OUT = scan("2026-03-05T08:10:00-07:00", "OD", "On FedEx vehicle for delivery")
DELIVERED = scan("2026-03-05T13:05:00-07:00", "DL", "Delivered")


def result(*scans: dict[str, object], **more: object) -> dict[str, object]:
    return {"trackingNumberInfo": {"trackingNumber": NUMBER}, "scanEvents": list(scans)} | more


def reply(*results: dict[str, object], number: str = NUMBER) -> dict[str, object]:
    told = {"trackingNumber": number, "trackResults": list(results)}
    return {"transactionId": "x", "output": {"completeTrackResults": [told]}}


def failed_result(code: str) -> dict[str, object]:
    error = {"code": code, "message": "no"}
    return {"trackingNumberInfo": {"trackingNumber": NUMBER}, "error": error}


def parse(body: object, status: int = 200) -> Tracking:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return fedex.parse(status, {}, data, NUMBER)


def test_a_delivered_parcel() -> None:
    told = parse(
        reply(
            result(
                DELIVERED,
                OUT,
                LABEL,
                latestStatusDetail={"code": "DL", "derivedCode": "DL", "description": "Delivered"},
                deliveryDetails={"receivedByName": "J.DOE"},
                dateAndTimes=[{"type": "ESTIMATED_DELIVERY", "dateTime": "2026-03-05T17:00:00"}],
                shipperInformation={"address": {"city": "BEND", "countryCode": "US"}},
            )
        )
    )

    assert told.delivered
    assert told.delivered_at == "2026-03-05T13:05:00"
    assert told.delivered_at_utc == datetime(2026, 3, 5, 20, 5, tzinfo=UTC)
    assert told.signed_by == "J.DOE"
    assert told.expected_delivery == "2026-03-05T17:00:00"
    assert told.origin == "BEND, US"
    assert told.checkpoints[0].checkpoint_offset == "-06:00"
    assert told.checkpoints[-1].country_iso3 == "USA"


def test_an_event_without_offset_stays_local() -> None:
    told = parse(reply(result(OUT, PICKED)))

    assert told.checkpoints[0].checkpoint_time == "2026-03-03T00:00:00"
    assert told.checkpoints[0].checkpoint_utc is None


@pytest.mark.parametrize(
    ("event", "subtag"),
    [
        (OUT, "OutForDelivery_001"),
        (scan("2026-03-05T08:10:00", "HL", "Hold at Location"), "AvailableForPickup_001"),
        (scan("2026-03-05T08:10:00", "HP", "Ready for recipient pickup"), "AvailableForPickup_001"),
        (scan("2026-03-05T08:10:00", "DE", "Exception", "", "08"), "AttemptFail_002"),
        (scan("2026-03-05T08:10:00", "DE", "Exception", "Refused by recipient"), "Exception_003"),
        (scan("2026-03-05T08:10:00", "DE", "Delivery exception"), "Exception_001"),
        (scan("2026-03-05T08:10:00", "RS", "Returning to shipper"), "Exception_010"),
        (scan("2026-03-05T08:10:00", "DL", "Delivered", "Returned to shipper"), "Exception_010"),
        (scan("2026-03-05T08:10:00", "CD", "Clearance delay"), "Exception_004"),
        (scan("2026-03-05T08:10:00", "??", "Something new"), "InTransit_001"),
    ],
)
def test_what_its_codes_mean(event: dict[str, object], subtag: str) -> None:
    assert parse(reply(result(event))).subtag == subtag


def test_the_parcels_own_status_goes_before_the_newest_scan() -> None:
    latest = {"code": "HL", "derivedCode": "HL", "description": "Ready for pickup"}

    assert parse(reply(result(OUT, latestStatusDetail=latest))).tag is Tag.AVAILABLE_FOR_PICKUP


def test_of_several_results_for_one_number_the_newest_scan_decides() -> None:
    old = result(scan("2025-03-05T13:05:00-07:00", "DL", "Delivered"))
    new = result(OUT)

    assert parse(reply(old, new)) == parse(reply(new, old))
    assert parse(reply(old, new)).tag is Tag.OUT_FOR_DELIVERY


def test_a_result_with_scans_goes_before_an_error_beside_it() -> None:
    assert parse(reply(failed_result(NOT_FOUND), result(OUT))).tag is Tag.OUT_FOR_DELIVERY


def test_an_unknown_number_is_not_found_yet_inside_a_200() -> None:
    assert parse(reply(failed_result(NOT_FOUND))).tag is Tag.PENDING


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, reply(failed_result("TRACKING.TRACKINGNUMBER.INVALID")), InvalidNumber),
        (200, reply(failed_result("TRACKING.TRACKINGNUMBER.EMPTY")), RequestRefused),
        (200, reply(failed_result("SYSTEM.UNEXPECTED.ERROR")), CourierDown),
        (200, {"errors": [{"code": "SERVICE.UNAVAILABLE.ERROR"}]}, CourierDown),
        (200, {"errors": [{"code": "NOT.AUTHORIZED.ERROR"}]}, AuthFailed),
        (200, {}, UnreadableAnswer),
        (200, b"<html>", UnreadableAnswer),
        (200, reply(), UnreadableAnswer),
        (200, reply(result(OUT | {"date": ""})), UnreadableAnswer),
        (200, reply(result(OUT | {"date": "today"})), UnreadableAnswer),
        (400, {"errors": [{"code": "BAD.REQUEST.ERROR"}]}, RequestRefused),
        (401, {"errors": [{"code": "NOT.AUTHORIZED.ERROR"}]}, AuthFailed),
        (403, {"errors": [{"code": "FORBIDDEN.ERROR"}]}, AuthFailed),
        (403, b"transaction limit exceeded", RateLimited),
        (429, b"daily quota exceeded, retry after 00:00 GMT", RateLimited),
        (503, b"", CourierDown),
    ],
)
def test_what_is_no_answer(status: int, body: object, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


def test_a_result_about_another_number_is_not_ours() -> None:
    other: dict[str, object] = {
        "trackingNumberInfo": {"trackingNumber": "999999999999"},
        "scanEvents": [OUT],
    }
    with pytest.raises(WrongNumber):
        parse(reply(other, number="999999999999"))


def test_a_daily_quota_ends_at_midnight_in_greenwich() -> None:
    headers = {"date": "Mon, 05 Jan 2026 22:00:00 GMT"}
    with pytest.raises(RateLimited) as failed:
        fedex.parse(429, headers, b"daily quota exceeded, wait until 00:00 GMT", NUMBER)

    assert failed.value.retry_after == 2 * 3600


def test_only_one_code_means_delivered() -> None:
    assert {code for code, status in CODES.items() if status.tag is Tag.DELIVERED} == {"DL"}


REQUEST = TrackingRequest(Slug("fedex"), Number(NUMBER), NUMBER)


async def test_it_is_asked_for_one_number_with_a_token(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[tuple[str, bytes]] = []

    async def site(request: web.BaseRequest) -> web.Response:
        asked.append((request.path, await request.read()))
        if request.path == "/token":
            return web.json_response({"access_token": "t0ken", "expires_in": 3599})
        assert request.headers["Authorization"] == "Bearer t0ken"
        return web.json_response(reply(result(DELIVERED)))

    told = await fedex.track(fetch_for(await courier(site), slug="fedex"), REQUEST)

    assert told.delivered
    form = b"grant_type=client_credentials&client_id=the-client&client_secret=the-secret"
    assert asked[0] == ("/token", form)
    assert asked[1][0] == "/track/v1/trackingnumbers"
    assert json.loads(asked[1][1]) == {
        "includeDetailedScans": True,
        "trackingInfo": [{"trackingNumberInfo": {"trackingNumber": NUMBER}}],
    }
    assert permit.steps == ["before_send", "after_send"]


async def test_without_credentials_nothing_is_asked(fetch_for: FetchFor) -> None:
    with pytest.raises(NoCredentials, match="TRACKER_COURIERS__FEDEX__CLIENT_ID"):
        await fedex.track(fetch_for("http://127.0.0.1:1", slug="fedex", credentials={}), REQUEST)
