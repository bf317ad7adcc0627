"""USPS, in both versions of its tracking API. The answers are written after its schema."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from usps_replies import ACCEPTED, DELIVERED, LABEL, NUMBER, OUT, event, item, parse

from couriers import usps
from couriers.usps.codes import CATEGORIES, EVENTS
from tracking.checkpoint import Tag


def test_a_delivered_parcel() -> None:
    told = parse(item("Delivered", DELIVERED, OUT, ACCEPTED, LABEL))

    assert (told.tag, told.subtag) == (Tag.DELIVERED, "Delivered_001")
    assert told.delivered_at == "2026-03-05T13:05:00"
    assert told.delivered_at_utc == datetime(2026, 3, 5, 21, 5, tzinfo=UTC)
    assert told.signed_by == "J DOE"
    assert (told.origin, told.destination) == ("BEND, OR", "SALEM, OR")
    assert not told.active
    first, *_, last = told.checkpoints
    assert first.message == "Shipping Label Created, USPS Awaiting Item"
    assert (first.checkpoint_offset, first.checkpoint_utc) == (None, None)
    assert (last.city, last.state, last.postal_code, last.raw_tag) == ("SALEM", "OR", "97301", "01")


@pytest.mark.parametrize(
    ("category", "newest", "tag", "subtag"),
    [
        ("Pre-Shipment", LABEL, Tag.INFO_RECEIVED, "InfoReceived_001"),
        ("Accepted", ACCEPTED, Tag.IN_TRANSIT, "InTransit_002"),
        (
            "In Transit",
            event("Arrived", "2026-03-04T01:00:00", "10"),
            Tag.IN_TRANSIT,
            "InTransit_003",
        ),
        ("Moving Through Network", ACCEPTED, Tag.IN_TRANSIT, "InTransit_002"),
        ("Out for Delivery", OUT, Tag.OUT_FOR_DELIVERY, "OutForDelivery_001"),
        (
            "Available for Pickup",
            event("Available for Pickup", "2026-03-05T10:00:00", "16"),
            Tag.AVAILABLE_FOR_PICKUP,
            "AvailableForPickup_001",
        ),
        (
            "Alert",
            event("No Such Number", "2026-03-05T10:00:00", "21"),
            Tag.EXCEPTION,
            "Exception_007",
        ),
        (
            "Alert",
            event("Notice Left (No Authorized Recipient)", "2026-03-05T10:00:00", "02"),
            Tag.ATTEMPT_FAIL,
            "AttemptFail_002",
        ),
        (
            "Alert",
            event("Notice Left (Business Closed)", "2026-03-05T10:00:00", "02"),
            Tag.ATTEMPT_FAIL,
            "AttemptFail_003",
        ),
        (
            "Alert",
            event("Notice Left", "2026-03-05T10:00:00", "02"),
            Tag.ATTEMPT_FAIL,
            "AttemptFail_001",
        ),
        ("Alert", ACCEPTED, Tag.EXCEPTION, "Exception_001"),
        (
            "In Transit",
            event("Awaiting Delivery Scan", "2026-03-05T22:00:00", "DX"),
            Tag.IN_TRANSIT,
            "InTransit_001",
        ),
        ("a new category", OUT, Tag.OUT_FOR_DELIVERY, "OutForDelivery_001"),
        ("Delivered to Agent", DELIVERED, Tag.AVAILABLE_FOR_PICKUP, "AvailableForPickup_001"),
    ],
)
def test_where_a_parcel_stands(
    category: str, newest: dict[str, object], tag: Tag, subtag: str
) -> None:
    told = parse(item(category, newest))

    assert (told.tag, told.subtag) == (tag, subtag)


@pytest.mark.parametrize(
    ("what", "subtag"),
    [
        ("Delivered, Neighbor as Requested", "Delivered_005"),
        ("Delivered, Left with Neighbor", "Delivered_005"),
        ("Delivered, Individual Picked Up at Post Office", "Delivered_002"),
        ("Delivered, In/At Mailbox", "Delivered_001"),
        ("Delivered, Parcel Locker", "Delivered_001"),
        ("Delivered to Agent, Left with Individual", "AvailableForPickup_001"),
        ("Delivered, To Agent for Final Delivery", "AvailableForPickup_001"),
    ],
)
def test_who_received_it_is_told_behind_the_comma(what: str, subtag: str) -> None:
    assert parse(item("Delivered", event(what, "2026-03-09T10:00:00", "01"))).subtag == subtag


def test_delivered_to_its_sender_is_returned() -> None:
    returned = event("Delivered, To Original Sender", "2026-03-09T10:00:00", "01")
    told = parse(item("Delivered", returned, OUT))

    assert (told.tag, told.subtag) == (Tag.EXCEPTION, "Exception_011")
    assert not told.active
    assert told.delivered_at is None


def test_an_evening_that_has_crossed_midnight_at_greenwich_is_computed() -> None:
    late = event(
        "Departed Post Office",
        "2026-03-03T18:31:00",
        "SF",
        GMTTimestamp="2026-03-03T00:31:21Z",
        GMTOffset="-06:00",
    )
    [told] = parse(item("In Transit", late)).checkpoints

    assert told.checkpoint_utc == datetime(2026, 3, 4, 0, 31, tzinfo=UTC)
    assert told.checkpoint_offset == "-06:00"


def test_a_z_behind_local_time_is_a_filler() -> None:
    filled = event("USPS in possession of item", "2026-03-03T07:31:00Z", "03")
    [told] = parse(item("Accepted", filled)).checkpoints

    assert told.checkpoint_time == "2026-03-03T07:31:00"
    assert (told.checkpoint_offset, told.checkpoint_utc) == (None, None)


def test_an_offset_of_one_digit_is_read() -> None:
    [told] = parse(item("Accepted", ACCEPTED | {"GMTOffset": "-7:00"})).checkpoints

    assert told.checkpoint_offset == "-07:00"


def test_the_newer_version_answers_a_list_and_calls_the_zip_code_otherwise() -> None:
    renamed = {name: value for name, value in OUT.items() if name != "eventZIP"}
    mine = item("Out for Delivery", renamed | {"eventZIPCode": "97302"})
    other = item("Delivered", DELIVERED) | {"trackingNumber": "9400100000000000000024"}
    told = parse([other, mine])

    assert told.tag is Tag.OUT_FOR_DELIVERY
    assert told.checkpoints[0].postal_code == "97302"


@pytest.mark.parametrize("bare", [NUMBER, "92748931507708513018050063"], ids=["22", "26"])
@pytest.mark.parametrize("routing", ["42097301", "420973011234"], ids=["ZIP", "ZIP+4"])
def test_the_routing_prefix_of_a_label_is_no_part_of_the_number(bare: str, routing: str) -> None:
    plain = json.dumps(item("Delivered", DELIVERED) | {"trackingNumber": bare}).encode()
    routed = json.dumps(item("Delivered", DELIVERED) | {"trackingNumber": routing + bare}).encode()

    assert usps.parse(200, {}, plain, routing + bare).delivered
    assert usps.parse(200, {}, routed, bare).delivered


def test_expected_delivery_is_the_couriers_text_in_either_version() -> None:
    older = item("Accepted", ACCEPTED, expectedDeliveryTimeStamp="2026-03-06T00:00:00")
    newer = item("Accepted", ACCEPTED)
    newer["deliveryDateExpectation"] = {"expectedDeliveryDate": "2026-03-06"}

    assert parse(older).expected_delivery == "2026-03-06T00:00:00"
    assert parse([newer]).expected_delivery == "2026-03-06"


def test_a_status_without_events_is_kept() -> None:
    told = parse(item("Pre-Shipment"))

    assert (told.tag, told.checkpoints) == (Tag.INFO_RECEIVED, ())


def test_only_the_codes_of_a_delivery_mean_delivered() -> None:
    codes = {code for code, status in EVENTS.items() if status.tag is Tag.DELIVERED}
    categories = {name for name, status in CATEGORIES.items() if status.tag is Tag.DELIVERED}

    assert codes == {"01", "43"}
    assert categories == {"delivered"}
