"""All that a Redis holds, compared exactly however long a test took between two looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from limits_bench import everything, redis_us
from redis.asyncio import Redis

from limits.keys import MEASURED

TIMED = ("call_starts:", "calls_leases:")
"""Sorted sets whose members end at their scores, in µs: any script may drop them then."""


@dataclass(frozen=True, slots=True)
class Held:
    """All keys with what they hold, and when those end that do: ms of Redis' clock."""

    values: dict[str, Any]
    ends_ms: dict[str, int]

    def ended(self, now_us: int) -> set[str]:
        """Which keys have ended by then."""
        return {key for key, end in self.ends_ms.items() if end * 1000 <= now_us}

    def left(self, ended: set[str], now_us: int) -> dict[str, Any]:
        """The others, without members that have ended by then."""
        return {
            key: [each for each in value if each[1] > now_us] if key.startswith(TIMED) else value
            for key, value in self.values.items()
            if key not in ended
        }


async def look(redis: Redis) -> Held:
    values = await everything(redis)
    values.pop(MEASURED, None)  # what stands there twice is left out by who judges
    ends = {key: int(await redis.pexpiretime(key)) for key in values}
    # One that ended between the two questions has.
    return Held(values, {key: max(end, 0) for key, end in ends.items() if end != -1})


async def since(redis: Redis, before: Held) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was held then and what is held now, both without what has ended by itself."""
    after = await look(redis)
    now_us = await redis_us(redis)
    ended = before.ended(now_us) | after.ended(now_us)
    return before.left(ended, now_us), after.left(ended, now_us)
