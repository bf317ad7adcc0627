"""UPS: what stands in its answers besides the plain story of one package."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from couriers import ups
from tracking.checkpoint import Tag, Tracking
from tracking.errors import WrongNumber

NUMBER = "1Z0000000000000003"
OTHER = "1Z0000000000000012"

Json = dict[str, object]


def seen(at: str, code: str, what: str, kind: str = "I", **more: object) -> Json:
    status = {"type": kind, "description": what, "statusCode": code}
    return {"date": at[:8], "time": at[8:], "status": status} | more


OUT = seen("20260305081000", "021", "Out For Delivery Today")
DELIVERED = seen("20260305130500", "011", "DELIVERED", "D")
LAST_YEAR = seen("20250305130500", "011", "DELIVERED", "D")


def package(*activity: Json, number: str | None = NUMBER, **more: object) -> Json:
    return {"trackingNumber": number, "activity": list(activity)} | more


def shipment(*packages: Json, inquiry: str = NUMBER) -> Json:
    return {"inquiryNumber": inquiry, "package": list(packages)}


def parse(*shipments: Json) -> Tracking:
    body = json.dumps({"trackResponse": {"shipment": list(shipments)}}).encode()
    return ups.parse(200, {}, body, NUMBER)


@pytest.mark.parametrize(
    ("code", "what", "kind", "subtag"),
    [
        ("011 ", "DELIVERED ", "D", "Delivered_001"),
        ("159", "On the Way", "I", "InTransit_001"),
        ("160", "We Have Your Package", "I", "InTransit_002"),
        ("161", "Your package is there", "D", "AvailableForPickup_001"),
        ("162", "With the driver today", "I", "OutForDelivery_001"),
        ("166", "Ready for Roadie", "M", "InfoReceived_001"),
        ("167", "Dropped off by the customer", "I", "InTransit_002"),
        ("083", "Held", "X", "Exception_001"),
    ],
)
def test_the_rest_of_its_codes(code: str, what: str, kind: str, subtag: str) -> None:
    told = parse(shipment(package(seen("20260305081000", code, what, kind))))

    assert (told.subtag, told.unknown_codes) == (subtag, ())


@pytest.mark.parametrize(
    ("code", "what", "subtag"),
    [
        ("MP", "Shipper created a label", "InfoReceived_001"),
        ("XD", "Drop-Off", "InTransit_002"),
        ("DP", "Departed from Facility", "InTransit_007"),
        ("OT", "Today", "OutForDelivery_001"),
        ("48", "A second attempt follows", "AttemptFail_002"),
        ("G3", "A second attempt follows", "AttemptFail_003"),
        ("2Q", "It is there", "AvailableForPickup_001"),
        ("ZC", "It will be delivered to the UPS Access Point you asked for.", "InTransit_001"),
        ("9E", "DELIVERED", "Delivered_001"),
        ("2W", "DELIVERED", "Delivered_002"),
    ],
)
def test_without_a_status_code_the_activitys_own_code_tells(
    code: str, what: str, subtag: str
) -> None:
    status = {"code": code, "description": what, "type": "I"}
    told = parse(shipment(package({"date": "20260305", "time": "", "status": status})))

    assert told.subtag == subtag
    assert [point.raw_tag for point in told.checkpoints] == [code]
    assert told.checkpoints[0].checkpoint_time == "2026-03-05"


@pytest.mark.parametrize(
    ("code", "subtag"),
    [("2Q", "AvailableForPickup_001"), ("2W", "Delivered_002"), ("KB", "Delivered_001")],
)
def test_the_activitys_own_code_tells_to_whom_it_was_delivered(code: str, subtag: str) -> None:
    status = {"code": code, "statusCode": "011", "type": "D", "description": "DELIVERED"}

    assert parse(shipment(package(DELIVERED | {"status": status}))).subtag == subtag


def test_a_code_in_no_list_is_counted_also_where_only_the_status_has_it() -> None:
    now = {"statusCode": "998", "type": "I", "description": "New"}

    assert parse(shipment(package(OUT, currentStatus=now))).unknown_codes == ("998",)


def test_of_a_number_that_was_used_again_the_newest_package_counts_alone() -> None:
    old, new = shipment(package(LAST_YEAR)), shipment(package(OUT))

    assert parse(old, new) == parse(new, old)
    assert (parse(old, new).tag, len(parse(old, new).checkpoints)) == (Tag.OUT_FOR_DELIVERY, 1)


def test_the_number_of_a_whole_shipment_stands_for_all_its_packages() -> None:
    packages = package(DELIVERED, number=OTHER), package(OUT, number="1Z0000000000000021")
    told = parse(shipment(*packages))

    assert (told.tag, len(told.checkpoints)) == (Tag.OUT_FOR_DELIVERY, 2)
    with pytest.raises(WrongNumber):
        parse(shipment(*packages, inquiry=OTHER))


def test_a_package_is_ours_by_another_of_its_numbers() -> None:
    mine = package(OUT, number=OTHER, alternateTrackingNumber=[{"number": NUMBER, "type": "Q"}])

    assert parse(shipment(package(DELIVERED, number="X"), mine, inquiry="X")).tag is (
        Tag.OUT_FOR_DELIVERY
    )


@pytest.mark.parametrize("clock", ["151000", "15:10:00"])
def test_without_an_offset_the_instant_follows_from_the_time_at_greenwich(clock: str) -> None:
    [told] = parse(shipment(package(OUT | {"gmtDate": "20260305", "gmtTime": clock}))).checkpoints

    assert told.checkpoint_utc == datetime(2026, 3, 5, 15, 10, tzinfo=UTC)
    assert (told.checkpoint_time, told.checkpoint_offset) == ("2026-03-05T08:10:00", "-07:00")


@pytest.mark.parametrize(
    ("day", "clock"), [("20260305", "74700"), ("20260301", "150500"), ("", "150500"), (None, None)]
)
def test_a_time_at_greenwich_that_cannot_be_is_none(day: str | None, clock: str | None) -> None:
    [told] = parse(shipment(package(OUT | {"gmtDate": day, "gmtTime": clock}))).checkpoints

    assert (told.checkpoint_utc, told.checkpoint_offset) == (None, None)


def test_an_address_that_is_only_a_text_is_none() -> None:
    parties = [{"type": "ORIGIN", "address": "null"}]
    told = parse(shipment(package(OUT, packageAddress=parties)))

    assert (told.tag, told.origin) == (Tag.OUT_FOR_DELIVERY, None)
