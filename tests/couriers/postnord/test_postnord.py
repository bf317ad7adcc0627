"""PostNord's Track and Trace, version 5. The answers are written after its OpenAPI text."""

from __future__ import annotations

import json

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import postnord
from couriers.postnord import CODES, SILENT
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

NUMBER = "00000000018SE"

Json = dict[str, object]


def event(at: str, status: str, what: str = "", city: str = "Lund") -> Json:
    place = {"displayName": f"{city} terminal", "city": city, "countryCode": "SE"}
    return {"eventTime": at, "status": status, "eventDescription": what, "location": place}


INFORMED = event("2026-02-02T09:00:00", "INFORMED", "The sender has told us of the item")
SORTED = event("2026-02-03T02:15:00", "EN_ROUTE", "The shipment item is under transportation")
ON_BOARD = event("2026-02-04T08:20:00", "EN_ROUTE", "The item is out for delivery")
DELIVERED = event("2026-02-04T13:10:00", "DELIVERED", "The shipment item has been delivered")
MESSAGE = event("2026-02-04T13:10:00", "OTHER", "A text message was sent to the recipient")


def item(status: str | None, *events: Json, number: str = NUMBER, **more: object) -> Json:
    return {"itemId": number, "status": status, "events": list(events), **more}


def reply(*items: Json, shipment: str = "SHIPMENT1", **more: object) -> Json:
    told = {"shipmentId": shipment, "items": list(items), **more}
    return {"TrackingInformationResponse": {"shipments": [told]}}


def fault(code: str, said: str = "no") -> Json:
    return {"compositeFault": {"faults": [{"faultCode": code, "explanationText": said}]}}


EMPTY: Json = {"TrackingInformationResponse": {"shipments": []}}


def parse(body: object, status: int = 200) -> Tracking:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return postnord.parse(status, {}, data, NUMBER)


def test_the_newer_version_is_read_too_by_its_other_names() -> None:
    newer = [{k: v for k, v in each.items() if k != "status"} for each in (SORTED, DELIVERED)]
    newer[0]["eventStatus"], newer[1]["eventStatus"] = "EN_ROUTE", "DELIVERED"
    bare = {"shipments": [{"shipmentId": "S", "items": [item("DELIVERED", *newer)]}]}
    told = parse(bare)

    assert (told.tag, told.delivered_at) == (Tag.DELIVERED, "2026-02-04T13:10:00")
    assert [point.raw_tag for point in told.checkpoints] == ["EN_ROUTE", "DELIVERED"]
    assert parse({"shipments": []}).tag is Tag.PENDING


def test_a_delivered_item_with_its_text_message() -> None:
    consignee = {"address": {"city": "Oslo"}}
    told = parse(
        reply(
            item(
                "DELIVERED",
                INFORMED,
                SORTED,
                ON_BOARD,
                DELIVERED,
                MESSAGE,
                acceptor={"name": "Eva"},
            ),
            consignee=consignee,
        )
    )

    assert (told.tag, told.subtag) == (Tag.DELIVERED, "Delivered_001")
    assert (told.delivered_at, told.delivered_at_utc) == ("2026-02-04T13:10:00", None)
    assert (told.signed_by, told.destination) == ("Eva", "Oslo")
    first = told.checkpoints[0]
    assert (first.tag, first.checkpoint_offset) == (Tag.INFO_RECEIVED, None)
    assert (first.city, first.country_iso3, first.location) == ("Lund", "SWE", "Lund terminal")
    assert told.checkpoints[-1].raw_tag == "OTHER"


def test_an_item_on_its_round_has_a_status_that_only_recorded_answers_have() -> None:
    on_round = event("2026-02-04T08:46:00Z", "DELIVERY", "Out for delivery")
    told = parse(reply(item("DELIVERY", on_round, SORTED, INFORMED)))

    assert (told.tag, told.unknown_codes) == (Tag.OUT_FOR_DELIVERY, ())
    assert parse(reply(item("DELIVERY"))).tag is Tag.OUT_FOR_DELIVERY
    assert parse(reply(item("DELIVERED", DELIVERED, on_round))).delivered


def test_events_come_out_the_same_in_either_order() -> None:
    assert parse(reply(item("EN_ROUTE", INFORMED, SORTED, ON_BOARD))) == parse(
        reply(item("EN_ROUTE", ON_BOARD, SORTED, INFORMED))
    )


