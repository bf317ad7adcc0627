"""How a run is judged from its arrivals alone."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks.pace import Allowed, Window, gaps_in, judge, percentile, turnovers
from devstack.judge import Call

SECOND = 1_000_000_000
ALLOWED = Allowed(per_second=2, guard=0.02)


def calls(slug: str, *arrived: float, lasting: float = 0.2) -> list[Call]:
    return [
        Call(slug, "N", round(at * SECOND), round((at + lasting) * SECOND), 200) for at in arrived
    ]


def window(begin: float, end: float) -> Window:
    return Window(round(begin * SECOND), round(end * SECOND))


def test_two_calls_every_second_and_guard_are_the_whole_rate() -> None:
    pairs = [round(1.02 * turn + half, 3) for turn in range(10) for half in (0, 0.5)]

    pace = judge(calls("a", *pairs), window(0, 20), ALLOWED, slugs=1)

    assert pace.rate == pytest.approx(1 / 1.02)
    assert pace.late_ms == pytest.approx(0, abs=1e-6)
    assert (pace.over, pace.worst) == (0, 2)


def test_the_rate_is_that_of_the_window_and_of_all_slugs() -> None:
    slow = calls("slow", 0, 0.1, 2, 2.1, 4, 4.1)
    fast = calls("fast", 0, 0.1, 1, 1.1, 2, 2.1)
    before = calls("fast", -50, -49)

    pace = judge([*before, *slow, *fast], window(0, 5), ALLOWED, slugs=2)

    assert pace.rate == pytest.approx(1 / 1.5)
    assert pace.calls == 12
    assert pace.share == pytest.approx(12 / (2 * 2 * 5))


def test_a_slug_that_never_called_lowers_the_share() -> None:
    pace = judge(calls("a", 0, 0.5, 1, 1.5), window(0, 2), ALLOWED, slugs=2)

    assert pace.share == pytest.approx(0.5)


def test_a_third_call_in_a_second_is_seen_outside_the_window_too() -> None:
    early = calls("a", 0, 0.5, 0.999)
    exact = calls("b", 0, 0.5, 1.0)

    pace = judge([*early, *exact], window(5, 6), ALLOWED, slugs=2)

    assert (pace.over, pace.worst) == (1, 3)


def test_what_a_standing_courier_saw_too_late_is_over_and_not_proven() -> None:
    seen_late = replace(calls("a", 0.0)[0], late_ns=round(0.03 * SECOND))
    after = calls("a", 0.5, 0.98)

    pace = judge([seen_late, *after], window(0, 2), ALLOWED, slugs=1)

    assert (pace.over, pace.proven, pace.worst) == (1, 0, 3)
    assert pace.stall_ms == pytest.approx(30)


def test_a_stall_that_is_too_short_to_explain_it_leaves_it_proven() -> None:
    seen_late = replace(calls("a", 0.0)[0], late_ns=round(0.015 * SECOND))

    pace = judge([seen_late, *calls("a", 0.5, 0.98)], window(0, 2), ALLOWED, slugs=1)

    assert (pace.over, pace.proven) == (1, 1)


def test_the_worst_instant_counts_the_calls_in_flight() -> None:
    pace = judge(calls("a", 0, 1, 2, lasting=1.5), window(0, 4), ALLOWED, slugs=1)

    assert pace.in_flight == 2


def test_a_run_without_calls_has_no_rate() -> None:
    pace = judge([], window(0, 1), ALLOWED, slugs=3)

    assert (pace.calls, pace.rate, pace.share, pace.over, pace.worst) == (0, 0.0, 0.0, 0, 0)
    assert math.isnan(pace.late_ms)


def test_a_gap_needs_both_of_its_ends_in_the_window() -> None:
    found = gaps_in(calls("a", 0, 1, 2, 3, 4), window(1, 4), per_second=2)

    assert found == [2.0]


def test_a_freed_slot_is_matched_with_the_call_that_got_it() -> None:
    one, two = calls("a", 0, 0.1, lasting=1.0)
    three, four = calls("a", 1.003, 1.105, lasting=1.0)

    found = turnovers([one, two, three, four], concurrent=2)

    assert found == pytest.approx([0.003, 0.005])


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 51), (0.99, 100), (1.0, 100)])
def test_a_percentile_is_one_of_the_values(share: float, value: float) -> None:
    assert percentile(list(range(100, 0, -1)), share) == value


def test_nothing_has_no_percentile() -> None:
    assert math.isnan(percentile([], 0.5))
