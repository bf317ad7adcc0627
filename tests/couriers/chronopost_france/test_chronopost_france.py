"""Chronopost. The answers are written after the types of its service description."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.sax.saxutils import escape

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import chronopost_france
from couriers.chronopost_france import CODES, SILENT
from couriers.reading.xml import read_xml
from tracking.checkpoint import Tag, Tracking
from tracking.errors import (
    AuthFailed,
    CourierDown,
    CourierError,
    RateLimited,
    UnreadableAnswer,
    WrongNumber,
)
from tracking.request import Number, Slug, TrackingRequest

NUMBER = "XY000000016JF"


def event(code: str, at: str, what: str = "", office: str = "") -> str:
    return (
        f"<events><code>{code}</code><eventDate>{at}+01:00</eventDate>"
        f"<eventLabel>{escape(what)}</eventLabel><highPriority>false</highPriority>"
        f"<officeLabel>{office}</officeLabel><zipCode>75015</zipCode></events>"
    )


ANNOUNCED = event("DC", "2026-01-12T10:00:00", "Shipment being prepared by the sender")
HANDED_IN = event("DB", "2026-01-12T16:30:00", "Shipment dropped off")
SORTED = event("SC", "2026-01-13T04:12:00", "Sorted", "CHILLY CHRONOPOST")
ON_TOUR = event("TA", "2026-01-14T07:05:00", "Shipment out for delivery")
DELIVERED = event("D", "2026-01-14T11:41:00", "Delivered")


def answer(*events: str, number: str | None = NUMBER, code: str = "0") -> bytes:
    named = f"<skybillNumber>{number}</skybillNumber>" if number else ""
    return (
        '<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body>'
        '<ns2:trackSkybillV2Response xmlns:ns2="http://cxf.tracking.soap.chronopost.fr/"><return>'
        f"<errorCode>{code}</errorCode><errorMessage>no</errorMessage>"
        f"<listEventInfoComp>{''.join(events)}{named}</listEventInfoComp>"
        "</return></ns2:trackSkybillV2Response></soap:Body></soap:Envelope>"
    ).encode()


def parse(body: bytes, status: int = 200) -> Tracking:
    return chronopost_france.parse(status, {}, body, NUMBER)


def test_a_delivered_parcel() -> None:
    told = parse(answer(ANNOUNCED, HANDED_IN, SORTED, ON_TOUR, DELIVERED))

    assert (told.tag, told.subtag) == (Tag.DELIVERED, "Delivered_001")
    assert told.delivered_at == "2026-01-14T11:41:00"
    assert told.delivered_at_utc == datetime(2026, 1, 14, 10, 41, tzinfo=UTC)
    tags = [point.tag for point in told.checkpoints]
    assert tags[::4] == [Tag.INFO_RECEIVED, Tag.DELIVERED]
    assert tags[1:4] == [Tag.IN_TRANSIT, Tag.IN_TRANSIT, Tag.OUT_FOR_DELIVERY]
    place = told.checkpoints[2]
    assert (place.location, place.postal_code) == ("CHILLY CHRONOPOST", "75015")


def test_a_parcel_under_way() -> None:
    told = parse(answer(ANNOUNCED, HANDED_IN, SORTED))

    assert (told.tag, told.delivered_at, told.unknown_codes) == (Tag.IN_TRANSIT, None, ())


@pytest.mark.parametrize(
    ("code", "what", "subtag"),
    [
        ("P", "Addressee not at home", "AttemptFail_002"),
        ("AB", "", "AvailableForPickup_001"),
        ("EI", "", "InTransit_004"),
        ("SK", "", "Exception_001"),
        ("D1", "", "Delivered_001"),
        ("D3", "Delivered to the parcel shop", "AvailableForPickup_001"),
        ("D", "Delivered to sender", "Exception_011"),
        # Nearly every parcel is sorted in the depot that delivers it; some stay there for a day.
        ("SD", "Sorted at delivery location", "InTransit_001"),
        ("SD", "", "InTransit_001"),
        ("SD", "Delivery postponed by 24 hours", "Exception_001"),
        ("EC", "Sorted at departure location", "InTransit_001"),
        ("DY", "Parcel Registered by the post office", "InTransit_002"),
        ("PC", "", "InTransit_002"),
        ("AT", "", "Exception_001"),
        ("SJ", "", "InTransit_008"),
        # Its own shop module takes it for a delivery; its words say that the way back begins.
        ("R", "Returned to sender", "Exception_010"),
        ("R", "Delivered", "Exception_010"),
        ("ZZ", "Delivered", "InTransit_001"),
        ("ZZ", "Out for delivery", "OutForDelivery_001"),
    ],
)
def test_what_its_codes_mean(code: str, what: str, subtag: str) -> None:
    told = parse(answer(event(code, "2026-01-14T08:00:00", what)))

    assert told.subtag == subtag
    assert told.unknown_codes == ((code,) if code == "ZZ" else ())


def test_a_parcel_in_the_depot_that_delivers_it_has_no_problem() -> None:
    sorted_there = event("SD", "2026-01-14T02:44:00", "Sorted at delivery location")
    told = parse(answer(ANNOUNCED, HANDED_IN, SORTED, sorted_there))

    assert told.tag is Tag.IN_TRANSIT
    assert Tag.EXCEPTION not in {point.tag for point in told.checkpoints}


@pytest.mark.parametrize("code", sorted(SILENT))
def test_a_message_after_a_delivery_does_not_undo_it(code: str) -> None:
    assert parse(answer(DELIVERED, event(code, "2026-01-15T08:00:00"))).delivered


def test_a_parcel_without_events_is_not_found_yet() -> None:
    assert parse(answer()).tag is Tag.PENDING
    assert parse(answer(number=None)).tag is Tag.PENDING


FAULT = (
    b'<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><s:Fault>'
    b"<faultstring>out of order</faultstring></s:Fault></s:Body></s:Envelope>"
)


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (403, b"<html/>", AuthFailed),
        (429, b"<html/>", RateLimited),
        (500, FAULT, CourierDown),
        (200, FAULT, CourierDown),
        (503, b"", CourierDown),
        (200, answer(code="3"), UnreadableAnswer),
        # "System error": the courier's, to be asked again.
        (200, answer(code="1"), CourierDown),
        (200, b"<return><errorCode>0</errorCode></return>", UnreadableAnswer),
        (200, b"<html><body>Just a moment</body></html>", UnreadableAnswer),
        (200, b"{}", UnreadableAnswer),
        (404, b"<html/>", UnreadableAnswer),
        (200, answer("<events><code>D</code></events>"), UnreadableAnswer),
        (200, answer(DELIVERED, number="XY000000020JF"), WrongNumber),
    ],
)
def test_what_is_no_answer(status: int, body: bytes, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


def test_only_its_deliveries_mean_delivered() -> None:
    delivered = {code for code, told in CODES.items() if told.tag is Tag.DELIVERED}

    assert delivered == {"D", "D1", "D2", "D3", "D4", "D5"}
    assert not SILENT & CODES.keys()


async def test_it_is_asked_without_a_login(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[tuple[str, str, bytes]] = []

    async def site(request: web.BaseRequest) -> web.Response:
        asked.append((request.method, request.path, await request.read()))
        return web.Response(body=answer(DELIVERED), content_type="text/xml")

    fetch = fetch_for(await courier(site), slug="chronopost-france", credentials={})
    request = TrackingRequest(Slug("chronopost-france"), Number(NUMBER), NUMBER)
    told = await chronopost_france.track(fetch, request)

    assert told.delivered
    [(method, path, question)] = asked
    assert (method, path) == ("POST", "/tracking-cxf/TrackingServiceWS")
    [inside] = read_xml(question).each("trackSkybillV2")
    assert (inside.text("language"), inside.text("skybillNumber")) == ("en_GB", NUMBER)
    assert permit.steps == ["before_send", "after_send"]
