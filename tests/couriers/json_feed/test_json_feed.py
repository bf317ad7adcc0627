"""Any courier behind a feed of our own shape (docs/couriers.md)."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import json_feed
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

NUMBER = "AB/12 34"


def point(at: str, message: str = "Seen", **more: object) -> dict[str, object]:
    return {"checkpoint_time": at, "message": message, "country_name": "United Kingdom"} | more


def parse(body: object, status: int = 200) -> Tracking:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return json_feed.parse(status, {}, data, NUMBER)


def test_the_smallest_answer_of_the_contract() -> None:
    told = parse({"tag": "InTransit", "checkpoints": [point("2026-01-05T08:15:00")]})

    assert (told.tag, told.subtag) == (Tag.IN_TRANSIT, "InTransit_001")
    [seen] = told.checkpoints
    assert seen.checkpoint_time == "2026-01-05T08:15:00"
    assert (seen.country_name, seen.country_iso3) == ("United Kingdom", "GBR")
    assert (seen.checkpoint_offset, seen.checkpoint_utc) == (None, None)


def test_a_whole_answer() -> None:
    told = parse(
        {
            "tag": "Delivered",
            "subtag": "Delivered_003",
            "tracking_number": "ab/1234",
            "signed_by": "J DOE",
            "expected_delivery": "2026-01-06",
            "origin": "Leeds",
            "destination": "York",
            "checkpoints": [
                point("2026-01-06T10:00:00+01:00", tag="Delivered", raw_tag=11, city="York"),
                point("2026-01-05 08:15", checkpoint_offset="+00:00", tag="InTransit"),
            ],
        }
    )

    assert told.delivered
    assert told.subtag == "Delivered_003"
    assert told.delivered_at == "2026-01-06T10:00:00"
    assert told.delivered_at_utc == datetime(2026, 1, 6, 9, tzinfo=UTC)
    assert (told.signed_by, told.origin, told.destination) == ("J DOE", "Leeds", "York")
    assert [seen.tag for seen in told.checkpoints] == [Tag.IN_TRANSIT, Tag.DELIVERED]
    assert told.checkpoints[1].raw_tag == "11"


def test_every_member_of_a_checkpoint_is_kept_in_its_own_place() -> None:
    texts = ("city", "state", "location", "message", "raw_tag")
    given = dict(zip(texts, texts, strict=True)) | {
        "postal_code": 97201,
        "country_name": "Germany",
        "tag": "Delivered",
        "subtag": "Delivered_002",
    }

    [seen] = parse(
        {"tag": "InTransit", "checkpoints": [point("2026-01-05T08:15:00-03:30", **given)]}
    ).checkpoints

    assert seen._asdict() == given | {
        "checkpoint_time": "2026-01-05T08:15:00",
        "checkpoint_offset": "-03:30",
        "checkpoint_utc": datetime(2026, 1, 5, 11, 45, tzinfo=UTC),
        "country_iso3": "DEU",
        "postal_code": "97201",
    }


@pytest.mark.parametrize("tag", list(Tag))
def test_every_tag_is_known(tag: Tag) -> None:
    assert parse({"tag": tag, "checkpoints": []}).tag is tag


def test_without_a_tag_the_newest_tagged_checkpoint_decides() -> None:
    told = parse(
        {
            "checkpoints": [
                point("2026-01-05T08:00:00", tag="InTransit"),
                point("2026-01-05T09:00:00", tag="OutForDelivery"),
                point("2026-01-05T10:00:00"),
            ]
        }
    )

    assert told.tag is Tag.OUT_FOR_DELIVERY


def test_a_404_is_not_found_yet() -> None:
    told = parse(b"whatever", 404)

    assert (told.tag, told.checkpoints) == (Tag.PENDING, ())


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, {"tag": "Arrived", "checkpoints": []}, UnreadableAnswer),
        (200, {"tag": "Delivered", "subtag": "Exception_011"}, UnreadableAnswer),
        (200, {"checkpoints": [point("2026-01-05T08:00:00")]}, UnreadableAnswer),
        (200, {"tag": "InTransit", "checkpoints": [{"message": "x"}]}, UnreadableAnswer),
        (200, {"tag": "InTransit", "checkpoints": [point("soon")]}, UnreadableAnswer),
        (200, {"tag": "InTransit", "checkpoints": "none"}, UnreadableAnswer),
        (200, {}, UnreadableAnswer),
        (200, b"<html>", UnreadableAnswer),
        (200, b'{"tag": "InTransit", "checkpoints": ' + b"[" * 100_000, UnreadableAnswer),
        (200, b'{"tag": "In\xff"}', UnreadableAnswer),
        (200, {"tag": "InTransit", "tracking_number": "OTHER"}, WrongNumber),
        (400, b"", RequestRefused),
        (302, b"", RequestRefused),
        (401, b"", AuthFailed),
        (410, b"", UnreadableAnswer),
        (429, b"", RateLimited),
        (502, b"", CourierDown),
    ],
)
def test_what_is_no_answer(status: int, body: object, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


def asked(number: str) -> TrackingRequest:
    return TrackingRequest(Slug("my-courier"), Number(number), number)


@pytest.mark.parametrize(("token", "header"), [("", None), ("abcd", "Bearer abcd")])
async def test_the_feed_is_asked_by_slug_and_number(
    token: str, header: str | None, courier: Courier, fetch_for: FetchFor
) -> None:
    seen: list[tuple[str, str | None]] = []

    async def site(request: web.BaseRequest) -> web.Response:
        seen.append((request.raw_path, request.headers.get("Authorization")))
        return web.json_response({"tag": "Pending", "checkpoints": []})

    address = await courier(site)
    fetch = fetch_for(f"{address}/feed/", slug="my-courier", credentials={"token": token})
    told = await json_feed.track(fetch, asked(NUMBER))

    assert told.tag is Tag.PENDING
    assert seen == [("/feed/my-courier/AB%2F12%2034", header)]


async def test_a_number_with_a_step_upwards_is_refused_without_a_call(
    fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    with pytest.raises(InvalidNumber):
        await json_feed.track(fetch_for("http://127.0.0.1:1"), asked("AB/../CD"))

    assert permit.steps == []
