"""DHL Express through MyDHL. The answers are written after its OpenAPI text."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from aiohttp import encode_basic_auth, web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import dhl
from couriers.dhl.express import CODES, SILENT
from couriers.http.settings import CourierSettings
from couriers.registry import Registry, wanted_credentials
from tracking.checkpoint import Tag, Tracking
from tracking.errors import (
    AuthFailed,
    CourierDown,
    CourierError,
    NoCredentials,
    RateLimited,
    RequestRefused,
    UnreadableAnswer,
    WrongNumber,
)
from tracking.request import Number, Slug, TrackingRequest

NUMBER = "0123456784"
PIECE = "JD010000000000000017"

Json = dict[str, object]


def event(code: str, at: str, what: str = "", area: str = "LEIPZIG-DE", **more: object) -> Json:
    day, clock = at.split("T")
    told = {"date": day, "time": clock, "typeCode": code, "description": what}
    return told | {"serviceArea": [{"code": "LEJ", "description": area}]} | more


PICKED_UP = event("PU", "2026-03-02T17:40:00", "Shipment picked up", "SYDNEY-AU")
ARRIVED = event("AF", "2026-03-03T04:10:00", "Arrived at DHL Sort Facility", GMTOffset="+01:00")
WITH_COURIER = event("WC", "2026-03-05T08:10:00", "Shipment is out with courier for delivery")
DELIVERED = event("OK", "2026-03-05T13:05:00", "Delivered", GMTOffset="+01:00", signedBy="J DOE")


def shipment(*events: Json, **more: object) -> Json:
    told = {"shipmentTrackingNumber": NUMBER, "status": "Success", "events": list(events)}
    return told | more


def reply(*shipments: Json) -> Json:
    return {"shipments": list(shipments)}


def parse(body: object, status: int = 200, number: str = NUMBER) -> Tracking:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return dhl.parse(status, {}, data, number)


def test_a_delivered_shipment() -> None:
    parties = {
        "shipperDetails": {"serviceArea": [{"description": "SYDNEY-AU"}]},
        "receiverDetails": {"serviceArea": [{"description": "LEIPZIG-DE"}]},
    }
    told = parse(reply(shipment(PICKED_UP, ARRIVED, WITH_COURIER, DELIVERED, **parties)))

    assert (told.tag, told.subtag) == (Tag.DELIVERED, "Delivered_001")
    assert told.delivered_at == "2026-03-05T13:05:00"
    assert told.delivered_at_utc == datetime(2026, 3, 5, 12, 5, tzinfo=UTC)
    assert (told.signed_by, told.origin, told.destination) == ("J DOE", "SYDNEY-AU", "LEIPZIG-DE")
    subtags = [point.subtag for point in told.checkpoints[:3]]
    assert subtags == ["InTransit_002", "InTransit_003", "OutForDelivery_001"]
    first = told.checkpoints[0]
    assert (first.city, first.country_iso3, first.checkpoint_offset) == ("SYDNEY", "AUS", None)


def test_a_shipment_under_way_and_when_it_is_expected() -> None:
    told = parse(reply(shipment(PICKED_UP, estimatedDeliveryDate="2026-03-05T23:59:00")))

    assert (told.tag, told.expected_delivery) == (Tag.IN_TRANSIT, "2026-03-05T23:59:00")
    assert (told.delivered_at, told.signed_by) == (None, None)


@pytest.mark.parametrize(
    ("code", "what", "subtag"),
    [
        ("DD", "Delivered damaged", "Delivered_001"),
        ("OK", "Delivered to the service point", "AvailableForPickup_001"),
        ("OK", "Delivered to shipper", "Exception_011"),
        ("PD", "Partial delivery", "Exception_001"),
        ("CC", "Awaiting collection by the consignee", "AvailableForPickup_001"),
        ("NH", "", "AttemptFail_002"),
        ("CA", "", "AttemptFail_003"),
        ("BA", "", "Exception_007"),
        ("UD", "", "Exception_004"),
        ("RT", "Returned to shipper", "Exception_010"),
        ("RR", "Customs clearance status updated.", "InTransit_006"),
        ("RR", "", "InTransit_001"),
        ("ZZ", "Delivered by a drone", "InTransit_001"),
        ("ZZ", "Shipment on hold", "Exception_001"),
    ],
)
def test_what_its_codes_mean(code: str, what: str, subtag: str) -> None:
    told = parse(reply(shipment(event(code, "2026-03-05T08:00:00", what))))

    assert told.subtag == subtag
    assert told.unknown_codes == (("ZZ",) if code == "ZZ" else ())


@pytest.mark.parametrize("code", sorted(SILENT))
def test_a_shipment_that_is_closed_stays_delivered(code: str) -> None:
    assert parse(reply(shipment(DELIVERED, event(code, "2026-03-06T08:00:00")))).delivered


def test_a_shipment_without_events_is_announced() -> None:
    assert parse(reply(shipment())).tag is Tag.INFO_RECEIVED


def test_of_several_pieces_the_one_that_was_asked_for_counts() -> None:
    pieces = [
        {"trackingNumber": "JD010000000000000024", "events": [DELIVERED]},
        {"trackingNumber": PIECE, "events": [PICKED_UP]},
    ]
    whole = shipment(PICKED_UP, DELIVERED, pieces=pieces)

    assert parse(reply(whole), number=PIECE).tag is Tag.IN_TRANSIT
    assert parse(reply(whole)).delivered
    assert len(parse(reply(shipment(pieces=pieces))).checkpoints) == 2


@pytest.mark.parametrize("detail", ["No data found", "No Shipments Found for ReferenceID | X"])
def test_only_its_own_404_is_not_found_yet(detail: str) -> None:
    assert parse({"title": "Not data found", "detail": detail}, 404).tag is Tag.PENDING


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, {}, AuthFailed),
        (429, {}, RateLimited),
        (500, {"title": "Internal Server Error"}, CourierDown),
        (400, {"title": "Wrong format", "status": "400"}, RequestRefused),
        (404, {"title": "Not Found"}, UnreadableAnswer),
        (200, reply(shipment(status="Failure")), UnreadableAnswer),
        (200, reply(shipment(event("OK", "05.03.2026T"))), UnreadableAnswer),
        (200, reply(shipment(DELIVERED, shipmentTrackingNumber="9999999999")), WrongNumber),
    ],
)
def test_what_is_no_answer(status: int, body: object, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


def test_only_its_deliveries_mean_delivered() -> None:
    delivered = {code for code, told in CODES.items() if told.tag is Tag.DELIVERED}

    assert delivered == {"OK", "DD"}
    assert not SILENT & CODES.keys()


KEYS = {"username": "shop", "password": "secret"}


@pytest.mark.parametrize("number", [NUMBER, PIECE])
async def test_its_credentials_have_mydhl_asked(
    number: str, courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[web.BaseRequest] = []

    async def site(request: web.BaseRequest) -> web.Response:
        asked.append(request)
        pieces = [{"trackingNumber": PIECE}]
        return web.json_response(reply(shipment(DELIVERED, pieces=pieces)))

    keys = KEYS | {"api_key": "not used"}
    fetch = fetch_for(await courier(site), slug="dhl", credentials=keys)
    told = await dhl.track(fetch, TrackingRequest(Slug("dhl"), Number(number), number))

    assert told.delivered
    [one] = asked
    view = "trackingView=all-checkpoints&levelOfDetail=all"
    assert (
        one.path_qs
        == {
            NUMBER: f"/shipments/{NUMBER}/tracking?{view}&requestGMTOffsetPerEvent=true",
            PIECE: f"/tracking?{view}&pieceTrackingNumber={PIECE}",
        }[number]
    )
    assert one.headers["Authorization"] == encode_basic_auth("shop", "secret")
    assert "DHL-API-Key" not in one.headers
    assert permit.steps == ["before_send", "after_send"]


async def test_half_of_its_credentials_are_a_slip_that_is_told(fetch_for: FetchFor) -> None:
    keys = {"api_key": "the-key", "username": "shop"}
    fetch = fetch_for("http://127.0.0.1:1", slug="dhl", credentials=keys)
    with pytest.raises(NoCredentials, match="TRACKER_COURIERS__DHL__PASSWORD"):
        await dhl.track(fetch, TrackingRequest(Slug("dhl"), Number(NUMBER), NUMBER))


@pytest.mark.parametrize(
    ("keys", "base_url", "wanted"),
    [
        ({}, "https://api-eu.dhl.com", ("api_key",)),
        ({"api_key": "k"}, "https://api-eu.dhl.com", ("api_key",)),
        (KEYS, "https://express.api.dhl.com/mydhlapi", ("username", "password")),
        ({"username": "shop"}, "https://express.api.dhl.com/mydhlapi", ("username", "password")),
    ],
)
def test_the_credentials_choose_the_address_too(
    keys: dict[str, str], base_url: str, wanted: tuple[str, ...]
) -> None:
    section = CourierSettings(Slug("dhl"), credentials=keys)
    registry = Registry([section])
    given = CourierSettings(Slug("dhl"), base_url="http://127.0.0.1:1", credentials=keys)

    assert registry.settings(Slug("dhl")).base_url == base_url
    assert Registry([given]).settings(Slug("dhl")).base_url == "http://127.0.0.1:1"
    assert wanted_credentials(registry.courier(Slug("dhl")), keys) == wanted
