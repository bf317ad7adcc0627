"""New Zealand Post's ParcelTrack, version 3.0. The answers are written after its description."""

from __future__ import annotations

import json

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import new_zealand_post
from couriers.new_zealand_post import CODES, SILENT
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

NUMBER = "EA000000018NZ"

Json = dict[str, object]


def event(at: str, code: str, what: str = "", short: str = "", **more: object) -> Json:
    return {
        "tracking_reference": NUMBER,
        "event_edifact_code": code,
        "source": "CME",
        "seqref": "1",
        "status_description": short,
        "event_description": what,
        "event_datetime": at,
        "signed_by": {"name": "", "signature": ""},
        **more,
    }


PICKED_UP = event("2026-01-19T10:05:13", "13", "Picked up by our courier.", "Picked up")
SORTED = event("2026-01-19T21:30:00", "8", "", "Processing at depot")
LOADED = event("2026-01-20T08:15:00", "32", "With courier.", "With courier for delivery")
WAITING = event("2026-01-20T12:00:00", "149", "Ready to collect.", "Ready to collect")
SIGNATURE = {"name": "A Person", "signature": "AAAA"}
DELIVERED = event(
    "2026-01-20T14:19:00", "22", "Your item was delivered.", "Delivered", signed_by=SIGNATURE
)


def reply(*events: Json, number: str = NUMBER) -> Json:
    results = {
        "tracking_reference": number,
        "message_datetime": "2026-01-20T20:00:00.0000000Z",
        "carrier": "CourierPost",
        "tracking_events": list(events),
    }
    return {"success": True, "results": results, "message_id": "1"}


def refusal(code: str, message: str = "no", details: str = "") -> Json:
    return {"success": False, "errors": {"code": code, "message": message, "details": details}}


def parse(body: object, status: int = 200) -> Tracking:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return new_zealand_post.parse(status, {}, data, NUMBER)


def test_a_delivered_parcel() -> None:
    told = parse(reply(PICKED_UP, SORTED, LOADED, DELIVERED))

    assert (told.tag, told.subtag) == (Tag.DELIVERED, "Delivered_001")
    assert (told.delivered_at, told.delivered_at_utc) == ("2026-01-20T14:19:00", None)
    assert (told.signed_by, told.unknown_codes) == ("A Person", ())
    messages = [(point.raw_tag, point.message) for point in told.checkpoints]
    assert messages[:2] == [("13", "Picked up by our courier."), ("8", "Processing at depot")]


def test_events_are_read_in_either_order() -> None:
    assert parse(reply(DELIVERED, LOADED, PICKED_UP)) == parse(reply(PICKED_UP, LOADED, DELIVERED))


@pytest.mark.parametrize(
    ("newest", "tag"),
    [(SORTED, Tag.IN_TRANSIT), (LOADED, Tag.OUT_FOR_DELIVERY), (WAITING, Tag.AVAILABLE_FOR_PICKUP)],
)
def test_a_parcel_under_way(newest: Json, tag: Tag) -> None:
    told = parse(reply(PICKED_UP, newest))

    assert (told.tag, told.signed_by, told.delivered_at) == (tag, None, None)


@pytest.mark.parametrize(
    ("code", "what", "subtag"),
    [
        ("42", "", "AttemptFail_001"),
        ("63", "", "Exception_008"),
        ("544", "", "Exception_001"),
        ("578", "", "Exception_010"),
        ("67", "", "Exception_011"),
        ("22", "Delivered to the sender", "Exception_011"),
        ("22", "Delivered to a parcel locker", "AvailableForPickup_001"),
        ("5999", "Held by customs", "InTransit_006"),
        ("5999", "Delivered", "InTransit_001"),
    ],
)
def test_what_its_codes_mean(code: str, what: str, subtag: str) -> None:
    told = parse(reply(PICKED_UP, event("2026-01-20T12:00:00", code, what)))

    assert told.checkpoints[-1].subtag == subtag
    assert told.unknown_codes == (("5999",) if code == "5999" else ())


@pytest.mark.parametrize("code", sorted(SILENT))
def test_a_wish_after_a_delivery_does_not_undo_it(code: str) -> None:
    assert parse(reply(DELIVERED, event("2026-01-20T15:00:00", code))).delivered


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, reply()),
        (200, {"success": True, "results": {"tracking_reference": NUMBER}}),
        (200, {"success": "True"}),
        (404, {"success": False, "errors": {"code": "404001", "message": "Not found"}}),
    ],
)
def test_an_unknown_number_may_become_known(status: int, body: Json) -> None:
    told = parse(body, status)

    assert (told.tag, told.checkpoints) == (Tag.PENDING, ())


def test_no_events_while_a_system_is_silent_is_an_outage() -> None:
    partial = {"code": "200001", "message": "Partial results returned"}

    with pytest.raises(CourierDown):
        parse(reply() | {"errors": partial})
    assert parse(reply(DELIVERED) | {"errors": partial}).delivered


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, refusal("400002", "Invalid parameter(s)"), InvalidNumber),
        (400, refusal("400002", "Invalid", "Unauthorised access"), AuthFailed),
        (400, refusal("400001"), RequestRefused),
        (400, refusal("400999"), RequestRefused),
        (200, refusal("401001"), AuthFailed),
        (200, refusal("500002"), CourierDown),
        (401, b"", AuthFailed),
        (429, b"", RateLimited),
        (503, b"<html>", CourierDown),
        (404, {}, UnreadableAnswer),
        (404, b"<html>", UnreadableAnswer),
        (200, b"<html>", UnreadableAnswer),
        (200, {}, UnreadableAnswer),
        (200, refusal("999999"), UnreadableAnswer),
        (200, reply(event("20/01/2026", "22")), UnreadableAnswer),
        (200, reply(DELIVERED, number="EA000000021NZ"), WrongNumber),
    ],
)
def test_what_is_no_answer(status: int, body: object, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


def test_only_one_code_means_delivered() -> None:
    delivered = {code for code, status in CODES.items() if status.tag is Tag.DELIVERED}

    assert delivered == {"22"}
    assert not SILENT & CODES.keys()


REQUEST = TrackingRequest(Slug("new-zealand-post"), Number(NUMBER), NUMBER)


async def test_it_is_asked_with_a_token_and_the_clients_id(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[tuple[str, str | None, str | None]] = []

    async def site(request: web.BaseRequest) -> web.Response:
        if request.method == "POST":
            assert dict(await request.post()) == {
                "grant_type": "client_credentials",
                "client_id": "the-client",
                "client_secret": "the-secret",
            }
            return web.json_response({"access_token": "the-token", "expires_in": 86399})
        names = ("Authorization", "client_id")
        asked.append((request.path_qs, *(request.headers.get(name) for name in names)))
        return web.json_response(reply(DELIVERED))

    fetch = fetch_for(await courier(site), slug="new-zealand-post")
    told = await new_zealand_post.track(fetch, REQUEST)

    assert told.delivered
    path = f"/parceltrack/3.0/parcels/{NUMBER}"
    assert asked == [(path, "Bearer the-token", "the-client")]
    assert permit.steps == ["before_send", "after_send"]


async def test_without_credentials_nothing_is_asked(fetch_for: FetchFor) -> None:
    fetch = fetch_for("http://127.0.0.1:1", slug="new-zealand-post", credentials={})
    with pytest.raises(NoCredentials, match="TRACKER_COURIERS__NEW_ZEALAND_POST__CLIENT_ID"):
        await new_zealand_post.track(fetch, REQUEST)
