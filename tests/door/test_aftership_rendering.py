"""Shipments as AfterShip shows them, and what queries ask for: pure."""

from __future__ import annotations

import base64
import datetime as dt
from typing import Any

import pytest

from couriers.reading import statuses
from service.api.aftership.reading import cursor_of, filters_of, page_of, position_of
from service.api.aftership.rendering import MESSAGES, checkpoint, chosen, tracking
from service.api.exchange import Problem
from service.client.shipments import Position
from service.results.shipments import conditions
from tracking.checkpoint import Tag
from tracking.request import MAIN, Account

MADE = dt.datetime(2026, 5, 4, 8, 0, 1, 250_000, dt.UTC)
NOW = MADE + dt.timedelta(days=30)
SHOP = Account("shop")


def scan(day: int, tag: str, subtag: str, **more: Any) -> dict[str, Any]:
    told = f"2026-05-{day:02}T10:00:00"
    utc = dt.datetime(2026, 5, day, 10, tzinfo=dt.UTC)
    made = {"checkpoint_time": told, "checkpoint_utc": utc, "message": subtag}
    return made | {"tag": tag, "subtag": subtag, **more}


def shipment(stored: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    made = {
        "_id": "shop/0a",
        "slug": "usps",
        "number": "9405",
        "words": {},
        "completed": None,
        "created_at": MADE,
        "changed_at": MADE,
        "tag": (stored or {}).get("tag", "Pending"),
    }
    return made | ({"stored": stored} if stored else {}) | more


DELIVERED = {
    "tag": "Delivered",
    "subtag": "Delivered_003",
    "delivered": True,
    "active": False,
    "checkpoints": [
        scan(4, "InTransit", "InTransit_002"),
        scan(6, "AttemptFail", "AttemptFail_002"),
        scan(7, "Delivered", "Delivered_003"),
    ],
    "delivered_at": "2026-05-07T10:00:00",
    "delivered_at_utc": dt.datetime(2026, 5, 7, 10, tzinfo=dt.UTC),
    "expected_delivery": "2026-05-06",
    "signed_by": "J. Doe",
    "weight_grams": 1_250,
    "service": "Priority Mail",
    "proof_of_delivery": "https://example.com/pod",
    "tracked_count": 7,
}


def test_the_way_of_a_parcel_is_told_as_aftership_calls_it() -> None:
    told = tracking(shipment(DELIVERED), "2026-07", NOW)

    expected = {
        "id": "0a",
        "tag": "Delivered",
        "subtag": "Delivered_003",
        "active": False,
        "created_at": "2026-05-04T08:00:01+00:00",
        "shipment_pickup_date": "2026-05-04T10:00:00",
        "shipment_delivery_date": "2026-05-07T10:00:00",
        "transit_time": 3,
        "first_attempted_at": "2026-05-06T10:00:00",
        "failed_delivery_attempts": 1,
        "signed_by": "J. Doe",
        "shipment_weight": {"unit": "kg", "value": 1.25},
        "shipment_type": "Priority Mail",
        "proof_of_delivery": [{"url": "https://example.com/pod"}],
        "tracked_count": 7,
        "return_to_sender": False,
    }
    assert {name: told[name] for name in expected} == expected
    assert told["courier_estimated_delivery_date"]["estimated_delivery_date"] == "2026-05-06"
    assert [each["source"] for each in told["checkpoints"]] == ["carrier"] * 3


def test_a_parcel_of_which_nothing_is_stored_is_pending_and_active() -> None:
    told = tracking(shipment(), "2026-07", NOW)

    assert (told["tag"], told["subtag"], told["active"]) == ("Pending", "Pending_001", True)
    assert (told["title"], told["checkpoints"], told["transit_time"]) == ("9405", [], None)


def test_a_parcel_that_comes_back_says_so() -> None:
    back = DELIVERED | {"checkpoints": [scan(4, "Exception", "Exception_010")]}

    assert tracking(shipment(back), "2026-07", NOW)["return_to_sender"] is True


def test_the_days_of_a_parcel_on_its_way_are_counted_until_now() -> None:
    stored = {"tag": "InTransit", "checkpoints": [scan(4, "InTransit", "InTransit_002")]}

    assert tracking(shipment(stored), "2026-07", NOW)["transit_time"] == 29


def test_a_checkpoint_has_one_hash_however_often_it_is_shown() -> None:
    first, same = (
        checkpoint(scan(4, "InTransit", "InTransit_001"), "usps", version)
        for version in ("2026-07", "2026-01")
    )
    other = checkpoint(scan(5, "InTransit", "InTransit_001"), "usps", "2026-07")

    assert first["hash"] == same["hash"] != other["hash"]
    assert "hash" not in checkpoint(scan(4, "InTransit", "InTransit_001"), "usps", "2025-07")


def test_every_subtag_of_a_courier_has_its_words_in_aftership() -> None:
    given_by_couriers = {
        each.subtag for each in vars(statuses).values() if isinstance(each, statuses.Status)
    }

    assert given_by_couriers <= set(MESSAGES)
    assert {each.split("_")[0] for each in MESSAGES} == set(Tag)


def test_only_the_wanted_fields_are_left_and_the_id() -> None:
    assert chosen({"id": "0a", "tag": "Pending", "title": "a"}, ["tag", "nothing"]) == {
        "id": "0a",
        "tag": "Pending",
    }
    assert chosen({"id": "0a"}, []) == {"id": "0a"}


@pytest.mark.parametrize(("account", "name"), [(MAIN, "0a"), (SHOP, "shop/0a")])
def test_a_cursor_brings_back_its_position(account: Account, name: str) -> None:
    for at in (MADE, MADE - dt.timedelta(days=30_000)):
        assert position_of(cursor_of(Position(at, name)), account) == Position(at, name)


@pytest.mark.parametrize(
    "written",
    ["", "5", "null", "[]", '["a", "b"]', "[1, 2]", "[1e999, 2]", "[true, 0]", '[1e3, "a"]',
     '[99999999999999999999, "a"]', r'[1, "\ud800"]', '{"a": 1, "b": 2}', "[" * 20_000, "\xff"],
)  # fmt: skip
def test_a_cursor_that_somebody_made_up_is_refused(written: str) -> None:
    made_up = base64.urlsafe_b64encode(written.encode("latin-1")).decode()

    for cursor in (made_up, f"é{made_up}", f"{made_up}="):
        with pytest.raises(Problem, match="cursor"):
            position_of(cursor, MAIN)


def test_a_cursor_of_another_account_is_a_position_among_ones_own() -> None:
    assert position_of(cursor_of(Position(MADE, "shop/0a")), Account("other")).name == "other/0a"


def found(**query: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return conditions(filters_of(query, SHOP, {"hkpost": "hong-kong-post"}.get))


def test_every_list_is_of_one_account_and_of_what_is_not_deleted() -> None:
    assert found() == ({"account": "shop", "deleted": False}, {})


def test_lists_of_values_are_looked_for_where_they_stand() -> None:
    own, whole = found(slug="hkpost,ups", order_id="7", tracking_numbers="a-b c", tag="Pending")

    assert own["slug"] == {"$in": ["hong-kong-post", "ups"]}
    assert own["words.order_id"] == {"$in": ["7"]}
    assert set(own["number"]["$in"]) == {"A-B C", "AB C", "ABC"}
    assert whole == {"tag": {"$in": ["Pending"]}}


def test_a_keyword_is_no_pattern() -> None:
    own, _ = found(keyword="a.*b")

    assert own["$or"][0] == {"number": {"$regex": r"a\.\*b", "$options": "i"}}


@pytest.mark.parametrize(
    "written",
    [
        "2026-05-04T10:00:01+02:00",
        "2026-05-04T10:00:01 02:00",  # nobody escaped the plus
        "2026-05-04T08:00:01Z",
        "2026-05-04T08:00:01",
    ],
)
def test_dates_are_read_in_every_form_and_without_a_zone_as_utc(written: str) -> None:
    own, whole = found(created_at_min=written, updated_at_max=written)

    at = dt.datetime(2026, 5, 4, 8, 0, 1, tzinfo=dt.UTC)
    assert own["created_at"] == {"$gte": at}
    assert whole["changed_at"] == {"$lte": at}


def test_a_page_has_a_hundred_unless_it_says_otherwise() -> None:
    assert page_of({}, MAIN).most == 100
    assert page_of({"limit": "200"}, MAIN).most == 200
