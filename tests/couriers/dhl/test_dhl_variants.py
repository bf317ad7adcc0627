"""DHL Express: what stands in its answers besides the plain story of one shipment."""

from __future__ import annotations

import json

import pytest

from couriers import dhl
from tracking.checkpoint import Tag, Tracking

NUMBER = "0123456784"

Json = dict[str, object]


def event(at: str, code: str, what: str = "") -> Json:
    return {"timestamp": at, "statusCode": code, "description": what}


OUT = event("2026-03-05T08:10:00", "transit", "With delivery courier")
DELIVERED = event("2026-03-05T13:05:00+01:00", "delivered", "Delivered")
LAST_YEAR = event("2025-03-05T13:05:00", "delivered", "Delivered")


def parse(*shipments: Json) -> Tracking:
    body = json.dumps({"shipments": [{"id": NUMBER} | each for each in shipments]}).encode()
    return dhl.parse(200, {}, body, NUMBER)


@pytest.mark.parametrize(
    ("what", "subtag"),
    [
        ("With delivery courier", "OutForDelivery_001"),
        ("Shipment is out with courier for delivery", "OutForDelivery_001"),
        ("The shipment has been loaded onto the delivery vehicle", "OutForDelivery_001"),
        ("Processed for clearance at LEIPZIG", "InTransit_006"),
        ("Clearance processing complete at LEIPZIG", "InTransit_005"),
        ("Shipment on hold", "Exception_001"),
        ("Shipment picked up", "InTransit_002"),
        ("Departed Facility in LEIPZIG", "InTransit_007"),
        ("Delivery attempted; recipient not home", "AttemptFail_002"),
        ("Awaiting collection by recipient as requested", "AvailableForPickup_001"),
    ],
)
def test_its_phrases_refine_transit(what: str, subtag: str) -> None:
    events = [event("2026-03-05T08:10:00", "transit", what)]

    assert parse({"events": events}).subtag == subtag


def test_of_a_number_that_was_used_again_the_newest_shipment_counts_alone() -> None:
    old, new = {"events": [LAST_YEAR]}, {"events": [OUT]}

    assert parse(old, new) == parse(new, old)
    assert parse(old, new).tag is Tag.OUT_FOR_DELIVERY


def test_a_status_without_events_is_the_one_event_that_is_told() -> None:
    told = parse({"status": DELIVERED})

    assert told.delivered_at == "2026-03-05T13:05:00"
    assert told.delivered_at_utc is not None
    assert [point.message for point in told.checkpoints] == ["Delivered"]


def test_a_delivery_of_which_only_the_status_tells_has_its_time() -> None:
    told = parse({"status": DELIVERED, "events": [OUT]})

    assert told.delivered_at == "2026-03-05T13:05:00"
    assert len(told.checkpoints) == 1


def test_a_frame_tells_until_when_it_is_expected() -> None:
    frame = {"estimatedFrom": "2026-03-05T12:00:00", "estimatedThrough": "2026-03-05T16:00:00"}
    told = parse({"events": [OUT], "estimatedDeliveryTimeFrame": frame})

    assert told.expected_delivery == "2026-03-05T16:00:00"


def test_who_signed_may_be_told_in_two_words() -> None:
    proof = {"signed": {"givenName": "Jane", "familyName": "Doe"}}
    told = parse({"events": [DELIVERED], "details": {"proofOfDelivery": proof}})

    assert told.signed_by == "Jane Doe"


def test_no_result_is_told_by_its_own_words_whatever_the_status() -> None:
    body = b'{"title": "No result found", "detail": "No shipment found.", "status": 404}'

    assert dhl.parse(200, {}, body, NUMBER).tag is Tag.PENDING
