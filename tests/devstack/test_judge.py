"""The judge sees a violation wherever it lies, and none where there is none."""

from __future__ import annotations

import datetime as dt
import random

import pytest

from devstack.judge import (
    SECOND_NS,
    SLACK_NS,
    Call,
    Noted,
    calls_per_number,
    most_in_flight,
    most_starts_in_any_second,
    noted_in,
    rate_share,
    wrong_attempts,
)


def starts(*seconds: float) -> list[Call]:
    return [Call("usps", f"N{at}", round(at * SECOND_NS)) for at in seconds]


def runs(*spans: tuple[int, int | None]) -> list[Call]:
    return [Call("usps", f"N{begin}", begin, end) for begin, end in spans]


def test_no_calls_break_no_limit() -> None:
    assert (most_in_flight([]), most_starts_in_any_second([]), rate_share([], 2)) == (0, 0, 0.0)


def test_the_window_is_half_open() -> None:
    assert most_starts_in_any_second(starts(0, 0, 1, 1)) == 2


def test_the_window_is_no_calendar_second() -> None:
    assert most_starts_in_any_second(starts(0.9, 0.9, 1.1, 1.1)) == 4


def test_one_nanosecond_too_early_is_seen() -> None:
    calls = [Call("usps", "A1", 0), Call("usps", "B2", 1), Call("usps", "C3", SECOND_NS - 1)]

    assert most_starts_in_any_second(calls) == 3


def test_the_order_of_the_record_does_not_matter() -> None:
    calls = starts(0, 0.2, 0.4, 5, 5.1, 9)
    shuffled = random.Random(3).sample(calls, len(calls))

    assert most_starts_in_any_second(shuffled) == 3


def test_a_call_that_ends_as_another_arrives_is_not_beside_it() -> None:
    assert most_in_flight(runs((0, 10), (10, 20), (20, 30))) == 1


def test_overlapping_calls_are_counted_at_the_worst_instant() -> None:
    assert most_in_flight(runs((0, 10), (5, 30), (9, 12), (11, 13))) == 3


def test_a_call_that_never_ended_stays_in_flight() -> None:
    assert most_in_flight(runs((0, None), (1, None), (50, 60))) == 3


@pytest.mark.parametrize("seed", range(20))
def test_the_fast_counts_agree_with_the_definition(seed: int) -> None:
    draw = random.Random(seed)
    spans = [(at, at + draw.randrange(1, 400)) for at in draw.choices(range(3000), k=60)]
    calls = [Call("usps", "A1", begin * 10**6, end * 10**6) for begin, end in spans]

    in_flight = max(sum(b <= at < e for b, e in spans) for at, _ in spans)
    in_a_second = max(sum(at <= b < at + 1000 for b, _ in spans) for at, _ in spans)

    assert most_in_flight(calls) == in_flight
    assert most_starts_in_any_second(calls) == in_a_second


def test_the_whole_permitted_rate_is_a_share_of_one() -> None:
    assert rate_share(starts(0, 0, 1, 1, 2, 2), per_second=2) == pytest.approx(1.0)


def test_half_the_permitted_rate_is_a_share_of_a_half() -> None:
    assert rate_share(starts(0, 0, 2, 2, 4, 4), per_second=2) == pytest.approx(0.5)


def test_too_few_calls_tell_nothing_about_the_rate() -> None:
    assert rate_share(starts(0, 0.1), per_second=2) == 0.0


def test_a_number_is_counted_per_courier() -> None:
    calls = [Call("usps", "A1", 0), Call("usps", "A1", 1), Call("ups", "A1", 2)]

    assert calls_per_number(calls) == {("usps", "A1"): 2, ("ups", "A1"): 1}


DELIVERED = {"D": Noted(attempts=1, successes=1, stored_ns=20)}


@pytest.mark.parametrize(
    ("spans", "noted", "told"),
    [
        (((0, 10),), DELIVERED, []),
        (((0, 10), (15, 18)), DELIVERED, []),
        (((0, 10), (5, 12)), {}, ["D: 2 attempts at once"]),
        (((0, 10), (21, 30)), DELIVERED, ["D: sent 0.000 s after a stored success"]),
        (((0, 10),), {"D": Noted(2, 2, 20)}, ["D: 2 attempts succeeded"]),
    ],
    ids=["one", "again before it is stored", "at once", "after a stored success", "two successes"],
)
def test_attempts_of_a_delivery_are_one_after_the_other_until_a_success_is_stored(
    spans: tuple[tuple[int, int], ...], noted: dict[str, Noted], told: list[str]
) -> None:
    calls = [Call("erp", "D", begin, end) for begin, end in spans]

    assert list(wrong_attempts(calls, noted)) == told


def test_attempts_of_several_deliveries_may_run_at_once() -> None:
    assert list(wrong_attempts([Call("erp", name, 0, 10) for name in "DEF"], {})) == []


def test_what_is_stored_of_attempts_is_summed_up_by_delivery() -> None:
    at = dt.datetime.fromtimestamp(100.0, dt.UTC)
    rows = [
        {"delivery": name, "at": at, "ms": 500, "failure": failure}
        for name, failure in (("D", "timeout"), ("D", None), ("E", "refused"))
    ]

    assert noted_in(rows, 90 * SECOND_NS) == {
        "D": Noted(2, 1, round(10.5 * SECOND_NS) + SLACK_NS),
        "E": Noted(1),
    }
