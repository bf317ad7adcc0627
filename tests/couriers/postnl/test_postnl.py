"""PostNL's Shippingstatus, version 2. The answers are written after its OpenAPI text."""

from __future__ import annotations

import json

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import postnl
from couriers.postnl.codes import EVENTS, SILENT, STATUSES
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

NUMBER = "3SABCD000000017"

Json = dict[str, object]


def event(at: str, code: str, what: str = "") -> Json:
    return {"Code": code, "Description": what, "TimeStamp": at, "RouteName": {}}


def state(code: str, at: str = "06-02-2026 11:20:00") -> Json:
    return {"StatusCode": code, "StatusDescription": "now", "TimeStamp": at, "PhaseCode": "4"}


EXPECTED = event("04-02-2026 10:00:00", "01A", "Shipment expected")
SORTED = event("05-02-2026 01:30:00", "01J", "Shipment sorted")
ON_BOARD = event("06-02-2026 08:10:00", "05J", "Driver is en route")
DELIVERED = event("06-02-2026 11:20:00", "01I", "Shipment delivered")


def reply(status: Json | None, events: object = None, **more: object) -> Json:
    shipment: Json = {
        "MainBarcode": NUMBER,
        "Barcode": NUMBER,
        "Address": [
            {"AddressType": "01", "City": "Nijmegen", "Region": {}},
            {"AddressType": "02", "City": "Hoofddorp", "Region": {}},
        ],
    }
    shipment |= {} if status is None else {"Status": status}
    shipment |= {} if events is None else {"Event": events}
    return {"CompleteStatus": {"Shipment": shipment | more}}


def warning(message: str, code: str = "2") -> Json:
    return {"CurrentStatus": {}, "Warnings": [{"Message": message, "Code": code}]}


def parse(body: object, status: int = 200) -> Tracking:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return postnl.parse(status, {}, data, NUMBER)


def test_a_delivered_parcel() -> None:
    told = parse(
        reply(
            state("11"),
            [DELIVERED, ON_BOARD, SORTED, EXPECTED],
            Expectation={"ETAFrom": "2026-02-06T10:00:00", "ETATo": "2026-02-06T12:00:00"},
        )
    )

    assert (told.tag, told.subtag) == (Tag.DELIVERED, "Delivered_001")
    assert (told.delivered_at, told.delivered_at_utc) == ("2026-02-06T11:20:00", None)
    assert told.expected_delivery == "2026-02-06T12:00:00"
    assert (told.origin, told.destination) == ("Hoofddorp", "Nijmegen")
    assert [point.tag for point in told.checkpoints] == [
        Tag.INFO_RECEIVED,
        Tag.IN_TRANSIT,
        Tag.OUT_FOR_DELIVERY,
        Tag.DELIVERED,
    ]
    assert told.checkpoints[0].checkpoint_time == "2026-02-04T10:00:00"
    assert told.checkpoints[0].raw_tag == "01A"


def test_a_parcel_under_way_and_out_for_delivery() -> None:
    assert parse(reply(state("5"), [SORTED, EXPECTED])).tag is Tag.IN_TRANSIT
    assert parse(reply(state("7"), [ON_BOARD, SORTED])).tag is Tag.OUT_FOR_DELIVERY


def test_one_event_is_an_object_and_nothing_is_an_empty_one() -> None:
    address = {"AddressType": "01", "City": {}}
    told = parse(reply(state("11"), DELIVERED, Address=address, Expectation={}, DeliveryDate={}))

    assert (told.tag, len(told.checkpoints)) == (Tag.DELIVERED, 1)
    assert (told.destination, told.expected_delivery) == (None, None)
    assert parse(reply(state("2"), {})).checkpoints[0].message == "now"


def test_of_a_number_that_was_used_again_the_newest_counts_alone() -> None:
    old = {"Barcode": NUMBER, "Status": state("11"), "Event": DELIVERED}
    new = {"Barcode": NUMBER, "Status": state("5"), "Event": event("05-11-2026 01:30:00", "01J")}
    told = parse({"CompleteStatus": {"Shipment": [old, new]}})

    assert (told.tag, len(told.checkpoints)) == (Tag.IN_TRANSIT, 1)


def test_a_main_number_is_delivered_when_all_its_parcels_are() -> None:
    one = {"MainBarcode": NUMBER, "Barcode": "3S1", "Status": state("11"), "Event": DELIVERED}
    two = {"MainBarcode": NUMBER, "Barcode": "3S2", "Status": state("5"), "Event": SORTED}

    assert parse({"CompleteStatus": {"Shipment": [one, two]}}).tag is Tag.IN_TRANSIT
    assert parse({"CompleteStatus": {"Shipment": [one]}}).delivered


def test_a_time_may_be_written_the_other_way_round() -> None:
    told = parse(reply(state("11"), event("2026-02-05T01:30:00", "01I")))

    assert told.delivered_at == "2026-02-05T01:30:00"


def test_fractions_of_a_second_are_read() -> None:
    told = parse(reply(state("2"), event("05-02-2026 01:30:00.326", "01B")))

    assert told.checkpoints[0].checkpoint_time == "2026-02-05T01:30:00"


