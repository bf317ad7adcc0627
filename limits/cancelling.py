"""Cancelling what waits, for people. What runs at this moment is not cut off."""

from __future__ import annotations

from collections.abc import Callable

from redis.asyncio import Redis

from limits import keys
from limits.clock import Clock
from limits.replies import write_rules
from limits.rules import Rules
from limits.scripts import Scripts
from tracking.request import Number, Slug

NOBODY: dict[str, object] = {"epoch": "", "token": "", "deaths": 0, "max_age_ms": 0}
"""What a worker would tell of itself: cancelling neither calls nor drains."""


class Canceller:
    """Ends waiting operations as CANCELLED (lua/cancel.lua)."""

    def __init__(self, redis: Redis, rules_of: Callable[[Slug], Rules]) -> None:
        self._scripts = Scripts(redis, Clock())
        self._rules_of = rules_of

    async def cancel(self, slug: Slug, number: Number, operation: str | None = None) -> int:
        """Cancel all that waits for `number`, or only `operation`; returns how many that were.

        Raises LimitsDown: some may be cancelled then; repeat it for the others.
        """
        rules = write_rules(self._rules_of(slug), NOBODY)
        meant = ("", operation) if operation else (number, "")
        total, more = 0, True
        while more:
            _, cancelled, more = await self._scripts.run(
                "cancel", [keys.wait_list(slug)], (rules, b"[]", *meant)
            )
            total += int(cancelled)
        return total
