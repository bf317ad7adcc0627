"""Australia Post's Shipping and Tracking API. The answers are written after its reference."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import australia_post
from couriers.australia_post.phrases import DOWN, INVALID, SENTENCES, SILENT, STATUSES
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

NUMBER = "99XYZ00000010100"

Json = dict[str, object]


def event(at: str, what: str, place: str | None = None) -> Json:
    told: Json = {"description": what, "date": f"{at}+10:00"}
    return told if place is None else told | {"location": place}


LABEL = event("2026-05-04T09:00:00", "Shipping information received by Australia Post")
RECEIVED = event("2026-05-04T17:20:00", "Received by Australia Post", "GEELONG VIC")
AT_FACILITY = event("2026-05-05T03:10:00", "Arrived at facility", "PERTH WA")
ON_BOARD = event("2026-05-06T07:45:00", "Onboard for delivery", "PERTH WA")
DELIVERED = event("2026-05-06T11:02:00", "Delivered - Left in a safe place", "PERTH WA")


def article(status: str | None, *events: Json, number: str = NUMBER) -> Json:
    told = {"article_id": number, "product_type": "Parcel Post", "events": list(events)}
    return told if status is None else told | {"status": status}


def result(*items: Json, number: str = NUMBER, **more: object) -> Json:
    return {"tracking_results": [{"tracking_id": number, "trackable_items": list(items), **more}]}


def refusal(code: str, name: str = "refused") -> Json:
    errors = [{"code": code, "name": name}]
    return {"tracking_results": [{"tracking_id": NUMBER, "errors": errors}]}


def parse(body: object, status: int = 200, number: str = NUMBER) -> Tracking:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return australia_post.parse(status, {}, data, number)


def test_a_delivered_article() -> None:
    told = parse(result(article("Delivered", DELIVERED, ON_BOARD, AT_FACILITY, RECEIVED, LABEL)))

    assert (told.tag, told.subtag) == (Tag.DELIVERED, "Delivered_001")
    assert told.delivered_at == "2026-05-06T11:02:00"
    assert told.delivered_at_utc == datetime(2026, 5, 6, 1, 2, tzinfo=UTC)
    tags = [point.tag for point in told.checkpoints]
    assert tags == [
        Tag.INFO_RECEIVED,
        Tag.IN_TRANSIT,
        Tag.IN_TRANSIT,
        Tag.OUT_FOR_DELIVERY,
        Tag.DELIVERED,
    ]
    last = told.checkpoints[-1]
    assert (last.city, last.state, last.country_iso3) == ("PERTH", "WA", "AUS")
    assert (last.checkpoint_offset, last.location) == ("+10:00", "PERTH WA")


def test_an_article_under_way() -> None:
    told = parse(result(article("In transit", AT_FACILITY, RECEIVED)))

    assert (told.tag, told.subtag) == (Tag.IN_TRANSIT, "InTransit_003")


def test_the_events_say_more_than_in_transit() -> None:
    assert parse(result(article("In transit", ON_BOARD))).tag is Tag.OUT_FOR_DELIVERY


def test_a_delivery_is_believed_only_with_the_articles_status() -> None:
    hidden = event("2026-05-06T11:02:00", "Delivered - with a twist")

    assert parse(result(article("Delivered", hidden))).delivered_at == "2026-05-06T11:02:00"
    assert parse(result(article("In transit", hidden))).tag is Tag.IN_TRANSIT
    assert parse(result(article("Unknown", hidden))).tag is Tag.IN_TRANSIT


def test_a_delivery_after_the_way_back_is_one_to_the_sender() -> None:
    back = event("2026-05-05T08:00:00", "Being returned to sender")
    warned = event("2026-05-05T08:00:00", "Will be returned to sender if not collected")

    assert parse(result(article("Delivered", DELIVERED, back))).subtag == "Exception_011"
    assert parse(result(article("Delivered", DELIVERED, warned))).tag is Tag.DELIVERED


@pytest.mark.parametrize(
    ("status", "subtag"),
    [
        ("Created", "InfoReceived_001"),
        ("Awaiting collection", "AvailableForPickup_001"),
        ("Possible delay", "Exception_001"),
        ("Article damaged", "Exception_012"),
        ("Cannot be delivered", "Exception_007"),
        ("Unsuccessful Delivery", "AttemptFail_001"),
        ("To be Re-Delivered", "AttemptFail_001"),
        ("On Board for Delivery", "OutForDelivery_001"),
        ("Delivered in Full", "Delivered_001"),
        ("Partial Delivery", "InTransit_001"),
    ],
)
def test_what_its_statuses_mean(status: str, subtag: str) -> None:
    assert parse(result(article(status))).subtag == subtag


def test_an_unknown_status_is_named_and_the_events_decide() -> None:
    told = parse(result(article("Teleported", ON_BOARD)))

    assert told.tag is Tag.OUT_FOR_DELIVERY
    assert told.unknown_codes == ("teleported",)


def test_a_consignment_is_delivered_when_all_its_articles_are() -> None:
    one = article("Delivered", DELIVERED, ON_BOARD, number="A1")
    two = article("In transit", AT_FACILITY, number="A2")
    consignment = {"consignment_id": NUMBER, "number_of_items": 2, "items": [one, two]}
    told = parse(result(consignment))

    assert (told.tag, len(told.checkpoints)) == (Tag.IN_TRANSIT, 3)
    assert parse(result({"items": [one, one | {"article_id": "A3"}]})).delivered


def test_an_article_of_a_consignment_is_read_alone() -> None:
    ours = article("Delivered", DELIVERED)
    other = article("In transit", AT_FACILITY, number="A2")

    assert parse(result({"items": [other, ours]})).delivered


def test_of_a_number_that_was_used_again_the_newest_counts_alone() -> None:
    again = article("In transit", event("2026-11-05T03:10:00", "Arrived at facility"))
    told = parse(result(article("Delivered", DELIVERED), again))

    assert (told.tag, len(told.checkpoints)) == (Tag.IN_TRANSIT, 1)


def test_the_results_status_serves_an_article_without_one() -> None:
    assert parse(result(article(None, ON_BOARD), status="Delivered")).delivered


@pytest.mark.parametrize(
    ("place", "country"),
    [
        ("CHICAGO (US)", "USA"),
        ("US-60199, UNITED STATES", "USA"),
        ("NZ", "NZL"),
        ("Transit Scan", None),
        ("KEW VIC", "AUS"),
        (None, None),
    ],
)
def test_countries_stand_in_the_place(place: str | None, country: str | None) -> None:
    told = parse(result(article("In transit", event("2026-05-05T03:10:00", "Departed", place))))

    assert told.checkpoints[0].country_iso3 == country
    assert told.checkpoints[0].location == place


def test_equal_scans_are_one() -> None:
    assert len(parse(result(article("In transit", AT_FACILITY, AT_FACILITY))).checkpoints) == 1


@pytest.mark.parametrize("code", sorted(INVALID))
def test_a_number_that_is_none_of_theirs(code: str) -> None:
    with pytest.raises(InvalidNumber):
        parse(refusal(code, "Invalid tracking ID"))


def test_a_number_that_could_not_be_found_may_be_found_later() -> None:
    told = parse({"errors": [{"code": "51104", "name": "INVALID_TRACKING_ID"}]}, 400)

    assert (told.tag, told.checkpoints) == (Tag.PENDING, ())


@pytest.mark.parametrize("code", sorted(DOWN))
def test_an_outage_is_told_inside_a_200_too(code: str) -> None:
    with pytest.raises(CourierDown):
        parse(refusal(code, "System Error"))


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, {"errors": [{"code": "51101", "name": "TOO_MANY_AP_TRACKING_IDS"}]}, RequestRefused),
        (200, refusal("ESB-77777"), RequestRefused),
        (401, {"errors": []}, AuthFailed),
        (403, {"errors": []}, AuthFailed),
        (429, {"errors": [{"error_code": "API_002"}]}, RateLimited),
        (400, {"errors": [{"error_code": "API_002"}]}, RateLimited),
        (500, {"errors": [{"code": "99999"}]}, CourierDown),
        (503, b"<html>", CourierDown),
        (404, b"<html>", UnreadableAnswer),
        (200, b"<html>", UnreadableAnswer),
        (200, {}, UnreadableAnswer),
        (200, {"tracking_results": []}, UnreadableAnswer),
        (200, result(), UnreadableAnswer),
        (200, result(article("Unknown")), UnreadableAnswer),
        (
            200,
            result(article("Delivered", {"description": "x", "date": "6 May"})),
            UnreadableAnswer,
        ),
        (200, result(article("Delivered", DELIVERED), number="OTHER"), WrongNumber),
        (204, b"", UnreadableAnswer),
    ],
)
def test_what_is_no_answer(status: int, body: object, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


def test_only_these_words_mean_delivered() -> None:
    statuses = {name for name, status in STATUSES.items() if status.tag is Tag.DELIVERED}
    sentences = {name for name, status in SENTENCES.items() if status.tag is Tag.DELIVERED}

    assert statuses == {"delivered", "delivered in full"}
    assert sentences == statuses | {"delivered - left in a safe place"}
    assert not SILENT & STATUSES.keys()


REQUEST = TrackingRequest(Slug("australia-post"), Number(NUMBER), NUMBER)
KEYS = {"api_key": "the-key", "password": "the-password", "account_number": "0123456789"}


async def test_it_is_asked_with_key_and_account(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[tuple[str, str, str]] = []

    async def site(request: web.BaseRequest) -> web.Response:
        headers = request.headers
        asked.append((request.path_qs, headers["Authorization"], headers["Account-Number"]))
        return web.json_response(result(article("Delivered", DELIVERED)))

    fetch = fetch_for(await courier(site), slug="australia-post", credentials=KEYS)
    told = await australia_post.track(fetch, REQUEST)

    assert told.delivered
    basic = base64.b64encode(b"the-key:the-password").decode()
    assert asked == [(f"/shipping/v1/track?tracking_ids={NUMBER}", f"Basic {basic}", "0123456789")]
    assert permit.steps == ["before_send", "after_send"]


async def test_without_credentials_nothing_is_asked(fetch_for: FetchFor) -> None:
    fetch = fetch_for("http://127.0.0.1:1", slug="australia-post", credentials={})
    with pytest.raises(NoCredentials, match="TRACKER_COURIERS__AUSTRALIA_POST__ACCOUNT_NUMBER"):
        await australia_post.track(fetch, REQUEST)