def test_an_item_under_way_and_out_for_delivery() -> None:
    assert parse(reply(item("EN_ROUTE", INFORMED, SORTED))).tag is Tag.IN_TRANSIT
    assert parse(reply(item("EN_ROUTE", SORTED, ON_BOARD))).tag is Tag.OUT_FOR_DELIVERY


@pytest.mark.parametrize(
    ("status", "subtag"),
    [
        ("AVAILABLE_FOR_DELIVERY", "AvailableForPickup_001"),
        ("AVAILABLE_FOR_DELIVERY_PAR_LOC", "AvailableForPickup_001"),
        ("DELIVERY_IMPOSSIBLE", "AttemptFail_001"),
        ("DELIVERY_REFUSED", "Exception_003"),
        ("EXPECTED_DELAY", "Exception_001"),
        ("RETURNED", "Exception_010"),
        ("OTHER", "InTransit_001"),
        ("TELEPORTED", "InTransit_001"),
    ],
)
def test_what_its_statuses_mean(status: str, subtag: str) -> None:
    told = parse(reply(item(status, SORTED)))

    assert told.subtag == subtag
    assert told.unknown_codes == (("TELEPORTED",) if status == "TELEPORTED" else ())


def test_a_return_is_final_once_its_date_has_come() -> None:
    back = event("2026-02-09T10:00:00", "RETURNED", "The item was handed out to the sender")
    gone = item("RETURNED", SORTED, back, returnDate="2026-02-09")
    # Until then the date is a plan, and stands also beside what waits to be collected.
    going = item("RETURNED", SORTED, returnDate="2026-02-20T00:00:00")
    waits = item("AVAILABLE_FOR_DELIVERY", SORTED, returnDate="2026-02-20T00:00:00")

    assert parse(reply(gone)).subtag == "Exception_011"
    assert parse(reply(going)).subtag == "Exception_010"
    assert parse(reply(waits)).subtag == "AvailableForPickup_001"


@pytest.mark.parametrize(
    ("status", "what", "subtag"),
    [
        ("EN_ROUTE", "The delivery of the shipment item is in progress.", "OutForDelivery_001"),
        ("EN_ROUTE", "The item has been dropped off by its sender.", "InTransit_002"),
        ("EN_ROUTE", "The item has been picked-up for transportation.", "InTransit_002"),
        ("EN_ROUTE", "It has arrived at the country of destination.", "InTransit_004"),
        ("EN_ROUTE", "It has left the country of the sender.", "InTransit_007"),
        ("EN_ROUTE", "Customs VAT has been paid.", "InTransit_005"),
        ("EN_ROUTE", "The import is complete and all fees were handled.", "InTransit_005"),
        ("STOPPED", "The item is being customs cleared by us.", "InTransit_006"),
        ("STOPPED", "It is held, awaiting the booked delivery date.", "InTransit_001"),
        ("STOPPED", "The shipment item has been stored.", "Exception_001"),
        ("EXPECTED_DELAY", "The address is incomplete.", "Exception_007"),
        ("DELIVERY_IMPOSSIBLE", "It will be available for collection.", "AttemptFail_001"),
        ("DELIVERED", "It has been delivered to the recipient's mailbox.", "Delivered_001"),
    ],
)
def test_the_words_refine_a_status_that_says_little(status: str, what: str, subtag: str) -> None:
    told = parse(reply(item(status, SORTED, event("2026-02-04T08:00:00", status, what))))

    assert (told.subtag, told.checkpoints[-1].subtag) == (subtag, subtag)


def test_delivered_to_a_service_point_is_not_yet_delivered() -> None:
    shop = event("2026-02-04T12:00:00", "DELIVERED", "Delivered to a service point")
    told = parse(reply(item("DELIVERED", SORTED, shop)))

    assert told.tag is Tag.AVAILABLE_FOR_PICKUP
    assert told.delivered_at is None


def test_what_waited_at_a_service_point_is_delivered_once_its_own_status_says_so() -> None:
    waits = event("2026-02-04T12:00:00", "AVAILABLE_FOR_DELIVERY", "Ready for collection at a shop")
    taken = event("2026-02-05T12:00:00", "OTHER", "It was handed out")
    told = parse(reply(item("DELIVERED", waits, taken, deliveryDate="2026-02-05T12:00:00")))

    assert (told.tag, told.delivered_at) == (Tag.DELIVERED, "2026-02-05T12:00:00")


def test_an_item_may_be_delivered_without_an_event_that_says_so() -> None:
    told = parse(reply(item("DELIVERED", SORTED, deliveryDate="2026-02-04T13:10:00")))

    assert told.delivered
    assert told.delivered_at == "2026-02-04T13:10:00"


