"""USPS, in both versions of its tracking API. The answers are written after its schema."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import usps
from couriers.usps_codes import CATEGORIES, EVENTS, NEVER, NOT_YET
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

NUMBER = "9400100000000000000017"


def event(what: str, at: str, code: str, **more: object) -> dict[str, object]:
    return {
        "eventType": what,
        "eventTimestamp": at,
        "eventCountry": None,
        "eventCity": "SALEM",
        "eventState": "OR",
        "eventZIP": "97301",
        "firm": None,
        "name": None,
        "authorizedAgent": "false",
        "eventCode": code,
        "additionalProp": None,
    } | more


LABEL = event("Shipping Label Created, USPS Awaiting Item", "2026-03-02T09:30:00", "GX")
ACCEPTED = event("USPS in possession of item", "2026-03-03T17:40:00", "03", GMTOffset="-08:00")
OUT = event("Out for Delivery", "2026-03-05T08:10:00", "OF", GMTOffset="-08:00")
DELIVERED = event(
    "Delivered, Left with Individual",
    "2026-03-05T13:05:00",
    "01",
    GMTOffset="-08:00",
    GMTTimestamp="2026-03-05T21:05:31Z",
    name="J DOE",
)


def item(category: str, *events: dict[str, object], **more: object) -> dict[str, object]:
    return {
        "trackingNumber": NUMBER,
        "statusCategory": category,
        "status": events[0]["eventType"] if events else "",
        "mailClass": "Priority Mail<SUP>&reg;</SUP>",
        "services": "USPS Tracking<SUP>&#174;</SUP>",
        "originCity": "BEND",
        "originState": "OR",
        "destinationCity": "SALEM",
        "destinationState": "OR",
        "trackingEvents": list(events),
    } | more


def parse(body: object, status: int = 200, **headers: str) -> Tracking:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return usps.parse(status, headers, data, NUMBER)


def refusal(code: str = "", status: str = "400", title: str = "no") -> dict[str, Any]:
    errors = [{"title": title, "detail": "", "code": code}]
    return {
        "apiVersion": "/tracking/v3",
        "error": {"code": status, "message": title, "errors": errors},
    }


def test_a_delivered_parcel() -> None:
    told = parse(item("Delivered", DELIVERED, OUT, ACCEPTED, LABEL))

    assert (told.tag, told.subtag) == (Tag.DELIVERED, "Delivered_001")
    assert told.delivered_at == "2026-03-05T13:05:00"
    assert told.delivered_at_utc == datetime(2026, 3, 5, 21, 5, tzinfo=UTC)
    assert told.signed_by == "J DOE"
    assert (told.origin, told.destination) == ("BEND, OR", "SALEM, OR")
    assert not told.active
    first, *_, last = told.checkpoints
    assert first.message == "Shipping Label Created, USPS Awaiting Item"
    assert (first.checkpoint_offset, first.checkpoint_utc) == (None, None)
    assert (last.city, last.state, last.postal_code, last.raw_tag) == ("SALEM", "OR", "97301", "01")


@pytest.mark.parametrize(
    ("category", "newest", "tag", "subtag"),
    [
        ("Pre-Shipment", LABEL, Tag.INFO_RECEIVED, "InfoReceived_001"),
        ("Accepted", ACCEPTED, Tag.IN_TRANSIT, "InTransit_002"),
        (
            "In Transit",
            event("Arrived", "2026-03-04T01:00:00", "10"),
            Tag.IN_TRANSIT,
            "InTransit_003",
        ),
        ("Moving Through Network", ACCEPTED, Tag.IN_TRANSIT, "InTransit_002"),
        ("Out for Delivery", OUT, Tag.OUT_FOR_DELIVERY, "OutForDelivery_001"),
        (
            "Available for Pickup",
            event("Available for Pickup", "2026-03-05T10:00:00", "16"),
            Tag.AVAILABLE_FOR_PICKUP,
            "AvailableForPickup_001",
        ),
        (
            "Alert",
            event("No Such Number", "2026-03-05T10:00:00", "21"),
            Tag.EXCEPTION,
            "Exception_007",
        ),
        (
            "Alert",
            event("Notice Left (No Authorized Recipient)", "2026-03-05T10:00:00", "02"),
            Tag.ATTEMPT_FAIL,
            "AttemptFail_001",
        ),
        ("Alert", ACCEPTED, Tag.EXCEPTION, "Exception_001"),
        ("a new category", OUT, Tag.OUT_FOR_DELIVERY, "OutForDelivery_001"),
        ("Delivered to Agent", DELIVERED, Tag.AVAILABLE_FOR_PICKUP, "AvailableForPickup_001"),
    ],
)
def test_where_a_parcel_stands(
    category: str, newest: dict[str, object], tag: Tag, subtag: str
) -> None:
    told = parse(item(category, newest))

    assert (told.tag, told.subtag) == (tag, subtag)


def test_delivered_to_its_sender_is_returned() -> None:
    returned = event("Delivered, To Original Sender", "2026-03-09T10:00:00", "01")
    told = parse(item("Delivered", returned, OUT))

    assert (told.tag, told.subtag) == (Tag.EXCEPTION, "Exception_011")
    assert not told.active
    assert told.delivered_at is None


def test_an_evening_that_has_crossed_midnight_at_greenwich_is_computed() -> None:
    late = event(
        "Departed Post Office",
        "2026-03-03T18:31:00",
        "SF",
        GMTTimestamp="2026-03-03T00:31:21Z",
        GMTOffset="-06:00",
    )
    [told] = parse(item("In Transit", late)).checkpoints

    assert told.checkpoint_utc == datetime(2026, 3, 4, 0, 31, tzinfo=UTC)
    assert told.checkpoint_offset == "-06:00"


def test_a_z_behind_local_time_is_a_filler() -> None:
    filled = event("USPS in possession of item", "2026-03-03T07:31:00Z", "03")
    [told] = parse(item("Accepted", filled)).checkpoints

    assert told.checkpoint_time == "2026-03-03T07:31:00"
    assert (told.checkpoint_offset, told.checkpoint_utc) == (None, None)


def test_an_offset_of_one_digit_is_read() -> None:
    [told] = parse(item("Accepted", ACCEPTED | {"GMTOffset": "-7:00"})).checkpoints

    assert told.checkpoint_offset == "-07:00"


def test_the_newer_version_answers_a_list_and_calls_the_zip_code_otherwise() -> None:
    renamed = {name: value for name, value in OUT.items() if name != "eventZIP"}
    mine = item("Out for Delivery", renamed | {"eventZIPCode": "97302"})
    other = item("Delivered", DELIVERED) | {"trackingNumber": "9400100000000000000024"}
    told = parse([other, mine])

    assert told.tag is Tag.OUT_FOR_DELIVERY
    assert told.checkpoints[0].postal_code == "97302"


def test_the_routing_prefix_of_a_label_is_no_part_of_the_number() -> None:
    body = json.dumps(item("Delivered", DELIVERED)).encode()

    assert usps.parse(200, {}, body, f"42097301{NUMBER}").delivered


def test_expected_delivery_is_the_couriers_text_in_either_version() -> None:
    older = item("Accepted", ACCEPTED, expectedDeliveryTimeStamp="2026-03-06T00:00:00")
    newer = item("Accepted", ACCEPTED)
    newer["deliveryDateExpectation"] = {"expectedDeliveryDate": "2026-03-06"}

    assert parse(older).expected_delivery == "2026-03-06T00:00:00"
    assert parse([newer]).expected_delivery == "2026-03-06"


def test_a_status_without_events_is_kept() -> None:
    told = parse(item("Pre-Shipment"))

    assert (told.tag, told.checkpoints) == (Tag.INFO_RECEIVED, ())


@pytest.mark.parametrize("code", sorted(NOT_YET))
def test_a_number_without_an_update_is_not_found_yet_although_it_is_a_400(code: str) -> None:
    told = parse(refusal(code), 400)

    assert (told.tag, told.checkpoints, told.active) == (Tag.PENDING, (), True)


@pytest.mark.parametrize("code", sorted(NEVER))
def test_a_number_that_can_never_be_tracked_is_invalid(code: str) -> None:
    with pytest.raises(InvalidNumber):
        parse(refusal(code), 400)


def test_an_unknown_number_of_the_newer_version_is_a_404() -> None:
    assert parse(refusal(status="404"), 404).tag is Tag.PENDING


def test_an_unknown_item_of_several_is_a_207() -> None:
    missing = {"trackingNumber": NUMBER, "statusCode": "404"} | refusal(status="404")

    assert parse([missing], 207).tag is Tag.PENDING


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("400", RequestRefused),
        ("401", AuthFailed),
        ("403", AuthFailed),
        ("429", RateLimited),
        ("503", CourierDown),
        ("418", UnreadableAnswer),
        ("?", UnreadableAnswer),
    ],
)
def test_each_item_fails_on_its_own(status: str, error: type[CourierError]) -> None:
    failed = {"trackingNumber": NUMBER, "statusCode": status} | refusal(status=status)
    with pytest.raises(error):
        parse([failed], 207)


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, refusal("999999"), RequestRefused),
        (401, {"error": "invalid_client"}, AuthFailed),
        (403, refusal(status="403"), AuthFailed),
        (429, b"", RateLimited),
        (500, b"<html>", CourierDown),
        (503, b"", CourierDown),
        (404, b"<html>moved</html>", UnreadableAnswer),
        (404, {"fault": {"faultstring": "Unable to identify proxy"}}, UnreadableAnswer),
        (200, b"<html>captcha</html>", UnreadableAnswer),
        (200, b"", UnreadableAnswer),
        (200, {}, UnreadableAnswer),
        (200, [], WrongNumber),
        (200, {"trackingNumber": NUMBER}, UnreadableAnswer),
        (200, {"TrackResults": {}}, UnreadableAnswer),
        (200, item("Delivered", DELIVERED | {"eventTimestamp": "13:05"}), UnreadableAnswer),
        (200, item("Delivered", DELIVERED | {"eventTimestamp": None}), UnreadableAnswer),
        (200, item("Delivered", DELIVERED) | {"trackingNumber": "9400"}, WrongNumber),
        (302, b"", RequestRefused),
        (204, b"", UnreadableAnswer),
    ],
)
def test_what_is_no_answer(status: int, body: object, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


def test_a_retry_after_is_handed_on() -> None:
    with pytest.raises(RateLimited) as failed:
        parse(b"", 429, **{"retry-after": "77"})

    assert failed.value.retry_after == 77


def test_only_the_codes_of_a_delivery_mean_delivered() -> None:
    codes = {code for code, status in EVENTS.items() if status.tag is Tag.DELIVERED}
    categories = {name for name, status in CATEGORIES.items() if status.tag is Tag.DELIVERED}

    assert codes == {"01", "43"}
    assert categories == {"delivered"}


REQUEST = TrackingRequest(
    Slug("usps"),
    Number(NUMBER),
    NUMBER,
    fields={"tracking_postal_code": "97301-1234", "tracking_ship_date": "20260302"},
)


class Usps:
    """Answers as USPS does; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, object]] = []
        self.authorization: list[str | None] = []

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        body = await request.read()
        self.asked.append(
            (request.method, str(request.rel_url), json.loads(body) if body else None)
        )
        if request.path == "/token":
            return web.json_response({"access_token": "secret-token", "expires_in": "28799"})
        self.authorization.append(request.headers.get("Authorization"))
        told = item("Delivered", DELIVERED, ACCEPTED)
        return web.json_response([told] if request.method == "POST" else told)


