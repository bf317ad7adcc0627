"""What USPS answers when it has nothing to tell, in both versions of its tracking API."""

from __future__ import annotations

import pytest
from usps_replies import DELIVERED, NUMBER, item, parse, refusal

from couriers.usps.codes import NEVER, NOT_YET
from tracking.checkpoint import Tag
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
        (400, {"error": "invalid_client", "error_description": "no"}, AuthFailed),
        (200, {"error": "access_denied"}, AuthFailed),
        (400, {"error": "something else"}, UnreadableAnswer),
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
