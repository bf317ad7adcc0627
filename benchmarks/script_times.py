"""How long scripts keep Redis busy, by its own histogram of EVALSHA.

Redis' clock goes on while its core is with somebody else, so a longest time alone says little. Each
thing is asked in several rounds: what it needs itself is in each of them, and so in the calmest.
Beside it, a script that only counts shows what this machine did to one that never needs longer.
"""

from __future__ import annotations

import statistics
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from redis.asyncio import Redis

COUNT = "local n = 0 for _ = 1, ARGV[1] do n = n + 1 end return n"
COUNTED_TIMES = 150
TRIED = 100_000
COUNTING_MS = 2.0


class Times(NamedTuple):
    """Of the scripts of one block, in ms; Redis rounds by at most 1 %."""

    scripts: int
    p50: float
    p99: float
    worst: float


@dataclass(slots=True)
class ScriptTimes:
    """The times of each thing that was asked, one for each round."""

    redis: Redis
    rounds: dict[str, list[Times]] = field(default_factory=dict)

    async def begin(self) -> None:
        """Have Redis keep what is read here."""
        await self.redis.config_set("latency-tracking", "yes")
        await self.redis.config_set("latency-tracking-info-percentiles", "50 99 100")

    @asynccontextmanager
    async def of(self, asked: str) -> AsyncIterator[None]:
        """Measure all scripts that run during the block."""
        await self.redis.config_resetstat()
        yield
        self.rounds.setdefault(asked, []).append(await self._read())

    async def compare(self) -> None:
        """Run the script that only counts."""
        sha = await self.redis.script_load(COUNT)
        await self.redis.config_resetstat()
        for _ in range(10):
            await self.redis.evalsha(sha, 0, TRIED)
        times = round(TRIED * COUNTING_MS / (await self._read()).p50)
        async with self.of("nothing: a script that counts"):
            for _ in range(COUNTED_TIMES):
                await self.redis.evalsha(sha, 0, times)

    async def _read(self) -> Times:
        calls = (await self.redis.info("commandstats"))["cmdstat_evalsha"]["calls"]
        told = (await self.redis.info("latencystats"))["latency_percentiles_usec_evalsha"]
        return Times(calls, *(float(told[each]) / 1000 for each in ("p50", "p99", "p100")))


def summed_up(rounds: Sequence[Times]) -> dict[str, float]:
    """`calm`: the longest script of the round in which that was the shortest."""
    return {
        "p50": statistics.median(each.p50 for each in rounds),
        "p99": statistics.median(each.p99 for each in rounds),
        "worst": max(each.worst for each in rounds),
        "calm": min(each.worst for each in rounds),
    }