async def test_the_current_api_is_asked_with_what_tells_reused_numbers_apart(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    site = Usps()
    told = await usps.track(fetch_for(await courier(site)), REQUEST)

    assert told.delivered
    assert told.http_status == 200
    token, asked = site.asked
    assert token[2] == {
        "client_id": "the-client",
        "client_secret": "the-secret",
        "grant_type": "client_credentials",
    }
    assert asked == (
        "POST",
        "/tracking/v3r2/tracking",
        [
            {
                "trackingNumber": NUMBER,
                "destinationZIPCode": "97301",
                "mailingDate": "2026-03-02",
            }
        ],
    )
    assert site.authorization == ["Bearer secret-token"]
    assert permit.steps == ["before_send", "after_send"]


async def test_the_older_api_is_asked_when_the_address_names_it(
    courier: Courier, fetch_for: FetchFor
) -> None:
    site = Usps()
    address = await courier(site)
    fetch = fetch_for(f"{address}/tracking/v3", token_url=f"{address}/token")
    told = await usps.track(fetch, REQUEST)

    assert told.delivered
    query = "expand=DETAIL&destinationZIPCode=97301&mailingDate=2026-03-02"
    assert site.asked[1] == ("GET", f"/tracking/v3/tracking/{NUMBER}?{query}", None)


async def test_without_credentials_nothing_is_asked_and_the_settings_are_named(
    fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    fetch = fetch_for("http://127.0.0.1:1", credentials={"client_id": "x"})
    with pytest.raises(NoCredentials) as failed:
        await usps.track(fetch, REQUEST)

    assert "[couriers.usps] client_secret" in failed.value.message
    assert "TRACKER_COURIERS__USPS__CLIENT_SECRET" in failed.value.message
    assert "client_id" not in failed.value.message
    assert permit.steps == []


async def test_a_number_that_could_leave_its_segment_is_refused_without_a_call(
    fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    request = TrackingRequest(Slug("usps"), Number("9400/../.."), "9400/../..")
    with pytest.raises(InvalidNumber):
        await usps.track(fetch_for("http://127.0.0.1:1"), request)

    assert permit.steps == []
