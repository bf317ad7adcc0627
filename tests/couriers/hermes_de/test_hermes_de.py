"""Hermes Germany. The answers are written after the OpenAPI text and the list of event codes."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import hermes_de
from couriers.hermes_de.codes import EVENTS, OLD, OLD_EVENTS, REASONS, SILENT
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

NUMBER = "H0000000000000000017"

Json = dict[str, object]


def event(code: str, at: str, what: str = "") -> Json:
    unit = {"name": "Hermes Germany", "city": "Hamburg", "countryCode": "DEU"}
    return {"timestamp": f"{at}+01:00", "code": code, "description": what, "scanningUnit": unit}


ANNOUNCED = event("000000000", "2026-01-12T10:00:00", "The shipment has been notified to Hermes.")
AT_SHOP = event("045001008", "2026-01-12T16:30:00", "Handed in at the ParcelShop.")
SORTED = event("030000006", "2026-01-13T04:12:00")
ON_TOUR = event("050001000", "2026-01-14T07:05:00")
DELIVERED = event("090000000", "2026-01-14T11:41:00", "The shipment has been delivered.")


def shipment(*events: Json, **more: object) -> Json:
    told: Json = {"shipmentID": NUMBER, "result": {"code": "i001"}, "status": list(events)}
    return {"shipmentinfo": [told | more]}


def result(code: str) -> Json:
    return {"shipmentinfo": [{"shipmentID": NUMBER, "result": {"code": code, "message": "no"}}]}


def errors(code: str) -> Json:
    return {"listOfResultCodes": [{"code": code, "message": "no"}]}


def parse(body: object, status: int = 200) -> Tracking:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return hermes_de.parse(status, {}, data, NUMBER)


@pytest.mark.parametrize("newest_first", [True, False])
def test_a_delivered_parcel(newest_first: bool) -> None:  # noqa: FBT001 - a case, not a switch
    listed = [ANNOUNCED, AT_SHOP, SORTED, ON_TOUR, DELIVERED]
    to = {"city": "Hamburg", "zipCode": "22083", "countryCode": "DEU"}
    told = parse(shipment(*(listed[::-1] if newest_first else listed), receiverAddress=to))

    assert (told.tag, told.subtag) == (Tag.DELIVERED, "Delivered_001")
    assert told.delivered_at == "2026-01-14T11:41:00"
    assert told.delivered_at_utc == datetime(2026, 1, 14, 10, 41, tzinfo=UTC)
    assert told.destination == "Hamburg, Germany"
    subtags = [point.subtag for point in told.checkpoints[:4]]
    assert subtags == [
        *("InfoReceived_001", "InTransit_002", "InTransit_001", "OutForDelivery_001")
    ]
    shop = told.checkpoints[1]
    assert (shop.city, shop.country_iso3, shop.raw_tag) == ("Hamburg", "DEU", "045001008")


def test_a_parcel_under_way_and_when_it_is_expected() -> None:
    told = parse(shipment(SORTED, deliveryForecast={"fixed": False, "date": "2026-01-14"}))

    assert (told.tag, told.expected_delivery, told.delivered_at) == (
        *(Tag.IN_TRANSIT, "2026-01-14", None),
    )


@pytest.mark.parametrize(
    ("code", "what", "subtag"),
    [
        ("50-1-2", "", "OutForDelivery_001"),
        ("3000", "", "OutForDelivery_001"),
        ("3010", "", "InTransit_007"),
        ("050090002", "", "InTransit_001"),
        ("4070", "", "InTransit_001"),
        ("055001005", "", "AvailableForPickup_001"),
        ("3410", "", "AvailableForPickup_001"),
        ("055002000", "", "InTransit_009"),
        ("090003008", "Collected by the recipient from the ParcelShop", "Delivered_002"),
        ("3530", "", "Delivered_002"),
        ("3511", "Delivered in the letterbox", "Delivered_001"),
        ("060003004", "", "AttemptFail_002"),
        ("4031", "The shipment is back at the depot", "AttemptFail_002"),
        ("060012005", "", "Exception_008"),
        ("060001004", "", "Exception_003"),
        ("3752", "", "AttemptFail_001"),
        ("033003009", "", "Exception_004"),
        ("000004000", "", "Exception_001"),
        ("0800", "", "Exception_001"),
        ("100004000", "", "Exception_010"),
        ("6084", "", "Exception_010"),
        ("100008000", "", "InTransit_009"),
        ("115001003", "", "Exception_010"),
        ("125001007", "The return shipment has arrived at the client.", "Exception_011"),
        ("7500", "", "Exception_011"),
        ("320020301", "", "Exception_001"),
        ("9341", "", "Exception_001"),
        ("090000000", "Delivered to the sender", "Exception_011"),
        ("777000000", "Delivered by a drone", "InTransit_001"),
        ("777000000", "Out for delivery", "OutForDelivery_001"),
    ],
)
def test_what_its_codes_mean(code: str, what: str, subtag: str) -> None:
    told = parse(shipment(event(code, "2026-01-14T08:00:00", what)))

    assert told.subtag == subtag
    assert told.unknown_codes == ((code,) if code.startswith("777") else ())


@pytest.mark.parametrize("code", ["320004301", "9324", "390020301", "031040006", "9040"])
def test_a_wish_after_a_delivery_does_not_undo_it(code: str) -> None:
    told = parse(shipment(event(code, "2026-01-15T08:00:00"), DELIVERED))

    assert (told.delivered, told.unknown_codes) == (True, ())


def test_nothing_known_is_not_found_yet() -> None:
    assert parse(result("e001")).tag is Tag.PENDING
    assert parse(errors("e001")).tag is Tag.PENDING


def test_a_parcel_is_known_by_its_number_abroad_too() -> None:
    assert parse(shipment(DELIVERED, shipmentID="X", internationalShipmentID=NUMBER)).delivered


def test_of_a_number_that_was_used_again_the_newest_counts_alone() -> None:
    again = {"shipmentID": NUMBER, "status": [event("030000006", "2026-09-13T04:12:00")]}
    told = parse({"shipmentinfo": [shipment(DELIVERED)["shipmentinfo"][0], again]})  # type: ignore[index]

    assert (told.tag, len(told.checkpoints)) == (Tag.IN_TRANSIT, 1)


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, {"error": "access_denied"}, AuthFailed),
        (403, errors("e900"), AuthFailed),
        (400, errors("e902"), AuthFailed),
        (400, errors("e903"), AuthFailed),
        (400, errors("e005"), RequestRefused),
        (429, {}, RateLimited),
        (500, errors("e999"), CourierDown),
        (504, b"<html>", CourierDown),
        (200, result("e777"), UnreadableAnswer),
        (200, result("i001"), UnreadableAnswer),
        (200, {}, UnreadableAnswer),
        (400, {}, UnreadableAnswer),
        (200, b"<html>", UnreadableAnswer),
        (200, shipment(event("090000000", "14.01.2026")), UnreadableAnswer),
        (200, shipment(DELIVERED, shipmentID="H0000000000000000024"), WrongNumber),
    ],
)
def test_what_is_no_answer(status: int, body: object, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


def test_only_its_deliveries_mean_delivered() -> None:
    known = EVENTS | REASONS
    delivered = {code for code, told in known.items() if told.tag is Tag.DELIVERED}

    assert delivered == {"090", "090003"}
    assert not SILENT & EVENTS.keys()


def test_every_older_code_is_one_of_the_new_ones() -> None:
    named = {*OLD_EVENTS.values(), *OLD.values()}

    assert {code[:3] for code in named} <= EVENTS.keys() | SILENT


KEYS = {"client_id": "c", "client_secret": "s3cret", "username": "u", "password": "p4ss"}
REQUEST = TrackingRequest(Slug("hermes-de"), Number(NUMBER), NUMBER)


async def test_a_token_that_ran_out_is_renewed_once(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    posted: list[str] = []
    asked: list[tuple[str, str, str]] = []

    async def site(request: web.BaseRequest) -> web.Response:
        if request.path == "/token":
            posted.append((await request.read()).decode())
            return web.json_response({"access_token": f"t{len(posted)}", "expires_in": "3600"})
        headers = request.headers
        asked.append((request.path_qs, headers["Authorization"], headers["Accept-Language"]))
        if len(asked) == 2:
            return web.json_response(errors("e903"), status=400)
        return web.json_response(shipment(DELIVERED))

    address = await courier(site)
    for own_permit in (RecordingPermit(), permit):
        fetch = fetch_for(address, slug="hermes-de", credentials=KEYS, own_permit=own_permit)
        assert (await hermes_de.track(fetch, REQUEST)).delivered

    login = "grant_type=password&client_id=c&client_secret=s3cret&username=u&password=p4ss"
    assert posted == [login, login]
    question = f"/shipmentinfo?shipmentID={NUMBER}"
    assert asked == [(question, f"Bearer t{token}", "EN") for token in (1, 1, 2)]
    assert permit.steps == ["before_send", "after_send", "again", "before_send", "after_send"]


async def test_without_credentials_nothing_is_asked(fetch_for: FetchFor) -> None:
    fetch = fetch_for("http://127.0.0.1:1", slug="hermes-de", credentials={})
    with pytest.raises(NoCredentials, match="TRACKER_COURIERS__HERMES_DE__USERNAME"):
        await hermes_de.track(fetch, REQUEST)