def test_without_events_the_status_is_the_one_checkpoint() -> None:
    body = reply(state("7"))
    told = parse({"CurrentStatus": body["CompleteStatus"]})

    assert told.tag is Tag.OUT_FOR_DELIVERY
    assert [point.checkpoint_time for point in told.checkpoints] == ["2026-02-06T11:20:00"]


@pytest.mark.parametrize(
    ("code", "subtag"),
    [
        ("I01", "Delivered_001"),
        ("10I", "Delivered_005"),
        ("J23", "AvailableForPickup_001"),
        ("Y26", "AvailableForPickup_001"),
        ("J63", "Exception_011"),
        ("X24", "Exception_010"),
        ("I07", "Exception_010"),
        ("K91", "Exception_001"),
        ("J01", "Delivered_001"),
        ("Q99", "Delivered_001"),
    ],
)
def test_the_status_delivered_is_corrected_by_the_newest_event(code: str, subtag: str) -> None:
    told = parse(reply(state("11"), [event("06-02-2026 11:20:00", code), SORTED]))

    assert told.subtag == subtag
    assert told.delivered_at == ("2026-02-06T11:20:00" if told.delivered else None)
    assert told.unknown_codes == (("Q99",) if code == "Q99" else ())


@pytest.mark.parametrize(
    ("code", "subtag"),
    [
        ("1", "InfoReceived_001"),
        ("2", "InTransit_002"),
        ("8", "AttemptFail_001"),
        ("9", "InTransit_006"),
        ("12", "AvailableForPickup_001"),
        ("19", "Exception_009"),
        ("22", "Delivered_002"),
        ("23", "InTransit_002"),
        ("27", "Exception_010"),
        ("99", "InTransit_001"),
        ("77", "InTransit_001"),
    ],
)
def test_what_its_statuses_mean(code: str, subtag: str) -> None:
    told = parse(reply(state(code)))

    assert told.subtag == subtag
    assert told.unknown_codes == (("77",) if code == "77" else ())


def test_a_contact_after_a_delivery_does_not_undo_it() -> None:
    later = event("06-02-2026 12:00:00", "46A", "Recipient request to return")

    assert parse(reply(state("99"), [later, DELIVERED])).delivered


@pytest.mark.parametrize(
    "body",
    [
        warning("No shipment found"),
        warning("Geen zending gevonden"),
        {"CurrentStatus": {"Shipment": {}}, "Warnings": {"Message": "No shipment found"}},
    ],
)
def test_no_shipment_is_not_found_yet(body: Json) -> None:
    told = parse(body)

    assert (told.tag, told.checkpoints) == (Tag.PENDING, ())


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, {"Errors": [{"Message": "Invalid barcode", "Code": "5"}]}, InvalidNumber),
        (200, warning("The barcode is not valid", "9"), InvalidNumber),
        (400, {"Errors": [{"Message": "Invalid language"}]}, RequestRefused),
        (401, {"fault": {"faultstring": "Invalid ApiKey"}}, AuthFailed),
        (429, {"fault": {"faultstring": "Rate limit quota violation"}}, RateLimited),
        (500, {}, CourierDown),
        (503, b"<html>", CourierDown),
        (404, {}, UnreadableAnswer),
        (400, {}, UnreadableAnswer),
        (200, b"<html>", UnreadableAnswer),
        (200, {}, UnreadableAnswer),
        (200, {"CurrentStatus": {}}, UnreadableAnswer),
        (200, warning("Something else", "9"), UnreadableAnswer),
        (200, reply(None), UnreadableAnswer),
        (200, reply(state("11"), event("06/02", "I01")), UnreadableAnswer),
        (200, reply(state("11"), DELIVERED, Barcode="X", MainBarcode="X"), WrongNumber),
    ],
)
def test_what_is_no_answer(status: int, body: object, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


DELIVERIES = "I01 I02 I03 I05 I09 I10 I11 I12 I22 I23 J91 Z01 Z02 Z03 Z04 Z05 Z06 Z08 Z09"


def test_only_these_codes_mean_delivered() -> None:
    statuses = {code for code, status in STATUSES.items() if status.tag is Tag.DELIVERED}
    events = {code for code, status in EVENTS.items() if status.tag is Tag.DELIVERED}

    assert statuses == {"11", "22"}
    assert sorted(events) == DELIVERIES.split()
    assert not SILENT & EVENTS.keys()


REQUEST = TrackingRequest(Slug("postnl"), Number(NUMBER), NUMBER)


async def test_it_is_asked_for_its_events_with_its_key(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[tuple[str, str]] = []

    async def site(request: web.BaseRequest) -> web.Response:
        asked.append((request.path_qs, request.headers["apikey"]))
        return web.json_response(reply(state("11"), DELIVERED))

    keys = {"api_key": "the-key"}
    told = await postnl.track(
        fetch_for(await courier(site), slug="postnl", credentials=keys), REQUEST
    )

    assert told.delivered
    path = f"/shipment/v2/status/barcode/{NUMBER}?detail=true&language=EN"
    assert asked == [(path, "the-key")]
    assert permit.steps == ["before_send", "after_send"]


async def test_without_credentials_nothing_is_asked(fetch_for: FetchFor) -> None:
    fetch = fetch_for("http://127.0.0.1:1", slug="postnl", credentials={})
    with pytest.raises(NoCredentials, match="TRACKER_COURIERS__POSTNL__API_KEY"):
        await postnl.track(fetch, REQUEST)
