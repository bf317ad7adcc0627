"""When calls start, as each was told: with clocks of their own, and calls that take long."""

from __future__ import annotations

from typing import Any

import pytest
from life_of_a_line import Life
from simulated.clockwork import Redis

from limits.rules import Rules
from tracking.request import Origin


class SimulatedLife(Life):
    """On a Redis in this process, whose clock goes when it is told to."""

    def __init__(self, rules: Rules, took_seconds: float) -> None:
        super().__init__(took_seconds)
        self.redis, self._rules = Redis(), rules
        self.redis.space.put("tracking:workers", "somebody")

    async def step(self, name: str, *args: Any, reports: list[Any]) -> list[Any]:
        return list(self.redis.run(name, self._rules, *map(str, args), reports=reports))

    async def now(self) -> int:
        return self.redis.now_us

    async def reach(self, us: int) -> None:
        self.redis.now_us = max(self.redis.now_us, us)

    async def told(self, number: str) -> tuple[float, str]:
        """In how many seconds its call starts, and what keeps it."""
        now, *_, why, _, starts = await self.step("place", number, 0, reports=[])
        return (starts - now) / 1e6, why


@pytest.mark.parametrize(
    ("count", "took", "why"),
    [
        (200, 15.0, "concurrency"),
        *(
            pytest.param(1_000, took, why, marks=pytest.mark.prove)
            for took, why in [
                (0.3, "rate"),
                (9.0, "rate"),
                (15.0, "concurrency"),
                (60.0, "concurrency"),
            ]
        ),
    ],
)
async def test_all_start_within_a_tenth_of_what_each_was_told(
    count: int, took: float, why: str
) -> None:
    life = SimulatedLife(Rules(call_timeout_seconds=70.0, lease_seconds=140.0), took)
    for n in range(100):
        await life.put(f"BEFORE{n:03}")
    await life.live()  # so it is known how long calls take
    for n in range(count):
        origin = Origin.AUTOMATIC if n % 3 == 0 else Origin.MANUAL
        await life.put(f"N{n:04}", origin=origin)
    began = life.redis.now_us
    told = {f"N{n:04}": await life.told(f"N{n:04}") for n in range(50, count, 41)}

    await life.live()

    waited = {n: (life.starts[n] - began) / 1e6 for n in told}
    off = {n: abs(at - waited[n]) / waited[n] for n, (at, _) in told.items()}
    assert {n: part for n, part in off.items() if part > 0.1} == {}
    assert {kept for _, kept in told.values()} == {why}
