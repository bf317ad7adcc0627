"""Times are read as written or not at all."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriers.reading.checkpoints import (
    YEARS,
    Moment,
    read_day_first,
    read_digits,
    read_iso,
    read_month_first,
    read_offset,
)
from tracking.errors import UnreadableAnswer

MORNING = "2026-01-05T08:15:00"


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-05T08:15:00", Moment(MORNING)),
        ("2026-01-05 08:15:00", Moment(MORNING)),
        ("2026-01-05T08:15", Moment(MORNING)),
        ("2026-01-05T08:15:00.123456789", Moment(MORNING)),
        ("2026-01-05", Moment("2026-01-05")),
        (
            "2026-01-05T08:15:00Z",
            Moment(MORNING, "+00:00", datetime(2026, 1, 5, 8, 15, tzinfo=UTC)),
        ),
        (
            "2026-01-05T08:15:00.5+0200",
            Moment(MORNING, "+02:00", datetime(2026, 1, 5, 6, 15, tzinfo=UTC)),
        ),
        (
            "2026-01-05T08:15:00-7:00",
            Moment(MORNING, "-07:00", datetime(2026, 1, 5, 15, 15, tzinfo=UTC)),
        ),
    ],
)
def test_iso_is_read_in_every_form_couriers_write(text: str, moment: Moment) -> None:
    assert read_iso(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "08:15",
        "5 January 2026",
        "2026-1-5",
        "2026-02-30",
        "2026-01-05T24:00:00",
        "2026-01-05T08:61",
        "0001-01-01T00:00:00",
        "9999-12-31T23:59:59+00:00",
        "20260105",
        "2026-01-05T08:15:00Zulu",
        "\u0662\u0660\u0662\u0666-\u0660\u0661-\u0660\u0665",
    ],
)
def test_what_is_no_time_of_a_scan_is_unreadable_and_never_replaced(text: str) -> None:
    with pytest.raises(UnreadableAnswer):
        read_iso(text)


def test_a_zone_known_to_be_fake_is_dropped() -> None:
    assert read_iso("2026-01-05T08:15:00Z", zone_is_fake=True) == Moment(MORNING)
    assert read_iso("2026-01-05T08:15:00-05:00", zone_is_fake=True).offset == "-05:00"


def test_an_offset_beside_a_fake_zone_counts() -> None:
    moment = read_iso("2026-01-05T08:15:00Z", place_offset="-05:00", zone_is_fake=True)

    assert moment.offset == "-05:00"
    assert moment.utc == datetime(2026, 1, 5, 13, 15, tzinfo=UTC)


@pytest.mark.parametrize("offset", ["", "EST", "+99:00", "+14:01", "+05:60", "5", "+5:3"])
def test_an_offset_that_no_place_has_leaves_the_instant_unknown(offset: str) -> None:
    assert read_iso(MORNING, place_offset=offset) == Moment(MORNING)


def test_an_offset_of_half_an_hour_keeps_its_minutes_on_both_sides() -> None:
    assert read_iso(MORNING, place_offset="-03:30").offset == "-03:30"
    assert read_iso(MORNING, place_offset="+0545").offset == "+05:45"


@pytest.mark.parametrize(
    ("day", "clock", "local"),
    [
        ("20260105", "081500", MORNING),
        ("20260105", "08:15:00", MORNING),
        ("20260105", "", "2026-01-05"),
    ],
)
def test_digits_are_read(day: str, clock: str, local: str) -> None:
    assert read_digits(day, clock).local == local


@pytest.mark.parametrize(
    ("day", "clock"),
    [("20260105", "74700"), ("2026105", "081500"), ("20261305", "081500"), ("", ""), ("x", "y")],
)
def test_digits_that_were_lost_are_not_made_up(day: str, clock: str) -> None:
    with pytest.raises(UnreadableAnswer):
        read_digits(day, clock)


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("29-07-2014 09:05", "2014-07-29T09:05:00"),
        ("6-Jul-2014", "2014-07-06"),
        ("06/07/2014", "2014-07-06"),
        ("18.03.2016 10:02", "2016-03-18T10:02:00"),
    ],
)
def test_dates_that_begin_with_the_day_are_read(text: str, local: str) -> None:
    assert read_day_first(text) == Moment(local)


@pytest.mark.parametrize(
    ("text", "clock"),
    [
        ("8/17/2021 7:11:26 PM", "19:11:26"),
        ("8/17/2021, 7:11 AM", "07:11:00"),
        ("8/17/2021 12:00:01 AM", "00:00:01"),
        ("8/17/2021 12:00:01 PM", "12:00:01"),
    ],
)
def test_a_clock_of_twice_twelve_hours_is_read(text: str, clock: str) -> None:
    assert read_month_first(text) == Moment(f"2021-08-17T{clock}")


@pytest.mark.parametrize(
    "text",
    ["8/17/2021 19:11:26", "8/17/2021 19:11:26 PM", "8/17/2021 0:11:26 AM", "17/8/2021 7:11 PM"],
)
def test_a_month_is_not_taken_for_the_first_where_nothing_says_so(text: str) -> None:
    with pytest.raises(UnreadableAnswer):
        read_month_first(text)


@pytest.mark.parametrize("text", ["2014-07-29", "31-Jun-2014", "29-Jly-2014", "13-13-2014", ""])
def test_dates_that_do_not_are_unreadable(text: str) -> None:
    with pytest.raises(UnreadableAnswer):
        read_day_first(text)


@given(
    st.datetimes(datetime(YEARS[0], 1, 1), datetime(YEARS[-1], 12, 31)),  # noqa: DTZ001 - local
    st.integers(-14 * 60, 14 * 60),
)
def test_the_instant_is_the_local_time_less_the_offset(local: datetime, minutes: int) -> None:
    local = local.replace(microsecond=0)
    sign = "-" if minutes < 0 else "+"
    offset = f"{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    moment = read_iso(f"{local.isoformat()}{offset}")

    assert moment.local == local.isoformat()
    assert moment.utc == datetime.fromisoformat(f"{local.isoformat()}{offset}")
    assert moment.offset in (offset, "+00:00")


@given(st.from_regex(r"(19[89]|20[0-9]|21[01])[0-9]-[0-3]\d-[0-3]\d[T ][0-2]\d:[0-6]\d:[0-6]\d"))
def test_a_time_in_its_final_form_is_read_as_any_other(text: str) -> None:
    """It takes a short way, which judges the year by its digits."""
    assert read_or_refused(text) == read_or_refused(text.replace("T", " "))


def read_or_refused(text: str) -> Moment | None:
    try:
        return read_iso(text)
    except UnreadableAnswer:
        return None


@given(st.text())
def test_no_text_is_read_as_a_time_it_does_not_hold(text: str) -> None:
    try:
        moment = read_iso(text)
    except UnreadableAnswer:
        return
    assert moment.local[:10] in text


@given(st.text(max_size=8))
def test_no_offset_raises(text: str) -> None:
    read_offset(text)
