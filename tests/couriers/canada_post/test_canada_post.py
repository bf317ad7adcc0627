"""Canada Post's Get Tracking Details. The answers are written after its XML schema."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import canada_post
from couriers.canada_post.codes import CODES, REFUSED, SILENT
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

NUMBER = "7000000000000018"
CARD = "300000000000017"


def event(code: str, at: str, what: str = "", place: str = "QUEBEC,QC", **more: str) -> str:
    day, _, clock = at.partition("T")
    site, _, province = place.rpartition(",")
    told = {
        "event-identifier": code,
        "event-date": day,
        "event-time": clock,
        "event-time-zone": "EST",
        "event-description": what,
        "signatory-name": "",
        "event-site": site or province,
        "event-province": province if site else "",
        "event-retail-name": "",
    } | {name.replace("_", "-"): value for name, value in more.items()}
    inside = "".join(f"<{name}>{value}</{name}>" for name, value in told.items())
    return f"<occurrence>{inside}</occurrence>"


LABEL = event("3000", "2026-02-02T14:00:00", "Electronic information submitted by shipper")
PROCESSED = event("0100", "2026-02-03T19:30:00", "Item processed", "MONTREAL,QC")
OUT = event("0174", "2026-02-04T08:27:43", "Item out for delivery")
CARD_LEFT = event("1479", "2026-02-04T11:10:00", "Notice card left indicating where and when")
DELIVERED = event("1496", "2026-02-05T11:59:59", "Delivered")
SIGNED = event("20", "2026-02-05T11:59:59", "Signature available", signatory_name="R ROY")


def parcel(*events: str, pin: str = NUMBER, more: str = "") -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<tracking-detail xmlns="http://www.canadapost.ca/ws/track">'
        f"<pin>{pin}</pin>{more}"
        "<expected-delivery-date>2026-02-04</expected-delivery-date>"
        "<destination-postal-id>G1K4M7</destination-postal-id>"
        f"<significant-events>{''.join(events)}</significant-events></tracking-detail>"
    )


def message(code: str, what: str) -> str:
    return (
        '<messages xmlns="http://www.canadapost.ca/ws/messages"><message>'
        f"<code>{code}</code><description>{what}</description></message></messages>"
    )


UNKNOWN = message("004", "No Pin History")


def parse(body: str, status: int = 200, number: str = NUMBER) -> Tracking:
    return canada_post.parse(status, {}, body.encode(), number)


def test_a_delivered_parcel() -> None:
    told = parse(parcel(SIGNED, DELIVERED, OUT, PROCESSED, LABEL))

    assert (told.tag, told.subtag) == (Tag.DELIVERED, "Delivered_001")
    assert told.delivered_at == "2026-02-05T11:59:59"
    assert told.delivered_at_utc == datetime(2026, 2, 5, 16, 59, 59, tzinfo=UTC)
    assert told.signed_by == "R ROY"
    assert told.expected_delivery == "2026-02-04"
    assert told.destination == "G1K4M7"
    first = told.checkpoints[0]
    assert (first.raw_tag, first.tag) == ("3000", Tag.INFO_RECEIVED)
    assert (first.city, first.state, first.country_iso3) == ("QUEBEC", "QC", "CAN")
    assert (first.checkpoint_time, first.checkpoint_offset) == ("2026-02-02T14:00:00", "-05:00")


def test_a_parcel_under_way() -> None:
    told = parse(
        parcel(PROCESSED, LABEL, more="<changed-expected-date>2026-02-06</changed-expected-date>")
    )

    assert (told.tag, told.subtag) == (Tag.IN_TRANSIT, "InTransit_001")
    assert told.expected_delivery == "2026-02-06"
    assert told.delivered_at is None


def test_a_parcel_out_for_delivery() -> None:
    assert parse(parcel(OUT, PROCESSED)).tag is Tag.OUT_FOR_DELIVERY


def test_a_notice_card_means_that_the_parcel_waits() -> None:
    assert parse(parcel(CARD_LEFT, OUT)).tag is Tag.AVAILABLE_FOR_PICKUP


def test_a_signature_before_a_second_delivery_decides_nothing() -> None:
    signature = event("20", "2026-02-06T12:00:00", "Signature available", signatory_name="X")
    again = event("0500", "2026-02-06T08:00:00", "Out for delivery")
    told = parse(parcel(signature, again, DELIVERED))

    assert told.tag is Tag.OUT_FOR_DELIVERY
    assert (told.delivered_at, told.signed_by) == (None, None)


@pytest.mark.parametrize(
    ("code", "what", "subtag"),
    [
        ("1408", "Delivered; contact customer service for copy of signature", "Delivered_003"),
        ("1441", "Delivered to community mailbox or parcel locker", "Delivered_001"),
        ("1405", "Delivered to automated parcel locker", "AvailableForPickup_001"),
        ("1406", "Item picked up from automated parcel locker", "Delivered_002"),
        ("0156", "Final Notice; Item will be returned to sender", "AvailableForPickup_001"),
        ("1411", "Business closed for the day", "AttemptFail_003"),
        ("0173", "Customer addressing error found", "Exception_007"),
        ("1417", "Item refused by recipient. Item being returned to sender.", "Exception_010"),
        ("1496", "Item successfully returned to sender", "Exception_011"),
        ("0174", "Item being returned to sender is out for delivery", "Exception_010"),
        ("0810", "Item held by Customs", "Exception_004"),
        ("2601", "Item is en route to Canadian Customs", "InTransit_006"),
        ("1444", "Delivery scheduled for next business day", "InTransit_001"),
        ("9999", "Delivered by a drone", "InTransit_001"),
        ("9999", "Item out for delivery", "OutForDelivery_001"),
    ],
)
def test_what_its_codes_mean(code: str, what: str, subtag: str) -> None:
    told = parse(parcel(event(code, "2026-02-05T10:00:00", what)))

    assert told.subtag == subtag
    assert told.checkpoints[0].raw_tag == code


@pytest.mark.parametrize("code", sorted(SILENT))
def test_a_notice_after_a_delivery_does_not_undo_it(code: str) -> None:
    notice = event(code, "2026-02-05T12:30:00", "Delivery preference")

    assert parse(parcel(notice, DELIVERED)).delivered


def test_abroad_there_is_no_offset_and_the_country_stands_behind_the_comma() -> None:
    scan = event("4500", "2026-02-02T11:53:00", "Released", "", event_time_zone="ISRAEL")
    scan = scan.replace("<event-site></event-site>", "<event-site>ILTLVA,Israel</event-site>")
    point = parse(parcel(scan)).checkpoints[0]

    assert (point.checkpoint_offset, point.checkpoint_utc) == (None, None)
    assert (point.country_iso3, point.location, point.city) == ("ISR", "ILTLVA,Israel", None)


def test_blanks_before_the_document_do_no_harm() -> None:
    assert parse(f"\n  {parcel(OUT)}\n").tag is Tag.OUT_FOR_DELIVERY


def test_a_day_without_a_time_stays_a_day() -> None:
    assert parse(parcel(event("0100", "2026-02-02"))).checkpoints[0].checkpoint_time == "2026-02-02"


def test_a_card_leads_to_a_parcel_of_another_number() -> None:
    assert parse(parcel(CARD_LEFT), number=CARD).tag is Tag.AVAILABLE_FOR_PICKUP


def test_another_parcel_is_not_ours_unless_ours_was_its_first_number() -> None:
    renamed = f"<original-pin>{NUMBER}</original-pin>"

    assert parse(parcel(OUT, pin="7000000000000026", more=renamed)).tag is Tag.OUT_FOR_DELIVERY
    with pytest.raises(WrongNumber):
        parse(parcel(OUT, pin="7000000000000026"))


@pytest.mark.parametrize("status", [200, 400, 404])
def test_no_history_is_not_found_yet(status: int) -> None:
    told = parse(UNKNOWN, status)

    assert (told.tag, told.checkpoints) == (Tag.PENDING, ())


@pytest.mark.parametrize("code", sorted(REFUSED))
@pytest.mark.parametrize("status", [200, 400, 401, 403, 500])
def test_refused_credentials_are_told_by_their_code(code: str, status: int) -> None:
    with pytest.raises(AuthFailed):
        parse(message(code, "AAA Authentication Failure"), status)


def test_throttling_hides_in_any_status_and_ends_after_a_minute() -> None:
    for status in (200, 500, 504):
        with pytest.raises(RateLimited) as limited:
            parse(message("Server", "Rejected by SLM Monitor"), status)
        assert limited.value.retry_after == 60


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, message("9105", "Invalid PIN"), InvalidNumber),
        (400, message("9105", "Required query parameter not provided"), RequestRefused),
        (401, "", AuthFailed),
        (429, "slow down", RateLimited),
        (500, message("Server", "Schema validation"), CourierDown),
        (503, "<html>", CourierDown),
        (404, "<html></html>", UnreadableAnswer),
        (200, "<html><p>unclosed</html>", UnreadableAnswer),
        (200, "<html></html>", UnreadableAnswer),
        (200, "", UnreadableAnswer),
        (200, "{}", UnreadableAnswer),
        (200, parcel(), UnreadableAnswer),
        (200, parcel(event("1496", "05/02/2026")), UnreadableAnswer),
        (200, '<!DOCTYPE a [<!ENTITY b "c">]><tracking-detail/>', UnreadableAnswer),
    ],
)
def test_what_is_no_answer(status: int, body: str, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


def test_only_these_codes_mean_delivered() -> None:
    delivered = {int(code) for code, status in CODES.items() if status.tag is Tag.DELIVERED}
    of_the_guide = {1408, 1409, *range(1421, 1435), 1441, 1442, *range(1496, 1500)}
    of_the_table = {1406, 1461, 1462, 1463, *range(1465, 1470), 1471, 1472, 1473, 1475, 1476, 5300}

    assert delivered == of_the_guide | of_the_table
    assert not SILENT & CODES.keys()


REQUEST = TrackingRequest(Slug("canada-post"), Number(NUMBER), NUMBER)
KEY = {"username": "the-user", "password": "the-password"}


@pytest.mark.parametrize(("number", "kind"), [(NUMBER, "pin"), (CARD, "dnc")])
async def test_it_is_asked_by_parcel_or_by_card(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit, number: str, kind: str
) -> None:
    asked: list[tuple[str, str, str]] = []

    async def site(request: web.BaseRequest) -> web.Response:
        headers = request.headers
        asked.append((request.path, headers["Accept"], headers["Authorization"]))
        return web.Response(text=parcel(DELIVERED), content_type="application/xml")

    fetch = fetch_for(await courier(site), slug="canada-post", credentials=KEY)
    request = TrackingRequest(Slug("canada-post"), Number(number), number)
    told = await canada_post.track(fetch, request)

    assert told.delivered
    basic = base64.b64encode(b"the-user:the-password").decode()
    path = f"/vis/track/{kind}/{number}/detail"
    assert asked == [(path, "application/vnd.cpc.track-v2+xml", f"Basic {basic}")]
    assert permit.steps == ["before_send", "after_send"]


async def test_without_credentials_nothing_is_asked(fetch_for: FetchFor) -> None:
    fetch = fetch_for("http://127.0.0.1:1", slug="canada-post", credentials={})
    with pytest.raises(NoCredentials, match="TRACKER_COURIERS__CANADA_POST__PASSWORD"):
        await canada_post.track(fetch, REQUEST)


async def test_a_number_of_other_characters_is_invalid_without_a_call(fetch_for: FetchFor) -> None:
    fetch = fetch_for("http://127.0.0.1:1", slug="canada-post", credentials=KEY)
    request = TrackingRequest(Slug("canada-post"), Number("70 00/1"), "70 00/1")
    with pytest.raises(InvalidNumber):
        await canada_post.track(fetch, request)
