"""Hongkong Post: unverified, so these tests hold what the module assumes, in its own names."""

from __future__ import annotations

import json

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import hong_kong_post
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

NUMBER = "EA999580311HK"


def event(at: str, what: str, country: str = "Hong Kong") -> dict[str, str]:
    return {"eventDateTime": at, "status": what, "country": country}


POSTED = event("28-Jul-2014", "Item posted and is being processed.")
CENTRE = event("28-Jul-2014", "The item arrived at processing centre.")
LEFT = event("28-Jul-2014", "The item left Hong Kong for its destination on 29-Jul-2014")
ABROAD = event("29-Jul-2014", "Arrived and is being processed.", "United States of America")
DELIVERED = event("31-Jul-2014", "Delivered.", "United States of America")


def reply(*events: dict[str, str], **more: object) -> bytes:
    item = {"itemNo": NUMBER, "events": list(events)} | more
    return json.dumps({"items": [item]}).encode()


def parse(body: bytes, status: int = 200) -> Tracking:
    return hong_kong_post.parse(status, {}, body, NUMBER)


def test_a_delivered_item_listed_newest_first() -> None:
    told = parse(reply(DELIVERED, ABROAD, LEFT, CENTRE, POSTED))

    assert told.delivered
    assert told.delivered_at == "2014-07-31"
    assert told.delivered_at_utc is None
    assert [point.message for point in told.checkpoints] == [
        event["status"] for event in (POSTED, CENTRE, LEFT, ABROAD, DELIVERED)
    ]
    assert told.checkpoints[-1].country_iso3 == "USA"
    assert told.checkpoints[0].country_iso3 == "HKG"


def test_an_item_listed_oldest_first_comes_out_the_same() -> None:
    backwards = parse(reply(DELIVERED, ABROAD, POSTED))

    assert parse(reply(POSTED, ABROAD, DELIVERED)) == backwards


def test_leaving_hong_kong_is_no_delivery() -> None:
    told = parse(reply(LEFT))

    assert (told.tag, told.subtag) == (Tag.IN_TRANSIT, "InTransit_007")


@pytest.mark.parametrize(
    ("what", "subtag"),
    [
        ("Sender is preparing item for posting", "InfoReceived_001"),
        ("Posted", "InTransit_002"),
        ("Handed over to carrier / Left for destination", "InTransit_007"),
        ("Held by customs", "InTransit_006"),
        ("Delivery incomplete", "AttemptFail_001"),
        ("Delivered", "Delivered_001"),
        ("Delivered to post office for collection", "AvailableForPickup_001"),
        ("Return to sender", "Exception_010"),
        ("Something new", "InTransit_001"),
    ],
)
def test_what_its_sentences_mean(what: str, subtag: str) -> None:
    assert parse(reply(event("29-07-2014 09:05", what))).subtag == subtag


def test_no_record_is_not_found_yet_with_or_without_an_item() -> None:
    assert parse(reply(message="No record found")).tag is Tag.PENDING
    assert parse(b'{"message": "The system has no record of the mail item"}').tag is Tag.PENDING


def test_an_invalid_number_is_final() -> None:
    with pytest.raises(InvalidNumber):
        parse(reply(message="Invalid Mail Number!"))


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, b"<html>", UnreadableAnswer),
        (200, b"{}", UnreadableAnswer),
        (200, reply(), UnreadableAnswer),
        (200, reply(event("yesterday", "Posted")), UnreadableAnswer),
        (200, b'{"items": []}', WrongNumber),
        (200, b'{"items": [{"itemNo": "RT000000000HK", "events": []}]}', WrongNumber),
        (400, b'{"message": "bad"}', RequestRefused),
        (401, b"", AuthFailed),
        (404, b"{}", UnreadableAnswer),
        (429, b"", RateLimited),
        (500, b"", CourierDown),
    ],
)
def test_what_is_no_answer(status: int, body: bytes, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


REQUEST = TrackingRequest(Slug("hong-kong-post"), Number(NUMBER), NUMBER)


async def test_a_token_is_fetched_and_the_number_asked_in_a_batch_of_one(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[tuple[str, object, str | None]] = []

    async def site(request: web.BaseRequest) -> web.Response:
        body = json.loads(await request.read())
        asked.append((request.path, body, request.headers.get("Authorization")))
        if request.path == "/token":
            return web.json_response({"token": "the-token"})
        return web.Response(body=reply(DELIVERED))

    credentials = {"username": "shop", "password": "hidden"}
    fetch = fetch_for(await courier(site), slug="hong-kong-post", credentials=credentials)
    told = await hong_kong_post.track(fetch, REQUEST)

    assert told.delivered
    assert asked == [
        ("/token", credentials, None),
        ("/api/version/1/mailTracking", {"itemNo": [NUMBER]}, "Bearer the-token"),
    ]
    assert permit.steps == ["before_send", "after_send"]


async def test_without_credentials_nothing_is_asked(
    fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    fetch = fetch_for("http://127.0.0.1:1", slug="hong-kong-post", credentials={})
    with pytest.raises(NoCredentials, match="TRACKER_COURIERS__HONG_KONG_POST__USERNAME"):
        await hong_kong_post.track(fetch, REQUEST)

    assert permit.steps == []