def test_a_shipment_is_delivered_when_all_its_items_are() -> None:
    one, two = item("DELIVERED", DELIVERED, number="I1"), item("EN_ROUTE", SORTED, number="I2")

    assert parse(reply(one, two, shipment=NUMBER)).tag is Tag.IN_TRANSIT
    assert parse(reply(one, shipment=NUMBER)).delivered


def test_of_a_number_that_was_used_again_the_newest_counts_alone() -> None:
    again = item("EN_ROUTE", event("2026-08-03T02:15:00", "EN_ROUTE"))
    told = parse(reply(item("DELIVERED", DELIVERED), again))

    assert (told.tag, len(told.checkpoints)) == (Tag.IN_TRANSIT, 1)


def test_an_item_is_found_by_its_reference_too() -> None:
    named = item("DELIVERED", DELIVERED, number="I1", references=[{"value": NUMBER}])

    assert parse(reply(named, item("EN_ROUTE", SORTED, number="I2"))).delivered


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, EMPTY),
        (200, EMPTY | fault("SHIPMENT_NOT_FOUND")),
        (400, fault("noShipmentFound")),
    ],
)
def test_no_shipment_is_not_found_yet(status: int, body: Json) -> None:
    told = parse(body, status)

    assert (told.tag, told.checkpoints) == (Tag.PENDING, ())


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, fault("invalidIdentifier"), InvalidNumber),
        (400, {"TrackingInformationResponse": fault("invalidIdentifier")}, InvalidNumber),
        (400, fault("invalidLocale"), RequestRefused),
        (401, {}, AuthFailed),
        (403, {"message": "wrong apikey"}, AuthFailed),
        (403, {"message": "Quota exceeded"}, RateLimited),
        (429, {}, RateLimited),
        (500, {}, CourierDown),
        (503, b"<html>", CourierDown),
        (404, {}, UnreadableAnswer),
        (400, {}, UnreadableAnswer),
        (200, b"<html>", UnreadableAnswer),
        (200, {}, UnreadableAnswer),
        (200, {"TrackingInformationResponse": {}}, UnreadableAnswer),
        (200, reply(item(None)), UnreadableAnswer),
        (200, reply(), UnreadableAnswer),
        (200, reply(item("EN_ROUTE", event("4 February", "EN_ROUTE"))), UnreadableAnswer),
        (200, reply(item("DELIVERED", DELIVERED, number="OTHER")), WrongNumber),
    ],
)
def test_what_is_no_answer(status: int, body: object, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


def test_only_one_status_means_delivered() -> None:
    delivered = {code for code, status in CODES.items() if status.tag is Tag.DELIVERED}

    assert delivered == {"DELIVERED"}
    assert not SILENT & CODES.keys()


REQUEST = TrackingRequest(Slug("postnord"), Number(NUMBER), NUMBER)


async def test_it_is_asked_with_its_key(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[tuple[str, dict[str, str]]] = []

    async def site(request: web.BaseRequest) -> web.Response:
        asked.append((request.path, dict(request.query)))
        return web.json_response(reply(item("DELIVERED", DELIVERED)))

    keys = {"api_key": "the-key"}
    fetch = fetch_for(await courier(site), slug="postnord", credentials=keys)
    told = await postnord.track(fetch, REQUEST)

    assert told.delivered
    path = "/rest/shipment/v5/trackandtrace/findByIdentifier.json"
    assert asked == [(path, {"apikey": "the-key", "id": NUMBER, "locale": "en"})]
    assert permit.steps == ["before_send", "after_send"]


async def test_its_key_in_the_address_is_in_no_error(courier: Courier, fetch_for: FetchFor) -> None:
    async def site(request: web.BaseRequest) -> web.Response:
        return web.json_response({"TrackingInformationResponse": request.path_qs})

    keys = {"api_key": "the-secret-key"}
    fetch = fetch_for(await courier(site), slug="postnord", credentials=keys)
    with pytest.raises(UnreadableAnswer) as failed:
        await postnord.track(fetch, REQUEST)

    assert "the-secret-key" not in f"{failed.value} {failed.value.excerpt}"


async def test_without_credentials_nothing_is_asked(fetch_for: FetchFor) -> None:
    fetch = fetch_for("http://127.0.0.1:1", slug="postnord", credentials={})
    with pytest.raises(NoCredentials, match="TRACKER_COURIERS__POSTNORD__API_KEY"):
        await postnord.track(fetch, REQUEST)
