"""When a parcel is looked at again."""

from __future__ import annotations

import pytest
from store_parcels import DEFAULTS, NAME, START, days, hours

from service.config.schema import Recheck
from service.worker.results.recheck_policy import ParcelAge, next_check
from tracking.checkpoint import Tag

HOUR_OF = {
    Tag.PENDING: "pending_hours",
    Tag.INFO_RECEIVED: "info_received_hours",
    Tag.IN_TRANSIT: "in_transit_hours",
    Tag.OUT_FOR_DELIVERY: "out_for_delivery_hours",
    Tag.ATTEMPT_FAIL: "attempt_fail_hours",
    Tag.AVAILABLE_FOR_PICKUP: "available_for_pickup_hours",
    Tag.EXCEPTION: "exception_hours",
}


def wait_hours(
    tag: Tag, known_hours: float = 0, unchanged_hours: float = 0, recheck: Recheck = DEFAULTS
) -> float:
    now = START + days(100)
    parcel = ParcelAge(NAME, tag, now - hours(known_hours), now - hours(unchanged_hours))
    at = next_check(parcel, now, recheck)
    assert at is not None
    return (at - now) / hours(1)


def about(hours: float) -> object:
    """Each check is drawn from so much around its time."""
    return pytest.approx(hours, rel=0.1)


@pytest.mark.parametrize(
    ("tag", "unchanged_hours", "expected"),
    [
        (Tag.INFO_RECEIVED, 0, 6),
        (Tag.IN_TRANSIT, -1, 4),  # a clock that stepped back
        (Tag.IN_TRANSIT, 0, 4),
        (Tag.IN_TRANSIT, 71, 4),
        (Tag.IN_TRANSIT, 72, 8),
        (Tag.IN_TRANSIT, 239, 8),
        (Tag.IN_TRANSIT, 240, 24),
        (Tag.OUT_FOR_DELIVERY, 0, 0.75),
        (Tag.ATTEMPT_FAIL, 0, 4),
        (Tag.AVAILABLE_FOR_PICKUP, 0, 8),
        (Tag.EXCEPTION, 0, 6),
    ],
)
def test_each_tag_has_its_pace(tag: Tag, unchanged_hours: float, expected: float) -> None:
    assert wait_hours(tag, unchanged_hours, unchanged_hours) == about(expected)


@pytest.mark.parametrize(
    ("known_hours", "expected"), [(0, 1), (1, 2), (3, 4), (7, 8), (15, 12), (500, 12)]
)
def test_an_unknown_number_is_asked_for_less_and_less_often(
    known_hours: float, expected: float
) -> None:
    assert wait_hours(Tag.PENDING, known_hours) == about(expected)


def test_parcels_of_the_same_instant_do_not_come_back_together() -> None:
    waits = {
        next_check(ParcelAge(f"usps:{number}", Tag.IN_TRANSIT, START, START), START, DEFAULTS)
        for number in range(100)
    }

    assert len(waits) > 90


def test_the_same_check_draws_the_same_time() -> None:
    parcel = ParcelAge(NAME, Tag.IN_TRANSIT, START, START)

    later = START + hours(3)
    assert next_check(parcel, later, DEFAULTS) == next_check(parcel, later, DEFAULTS)


@pytest.mark.parametrize("tag", HOUR_OF)
def test_each_pace_is_a_setting(tag: Tag) -> None:
    slow = Recheck(**{HOUR_OF[tag]: 100.0})

    assert wait_hours(tag, recheck=slow) == about(100)
    for other in HOUR_OF.keys() - {tag}:
        assert wait_hours(other, recheck=slow) == wait_hours(other)


@pytest.mark.parametrize("tag", HOUR_OF)
def test_0_hours_mean_no_check(tag: Tag) -> None:
    parcel = ParcelAge(NAME, tag, START, START)

    assert next_check(parcel, START + days(20), Recheck(**{HOUR_OF[tag]: 0.0})) is None


@pytest.mark.parametrize(
    ("setting", "tag", "after_hours", "expected"),
    [
        ("in_transit_hours", Tag.IN_TRANSIT, 72, 2 * 10),
        ("in_transit_hours", Tag.IN_TRANSIT, 240, 6 * 10),
        ("pending_hours", Tag.PENDING, 10, 2 * 10),
        ("pending_hours", Tag.PENDING, 500, 12 * 10),
    ],
)
def test_what_slows_down_slows_down_by_the_same_factors(
    setting: str, tag: Tag, after_hours: float, expected: float
) -> None:
    assert wait_hours(tag, after_hours, after_hours, Recheck(**{setting: 10.0})) == about(expected)
