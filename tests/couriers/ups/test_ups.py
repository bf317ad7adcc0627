"""UPS Track API v1. The answers are written after its OpenAPI text."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import ups
from couriers.ups.codes import SILENT, STATUS_CODES, TYPES
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

NUMBER = "1Z0000000000000003"


def seen(at: str, code: str, what: str, kind: str = "I", **more: object) -> dict[str, object]:
    return {
        "date": at[:8],
        "time": at[8:],
        "gmtOffset": "-05:00",
        "status": {"type": kind, "description": what, "statusCode": code},
        "location": {"address": {"city": "Wayne", "stateProvince": "NJ", "countryCode": "US"}},
    } | more


LABEL = seen("20260302093000", "003", "Shipper created a label ", "M")
PICKED = seen("20260303174000", "038", "Pickup Scan ", "P")
DEPARTED = seen("20260304014500", "005", "Departed from Facility")
OUT = seen("20260305081000", "021", "Out For Delivery Today")
DELIVERED = seen("20260305130500", "011", "DELIVERED", "D")


def reply(*activity: dict[str, object], **package: object) -> dict[str, object]:
    told = {"trackingNumber": NUMBER, "activity": list(activity)} | package
    return {"trackResponse": {"shipment": [{"inquiryNumber": NUMBER, "package": [told]}]}}


def complaint(code: str) -> dict[str, object]:
    return {"response": {"errors": [{"code": code, "message": "no"}]}}


def warned(code: str) -> dict[str, object]:
    warning = {"code": code, "message": "Tracking Information Not Found"}
    return {"trackResponse": {"shipment": [{"inquiryNumber": NUMBER, "warnings": [warning]}]}}


def parse(body: object, status: int = 200) -> Tracking:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ups.parse(status, {}, data, NUMBER)


def test_a_delivered_parcel() -> None:
    told = parse(
        reply(
            DELIVERED,
            OUT,
            DEPARTED,
            PICKED,
            LABEL,
            currentStatus={"code": "011", "description": "Delivered"},
            deliveryInformation={"receivedBy": "J DOE"},
            packageAddress=[{"type": "ORIGIN", "address": {"city": "Bend", "countryCode": "US"}}],
        )
    )

    assert told.delivered
    assert told.delivered_at == "2026-03-05T13:05:00"
    assert told.delivered_at_utc == datetime(2026, 3, 5, 18, 5, tzinfo=UTC)
    assert (told.signed_by, told.origin, told.destination) == ("J DOE", "Bend, US", None)
    assert [point.subtag for point in told.checkpoints] == [
        "InfoReceived_001",
        "InTransit_002",
        "InTransit_007",
        "OutForDelivery_001",
        "Delivered_001",
    ]
    assert told.checkpoints[0].message == "Shipper created a label"
    assert told.checkpoints[0].country_iso3 == "USA"


@pytest.mark.parametrize(
    ("code", "what", "kind", "subtag"),
    [
        ("021", "Out For Delivery Today", "I", "OutForDelivery_001"),
        ("040", "Ready for Customer Pickup", "X", "AvailableForPickup_001"),
        ("022", "Recipient was not available", "X", "AttemptFail_001"),
        ("014", "Your package is on the way", "X", "InTransit_005"),
        ("092", "At the clearing agency", "X", "InTransit_006"),
        ("014", "Your package has been released by the government agency.", "X", "InTransit_005"),
        (
            "014",
            "UPS has received the information needed to submit your package for clearance.",
            "X",
            "InTransit_006",
        ),
        ("148", "Package Information Unavailable", "X", "InTransit_001"),
        ("154", "Updated Delivery Date", "X", "InTransit_001"),
        ("048", "Delay", "X", "Exception_005"),
        ("059", "Damage Reported", "X", "Exception_012"),
        ("034", "Returned to Sender", "RS", "Exception_011"),
        ("011", "Delivered to UPS Access Point", "D", "AvailableForPickup_001"),
        ("011", "Returned to the sender", "D", "Exception_010"),
        ("999", "new", "D", "Delivered_001"),
        ("999", "Your package is on the way", "X", "InTransit_001"),
        ("155", "Delivery Photo", "D", "InTransit_001"),
        ("144", "Delivered to Post Office for Pickup", "D", "AvailableForPickup_001"),
    ],
)
def test_what_its_codes_mean(code: str, what: str, kind: str, subtag: str) -> None:
    assert parse(reply(seen("20260305081000", code, what, kind))).subtag == subtag


def test_a_photo_before_the_delivery_is_no_delivery() -> None:
    photo = seen("20260305082000", "155", "Delivery Photo", "D")
    told = parse(
        reply(
            photo,
            OUT,
            currentStatus={"statusCode": "155", "type": "D"},
            deliveryInformation={"deliveryPhoto": {"photo": "x"}, "receivedBy": "J DOE"},
        )
    )

    assert told.tag is Tag.OUT_FOR_DELIVERY
    assert told.signed_by is None


def test_the_current_status_goes_before_the_newest_event() -> None:
    told = parse(reply(OUT, currentStatus={"code": "011", "description": "Delivered"}))

    assert told.delivered
    assert told.delivered_at is None


def test_an_event_without_greenwich_fields_stays_local() -> None:
    [told] = parse(reply({**OUT, "gmtOffset": None})).checkpoints

    assert told.checkpoint_time == "2026-03-05T08:10:00"
    assert (told.checkpoint_offset, told.checkpoint_utc) == (None, None)


def test_a_place_that_is_only_a_buildings_number_is_no_place() -> None:
    [told] = parse(reply(OUT | {"location": {"slic": "8566"}})).checkpoints

    assert (told.city, told.country_name) == (None, None)


def test_events_of_one_second_keep_their_order() -> None:
    one, two = seen("20260304014500", "005", "one"), seen("20260304014500", "014", "two")

    assert [point.message for point in parse(reply(two, one)).checkpoints] == ["one", "two"]


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ([{"type": "SDD", "date": "20260305"}], "2026-03-05"),
        ([{"type": "SDD", "date": "20260305"}, {"type": "RDD", "date": "20260306"}], "2026-03-06"),
        ([{"type": "DEL", "date": "20260305"}], None),
        ([{"type": "string", "date": "string"}], None),
        ([], None),
    ],
)
def test_when_it_is_expected(days: list[dict[str, str]], expected: str | None) -> None:
    assert parse(reply(OUT, deliveryDate=days)).expected_delivery == expected


def test_our_package_of_several_is_chosen() -> None:
    body = reply(OUT)
    other = {"trackingNumber": "1Z0000000000000012", "activity": [DELIVERED]}
    body["trackResponse"]["shipment"][0]["package"].insert(0, other)  # type: ignore[index]

    assert parse(body).tag is Tag.OUT_FOR_DELIVERY


def test_the_only_package_under_another_number_is_ours_if_the_inquiry_was() -> None:
    assert parse(reply(OUT, trackingNumber="92419900000033499522966220")).checkpoints


@pytest.mark.parametrize("code", ["TW0001", "TJ001"])
def test_a_warning_instead_of_a_package_is_not_found_yet(code: str) -> None:
    assert parse(warned(code)).tag is Tag.PENDING
    assert parse(complaint(code), 404).tag is Tag.PENDING


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, complaint("TV1002"), InvalidNumber),
        (400, complaint("250003"), AuthFailed),
        (400, complaint("10401"), AuthFailed),
        (400, complaint("250002"), AuthFailed),
        (400, complaint("TV9999"), RequestRefused),
        (404, complaint("TV9999"), UnreadableAnswer),
        (200, warned("TW9999"), UnreadableAnswer),
        (200, {}, UnreadableAnswer),
        (200, b"<html>", UnreadableAnswer),
        (200, reply(), UnreadableAnswer),
        (200, reply(OUT | {"time": "74700"}), UnreadableAnswer),
        (200, reply(OUT | {"date": ""}), UnreadableAnswer),
        (401, complaint("250003"), AuthFailed),
        (429, {"response": {"errors": [{"message": "Quota Limit Exceeded"}]}}, RateLimited),
        (500, b"", CourierDown),
    ],
)
def test_what_is_no_answer(status: int, body: object, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


def test_another_inquirys_package_is_not_ours() -> None:
    body = json.dumps(reply(OUT)).replace(NUMBER, "1Z0000000000000099")
    with pytest.raises(WrongNumber):
        parse(body.encode())


def test_no_code_is_in_two_lists() -> None:
    assert not SILENT & STATUS_CODES.keys()
    assert {code for code, status in STATUS_CODES.items() if status.tag is Tag.DELIVERED} == {
        "011",
        "026",
    }
    assert {kind for kind, status in TYPES.items() if status.tag is Tag.DELIVERED} == {"D"}


REQUEST = TrackingRequest(Slug("ups"), Number(NUMBER), NUMBER)


async def test_it_is_asked_with_a_token_and_a_transaction_of_its_own(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[tuple[str, str, dict[str, str]]] = []

    async def site(request: web.BaseRequest) -> web.Response:
        body = (await request.read()).decode()
        asked.append((request.path, body, {k.lower(): v for k, v in request.headers.items()}))
        if request.path == "/token":
            return web.json_response({"access_token": "t0ken", "expires_in": "14399"})
        return web.json_response(reply(DELIVERED))

    address = await courier(site)
    for own_permit in (permit, RecordingPermit()):
        told = await ups.track(fetch_for(address, slug="ups", own_permit=own_permit), REQUEST)
        assert told.delivered

    token, first, second = asked
    assert token[1] == "grant_type=client_credentials"
    assert token[2]["authorization"] == "Basic dGhlLWNsaWVudDp0aGUtc2VjcmV0"
    assert first[0] == f"/api/track/v1/details/{NUMBER}"
    assert first[2]["authorization"] == "Bearer t0ken"
    assert first[2]["transactionsrc"]
    assert first[2]["transid"] != second[2]["transid"]
    assert permit.steps == ["before_send", "after_send"]


async def test_without_credentials_nothing_is_asked(fetch_for: FetchFor) -> None:
    with pytest.raises(NoCredentials, match="TRACKER_COURIERS__UPS__CLIENT_ID"):
        await ups.track(fetch_for("http://127.0.0.1:1", slug="ups", credentials={}), REQUEST)
