"""Thousands of parcels are followed through kills of their planner; `make follow`: 100,000."""

from __future__ import annotations

import asyncio

import pytest
from followed import LATE_MOST, PLANNERS, STARVED, UNEVEN, Scale, Verdict, followed, told

from devstack.stack import Stack

pytestmark = pytest.mark.prove


@pytest.fixture(scope="module")
def verdict(stack: Stack, measured: dict[str, list[str]]) -> Verdict:
    found = asyncio.run(followed(stack.mongodb.url, Scale(parcels=2_000, days=0.25, faster=5.0)))
    measured["parcels that were followed"] = told(found)[:1]
    return found


def test_each_parcel_is_asked_about_when_the_policy_says_through_kills_of_the_planner(
    verdict: Verdict,
) -> None:
    assert verdict.wrong == []
    assert PLANNERS > 1
    assert verdict.counts["kills"] >= 5
    assert verdict.counts["stood still"] >= 1
    assert verdict.counts["put again under the same id"] >= 1
    assert verdict.late_seconds <= LATE_MOST
    assert verdict.full["ample"] >= 0.9


def test_where_more_is_due_than_can_be_asked_times_stretch_evenly_and_nobody_starves(
    verdict: Verdict,
) -> None:
    for slug in ("tight", "quota"):
        first, *others = verdict.stretched(slug).values()
        assert first <= 1.1
        assert min(others) >= 1.1
        assert max(others) / min(others) <= UNEVEN
        assert verdict.worst(slug) <= STARVED * min(others)
