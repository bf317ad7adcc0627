"""Lets one process at a time plan the re-checks of each courier (lua/plan.lua).

A process that vanishes leaves its couriers to others once LEASE_SECONDS are over. Two that plan at
the same time, because one of them stood still or a failover lost who planned, do no harm: the id of
a check is made of its parcel and date, so what both put is one operation.
"""

from __future__ import annotations

from collections.abc import Sequence

from redis.asyncio import Redis

from limits import keys
from limits.clock import Clock
from limits.pipeline import Pipeline
from tracking.request import Slug

LEASE_SECONDS = 45.0
"""Longer than a planner rests between two looks."""


class Planners:
    """Who plans. `who` asks: each process under a name of its own."""

    def __init__(self, redis: Redis, who: str) -> None:
        self._pipeline = Pipeline(redis, Clock())
        # What a failover loses is taken once more.
        self._pipeline.confirmed = 0
        self._who = who

    async def hold(self, slugs: Sequence[Slug]) -> list[Slug]:
        """Take those of these couriers that nobody else plans, for LEASE_SECONDS from now on.

        Raises LimitsDown: repeat it, then.
        """
        if not slugs:
            return []
        names = [keys.planner(slug) for slug in slugs]
        args = (self._who, round(LEASE_SECONDS * 1000))
        plans = await self._pipeline.run("plan", names, args)
        return [slug for slug, its_own in zip(slugs, plans, strict=True) if int(its_own)]
