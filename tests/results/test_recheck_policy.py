"""When a parcel is looked at again."""

from __future__ import annotations

import datetime as dt

import pytest
from store_parcels import DEFAULTS, NAME, START, days, hours

from service.config.schema import Recheck
from service.worker.results.recheck_policy import (
    UNKNOWN_PACE,
    Pace,
    ParcelAge,
    in_turn,
    is_overdue,
    next_check,
    pace_of,
    read_pace,
)
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


@pytest.mark.parametrize("minutes", [1, 45, 59, 240, 264, 1_440, 12_000])
def test_a_pace_is_the_time_until_the_check_cut_by_a_fifth_at_most(minutes: int) -> None:
    due = START + dt.timedelta(minutes=minutes)

    pace = pace_of(Tag.IN_TRANSIT, None, START, due)

    assert 0.8 * 60 * minutes <= pace.seconds <= 60 * minutes
    assert read_pace(pace.text) == pace


def test_there_are_few_paces_so_that_each_can_be_looked_up() -> None:
    times = [dt.timedelta(minutes=n) for n in range(45, 1_440)]

    assert len({pace_of(Tag.PENDING, None, START, START + each) for each in times}) <= 22


@pytest.mark.parametrize("text", [None, "", "then", "then 0", "first 60 ", 5, {"a": 1}, b"then 60"])
def test_what_says_no_pace_is_no_hindrance_and_is_never_moved(text: object) -> None:
    assert read_pace(text) is UNKNOWN_PACE
    assert UNKNOWN_PACE.early == hours(0)


def test_a_check_may_be_put_a_tenth_of_its_time_sooner_but_not_one_that_was_put() -> None:
    assert Pace(first=False, seconds=36_000).early == hours(1)
    assert Pace(first=True, seconds=36_000, put=True).early == hours(0)


@pytest.mark.parametrize(
    ("tag", "expected", "word"),
    [
        (Tag.OUT_FOR_DELIVERY, None, "first"),
        (Tag.EXCEPTION, None, "first"),
        (Tag.IN_TRANSIT, None, "then"),
        (Tag.IN_TRANSIT, "2026-02-27T18:00:00+01:00", "first"),
        (Tag.PENDING, "2026-02-27", "first"),
        (Tag.IN_TRANSIT, "2026-03-09", "then"),
        (Tag.IN_TRANSIT, "Monday", "then"),
    ],
)
def test_what_is_out_for_delivery_in_exception_or_overdue_goes_first(
    tag: Tag, expected: str | None, word: str
) -> None:
    assert pace_of(tag, expected, START, START + hours(4)).text.split()[0] == word


@pytest.mark.parametrize("expected", [None, 5, "", "0000-00-00", "9999-12-31", b"2026-01-01"])
def test_a_text_that_is_no_day_that_is_over_makes_no_parcel_overdue(expected: object) -> None:
    assert not is_overdue(expected, START)


def test_a_parcel_is_overdue_once_the_day_is_over() -> None:
    midnight = dt.datetime(2026, 3, 5, tzinfo=dt.UTC)

    assert is_overdue("2026-03-04", midnight)
    assert not is_overdue("2026-03-04", midnight - hours(1))


def put_in_turn(*waiting: tuple[Pace, list[float]], turn: int = 0) -> list[str]:
    """Of each pace so many hours late; named by the pace's hours and how late each is."""
    documents = [
        (
            pace,
            [
                {"next_check_at": START - hours(late), "name": f"{pace.seconds / 3_600:g} {late:g}"}
                for late in lates
            ],
        )
        for pace, lates in waiting
    ]
    return [each["name"] for each in in_turn(documents, START, turn)]


def test_who_is_latest_in_proportion_to_its_time_comes_first() -> None:
    quick, slow = Pace(first=False, seconds=14_400), Pace(first=False, seconds=86_400)

    put = put_in_turn((slow, [12, 6, 1]), (quick, [4, 1.5, 0.1]))

    assert put == ["4 4", "24 12", "4 1.5", "24 6", "24 1", "4 0.1"]


def test_every_fourth_is_of_those_that_do_not_go_first_so_that_none_of_them_starves() -> None:
    first, then = Pace(first=True, seconds=3_600), Pace(first=False, seconds=7_200)

    assert put_in_turn((then, [9, 8]), (first, [5, 4, 3, 2])) == [
        *("1 5", "1 4", "1 3", "2 9"),
        *("1 2", "2 8"),
    ]
    assert put_in_turn((then, [9]), (first, [5]), turn=3) == ["2 9", "1 5"]
    assert put_in_turn() == []
