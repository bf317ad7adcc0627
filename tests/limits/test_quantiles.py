"""What half, and nearly all, of the times do not exceed, out of how many fell below each bound."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracking.tally import BOUNDS_MS, MORE, Histogram

BOUNDS = [*map(str, BOUNDS_MS), MORE]


@pytest.mark.parametrize(
    ("counts", "share", "seconds"),
    [
        ({}, 0.5, None),
        ({"100": 10}, 0.5, 0.05),
        ({"250": 4}, 1.0, 0.25),
        ({"100": 50, "1000": 50}, 0.5, 0.1),
        ({"100": 90, "1000": 10}, 0.95, 0.75),
        ({"100": 98, "more": 2}, 0.99, 86_400.0),
    ],
)
def test_a_quantile_lies_within_its_bounds(
    counts: dict[str, int], share: float, seconds: float | None
) -> None:
    assert Histogram(Counter(counts)).quantile(share) == pytest.approx(seconds)


@given(st.dictionaries(st.sampled_from(BOUNDS), st.integers(1, 1_000), min_size=1))
def test_a_greater_share_takes_at_least_as_long(counts: dict[str, int]) -> None:
    histogram = Histogram(Counter(counts))

    found = [histogram.quantile(share) or 0.0 for share in (0.0, 0.5, 0.95, 0.99, 1.0)]

    assert found == sorted(found)
    assert found[-1] <= BOUNDS_MS[-1] / 1000
