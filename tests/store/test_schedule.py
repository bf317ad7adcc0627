"""When a parcel is looked at again."""

from __future__ import annotations

import pytest
from store_parcels import NAME, START, days, hours

from service.store.schedule import Standing, next_check
from tracking.checkpoint import Tag


def wait_hours(tag: Tag, known_hours: float = 0, unchanged_hours: float = 0) -> float:
    now = START + days(100)
    parcel = Standing(NAME, tag, now - hours(known_hours), now - hours(unchanged_hours))
    return (next_check(parcel, now) - now) / hours(1)


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
    wait = wait_hours(tag, unchanged_hours, unchanged_hours)

    assert expected * 0.9 <= wait <= expected * 1.1


@pytest.mark.parametrize(
    ("known_hours", "expected"), [(0, 1), (1, 2), (3, 4), (7, 8), (15, 12), (500, 12)]
)
def test_an_unknown_number_is_asked_for_less_and_less_often(
    known_hours: float, expected: float
) -> None:
    wait = wait_hours(Tag.PENDING, known_hours)

    assert expected * 0.9 <= wait <= expected * 1.1


def test_parcels_of_the_same_instant_do_not_come_back_together() -> None:
    waits = {
        next_check(Standing(f"usps:{number}", Tag.IN_TRANSIT, START, START), START)
        for number in range(100)
    }

    assert len(waits) > 90


def test_the_same_check_draws_the_same_time() -> None:
    parcel = Standing(NAME, Tag.IN_TRANSIT, START, START)

    assert next_check(parcel, START + hours(3)) == next_check(parcel, START + hours(3))
