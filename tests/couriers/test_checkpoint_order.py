"""Checkpoints come out oldest first, each once, whatever order a courier lists them in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriers.reading.checkpoints import decisive, newest, oldest_first
from tracking.checkpoint import Checkpoint, Tag

DAY = datetime(2026, 1, 5, tzinfo=UTC)


def seen(hour: int, message: str = "", *, offset: int | None = 0, city: str = "") -> Checkpoint:
    local = DAY + timedelta(hours=hour)
    return Checkpoint(
        checkpoint_time=local.replace(tzinfo=None).isoformat(),
        checkpoint_offset=None if offset is None else f"{offset:+03}:00",
        checkpoint_utc=None if offset is None else local - timedelta(hours=offset),
        message=message,
        tag=Tag.IN_TRANSIT,
        subtag="InTransit_001",
        city=city,
    )


def test_events_of_one_second_keep_the_couriers_order() -> None:
    listed = [seen(9, "c"), seen(9, "b"), seen(9, "a"), seen(8, "z")]

    assert [e.message for e in oldest_first(listed, newest_first=True)] == ["z", "a", "b", "c"]
    assert [e.message for e in oldest_first(listed, newest_first=False)] == ["z", "c", "b", "a"]


def test_the_instant_decides_where_every_event_has_one() -> None:
    hong_kong, london = seen(20, "hk", offset=8), seen(13, "uk", offset=0)

    assert oldest_first([london, hong_kong], newest_first=False) == (hong_kong, london)


def test_local_time_decides_where_one_event_has_no_instant() -> None:
    hong_kong, london = seen(20, "hk", offset=8), seen(13, "uk", offset=None)

    assert oldest_first([hong_kong, london], newest_first=False) == (london, hong_kong)


def test_only_exact_repeats_are_dropped() -> None:
    listed = [seen(9, "a"), seen(9, "a"), seen(9, "b"), seen(9, "a", city="Leeds"), seen(10, "a")]

    assert len(oldest_first(listed, newest_first=False)) == 4


def test_the_newest_of_a_tag_and_the_newest_that_bears_a_status_are_found() -> None:
    events = oldest_first([seen(8, "a"), seen(9, "b"), seen(10, "c")], newest_first=False)

    assert newest(events, Tag.DELIVERED) is None
    assert newest(events) == events[2]
    assert decisive(events, {events[0], events[1]}) == events[1]
    assert decisive(events, set()) is None


@given(
    events=st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from("ab"), st.sampled_from([None, -5, 0, 8])),
        max_size=12,
    ),
    newest_first=st.booleans(),
)
def test_any_order_and_any_repeats_give_the_same_set_oldest_first(
    events: list[tuple[int, str, int | None]], *, newest_first: bool
) -> None:
    listed = [seen(hour, message, offset=offset) for hour, message, offset in events]
    ordered = oldest_first(listed + listed, newest_first=newest_first)

    assert len(set(ordered)) == len(ordered)
    assert set(ordered) == set(listed)
    if all(event.checkpoint_utc for event in ordered):
        instants = [event.checkpoint_utc for event in ordered]
    else:
        instants = [event.checkpoint_time for event in ordered]  # type: ignore[misc]
    assert instants == sorted(instants)  # type: ignore[type-var]


@pytest.mark.parametrize("newest_first", [True, False])
def test_nothing_gives_nothing(*, newest_first: bool) -> None:
    assert oldest_first([], newest_first=newest_first) == ()
