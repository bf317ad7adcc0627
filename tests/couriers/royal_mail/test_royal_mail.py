"""Royal Mail Tracking API v2. The answers are written after its specification."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import royal_mail
from couriers.royal_mail import CODES, DOWN, INVALID, NOT_YET, OURS, TOO_MANY
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

NUMBER = "FQ000000015GB"


def event(at: str, code: str, what: str = "", place: str = "Stafford DO") -> dict[str, object]:
    return {"eventCode": code, "eventName": what, "eventDateTime": at, "locationName": place}


LABEL = event("2026-03-02T09:30:00+00:00", "EVAIE", "Sender preparing item")
AT_OFFICE = event("2026-03-03T17:40:00+00:00", "EVORI", "Arrived at")
OUT = event("2026-04-05T08:10:00+01:00", "EVGPD", "Due to be delivered today")
DELIVERED = event("2026-04-05T13:05:00+01:00", "EVKSP", "Delivered and Signed")


def piece(*events: dict[str, object], **more: object) -> dict[str, object]:
    told = {
        "mailPieceId": "090367574000000FE1E1B",
        "summary": {"oneDBarcode": NUMBER, "statusCategory": "IN TRANSIT"},
        "events": list(events),
    }
    return {"mailPieces": told | more}


def refusal(code: str, http_code: str = "400") -> dict[str, object]:
    error = {"errorCode": code, "errorDescription": "no"}
    return {"httpCode": http_code, "httpMessage": "x", "errors": [error]}


def parse(body: object, status: int = 200) -> Tracking:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return royal_mail.parse(status, {}, data, NUMBER)


def test_a_delivered_item() -> None:
    told = parse(
        piece(
            DELIVERED,
            OUT,
            AT_OFFICE,
            LABEL,
            signature={"recipientName": "Simon"},
            estimatedDelivery={"date": "2026-04-05"},
        )
    )

    assert (told.tag, told.subtag) == (Tag.DELIVERED, "Delivered_003")
    assert told.delivered_at == "2026-04-05T13:05:00"
    assert told.delivered_at_utc == datetime(2026, 4, 5, 12, 5, tzinfo=UTC)
    assert told.signed_by == "Simon"
    assert told.expected_delivery == "2026-04-05"
    assert told.checkpoints[0].message == "Sender preparing item"
    assert told.checkpoints[0].location == "Stafford DO"


def test_a_signature_in_transit_is_no_delivery() -> None:
    told = parse(piece(OUT, signature={"recipientName": "Simon"}))

    assert told.tag is Tag.OUT_FOR_DELIVERY
    assert told.signed_by is None


def test_events_come_out_the_same_in_either_order() -> None:
    assert parse(piece(LABEL, AT_OFFICE, OUT)) == parse(piece(OUT, AT_OFFICE, LABEL))


@pytest.mark.parametrize(
    ("code", "what", "subtag"),
    [
        ("EVKOP", "Delivered by", "Delivered_001"),
        ("EVKLS", "Delivered to Your Collection Point by", "AvailableForPickup_001"),
        ("EVPLA", "Available for collection", "AvailableForPickup_001"),
        ("EVPLC", "Collected", "Delivered_002"),
        ("EVKNA", "Delivery Attempted - No Answer", "AttemptFail_002"),
        ("EVNMI", "Forwarded - Mis-sort", "InTransit_009"),
        ("EVNRT", "Item Retention", "Exception_001"),
        ("ECCSB", "Collection request booked", "InfoReceived_001"),
        ("EVCAD", "Item Collected", "InTransit_002"),
        ("EVIPP", "Received at Delivery Depot", "InTransit_003"),
        ("EVHAC", "Item Received by Royal Mail", "InTransit_003"),
        ("EVHOE", "Item Leaving the UK", "InTransit_007"),
        ("EVIIS", "Item received at Sorting Office", "InTransit_003"),
        ("EVGID", "Arrived at Delivery Office", "InTransit_003"),
        ("EVKPD", "Due to be delivered today", "OutForDelivery_001"),
        ("EVKOP", "Delivered: returned to sender", "Exception_010"),
        ("EVXXX", "Delivered by somebody new", "InTransit_001"),
    ],
)
def test_what_its_codes_mean(code: str, what: str, subtag: str) -> None:
    assert parse(piece(event("2026-04-05T08:10:00+01:00", code, what))).subtag == subtag


def test_a_list_of_mail_pieces_is_searched_for_ours() -> None:
    mine, other = piece(OUT)["mailPieces"], piece(DELIVERED)["mailPieces"]
    assert isinstance(other, dict)
    other |= {"mailPieceId": "X", "summary": {"oneDBarcode": "FQ000000029GB"}}

    assert parse({"mailPieces": [other, mine]}).tag is Tag.OUT_FOR_DELIVERY
    assert parse({"mailPieces": [mine]}) == parse({"mailPieces": mine})


def test_a_summary_without_events_is_the_one_event_that_is_told() -> None:
    last = {
        "lastEventCode": "EVKOP",
        "lastEventName": "Delivered by",
        "lastEventDateTime": "2026-04-05T13:05:00+01:00",
        "lastEventLocationName": "Stafford DO",
    }
    told = parse(piece(summary={"oneDBarcode": NUMBER, "statusCategory": "Delivered"} | last))

    assert (told.tag, told.delivered_at) == (Tag.DELIVERED, "2026-04-05T13:05:00")
    assert [point.location for point in told.checkpoints] == ["Stafford DO"]


@pytest.mark.parametrize(
    ("code", "error"), [("401", AuthFailed), (429, RateLimited), ("503", CourierDown)]
)
def test_a_status_inside_the_answer_counts_where_no_error_is_named(
    code: object, error: type[CourierError]
) -> None:
    with pytest.raises(error):
        parse({"httpCode": code, "httpMessage": "no"})


def test_without_an_event_that_tells_anything_the_category_does() -> None:
    silent = event("2026-04-05T08:10:00+01:00", "RSRXS", "Request")
    told = parse(piece(silent, summary={"oneDBarcode": NUMBER, "statusCategory": "Delivered"}))

    assert told.delivered
    assert told.delivered_at is None


@pytest.mark.parametrize(
    ("codes", "error"),
    [
        (INVALID, InvalidNumber),
        (DOWN, CourierDown),
        (TOO_MANY, RateLimited),
        (OURS, RequestRefused),
    ],
)
def test_its_error_codes_decide_whatever_the_status_is(
    codes: frozenset[str], error: type[CourierError]
) -> None:
    for code in codes:
        for status in (200, 400, 404):
            with pytest.raises(error):
                parse(refusal(code), status)
            with pytest.raises(error):
                parse({"mailPieces": {"error": {"errorCode": code}}}, status)


@pytest.mark.parametrize("code", sorted(NOT_YET))
@pytest.mark.parametrize("status", [200, 400, 404])
def test_no_update_yet_is_not_found_yet(code: str, status: int) -> None:
    assert parse(refusal(code), status).tag is Tag.PENDING


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, {"httpCode": 503, "errors": []}, CourierDown),
        (400, refusal("E9999"), RequestRefused),
        (404, {"httpCode": 404, "httpMessage": "Not Found"}, UnreadableAnswer),
        (404, b"<html>", UnreadableAnswer),
        (200, {}, UnreadableAnswer),
        (200, piece(), UnreadableAnswer),
        (200, b"<html>", UnreadableAnswer),
        (200, piece(event("5 April", "EVKOP")), UnreadableAnswer),
        (401, {"httpCode": 401}, AuthFailed),
        (429, refusal("E0010"), RateLimited),
        (500, refusal("E0009"), CourierDown),
    ],
)
def test_what_is_no_answer(status: int, body: object, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


def test_another_mail_piece_is_not_ours() -> None:
    with pytest.raises(WrongNumber):
        parse(piece(OUT, summary={"oneDBarcode": "FQ000000029GB"}))


def test_only_these_codes_mean_delivered() -> None:
    delivered = {code for code, status in CODES.items() if status.tag is Tag.DELIVERED}

    assert delivered == {"EVKOP", "EVKSF", "EVKSP", "EVPLC"}


REQUEST = TrackingRequest(Slug("royal-mail"), Number(NUMBER), NUMBER)


async def test_it_is_asked_with_both_keys_and_the_terms_accepted(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[tuple[str, list[str | None]]] = []
    names = ("X-IBM-Client-Id", "X-IBM-Client-Secret", "X-Accept-RMG-Terms")

    async def site(request: web.BaseRequest) -> web.Response:
        asked.append((request.path, [request.headers.get(name) for name in names]))
        return web.json_response(piece(DELIVERED))

    told = await royal_mail.track(fetch_for(await courier(site), slug="royal-mail"), REQUEST)

    assert told.delivered
    assert asked == [(f"/mailpieces/v2/{NUMBER}/events", ["the-client", "the-secret", "yes"])]
    assert permit.steps == ["before_send", "after_send"]


async def test_without_credentials_nothing_is_asked(fetch_for: FetchFor) -> None:
    fetch = fetch_for("http://127.0.0.1:1", slug="royal-mail", credentials={})
    with pytest.raises(NoCredentials, match="TRACKER_COURIERS__ROYAL_MAIL__CLIENT_SECRET"):
        await royal_mail.track(fetch, REQUEST)
