"""Thousands of parcels are followed through kills of their planner; `make follow`: 100,000."""

from __future__ import annotations

from followed import PLANNERS, Scale, followed, told

from limits.workers import LEASE_SECONDS
from service.worker.upkeep.recheck import PERIOD_SECONDS

LATE_MOST = LEASE_SECONDS + PERIOD_SECONDS * 1.2 * 2 + 5
"""Seconds: a planner dies right after it took its lease, and another one looks once that is over;
a check that was due right after a look waits for the next one."""


async def test_each_parcel_is_asked_about_when_the_policy_says_through_kills_of_the_planner(
    mongo_uri: str, measured: dict[str, list[str]]
) -> None:
    verdict = await followed(mongo_uri, Scale(parcels=2_000, days=0.25, faster=5.0))

    measured["parcels that were followed"] = told(verdict)
    assert verdict.wrong == []
    assert PLANNERS > 1
    assert verdict.counts["kills"] >= 5
    assert verdict.counts["stood still"] >= 1
    assert verdict.counts["put again under the same id"] >= 1
    assert verdict.late_seconds <= LATE_MOST
    assert verdict.full["ample"] >= 0.9


async def test_where_more_is_due_than_can_be_asked_times_stretch_evenly_and_nobody_starves(
    mongo_uri: str,
) -> None:
    verdict = await followed(mongo_uri, Scale(parcels=2_000, days=0.25, seed=2, faster=5.0))

    for slug in ("tight", "quota"):
        first, *others = verdict.stretched(slug).values()
        assert first <= 1.1
        assert min(others) >= 1.1
        assert max(others) / min(others) <= 1.15
        assert verdict.worst(slug) <= 1.5 * min(others)
