"""Cancelling what waits, for people. What runs at this moment is not cut off."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from redis.asyncio import Redis
from redis.exceptions import RedisError

from limits import keys
from limits.clock import Clock
from limits.failure import redis_down
from limits.replies import write_rules
from limits.rules import Rules
from limits.scripts import Scripts
from tracking.request import Number, Slug

NOBODY: dict[str, object] = {"epoch": "", "token": "", "deaths": 0, "max_age_ms": 0}
"""What a worker would tell of itself: cancelling neither calls nor drains."""


class Kept(StrEnum):
    """Why an operation was not cancelled.

    ========= ==================================================== =======================
    kept      the id                                               detail
    ========= ==================================================== =======================
    ELSEWHERE is that of a request for another parcel              "usps 9405…"
    RUNNING   is of a call that runs now                           ""
    ENDED     has ended before                                     SUCCESS, ERROR, CANCELLED
    UNKNOWN   waits nowhere: in a tube, mistyped, or long forgotten ""
    ========= ==================================================== =======================
    """

    ELSEWHERE = "elsewhere"
    RUNNING = "running"
    ENDED = "ended"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What came of a cancel: how many operations it ended, or why it left the named one alone."""

    operations: int = 0
    kept: Kept | None = None
    detail: str = ""


class Canceller:
    """Ends waiting operations as CANCELLED (lua/cancel.lua)."""

    def __init__(self, redis: Redis, rules_of: Callable[[Slug], Rules]) -> None:
        self._redis = redis
        self._scripts = Scripts(redis, Clock())
        self._rules_of = rules_of

    async def cancel(self, slug: Slug, number: Number, operation: str = "") -> Cancelled:
        """Cancel all that waits for `number`, or only `operation`, which must wait for it.

        Raises LimitsDown: some may be cancelled then; repeat it for the others.
        """
        rules = write_rules(self._rules_of(slug), NOBODY)
        total, more = 0, 1
        while more:
            _, word, *told = await self._scripts.run(
                "cancel", [keys.wait_list(slug)], (rules, b"[]", number, operation)
            )
            if word != "cancelled":
                return await self._kept(Kept(word), told, slug, operation)
            cancelled, more = told
            total += int(cancelled)
        return Cancelled(total)

    async def _kept(self, kept: Kept, told: list[str], slug: Slug, operation: str) -> Cancelled:
        match kept:
            case Kept.ELSEWHERE:
                return Cancelled(kept=kept, detail=f"{slug} {told[0]}")
            case Kept.ENDED:
                return Cancelled(kept=kept, detail=told[0])
            case Kept.UNKNOWN if parcel := await self._parcel_of(operation):
                return Cancelled(kept=Kept.ELSEWHERE, detail=parcel)
        return Cancelled(kept=kept)

    async def _parcel_of(self, operation: str) -> str:
        """Find the courier and number that an id waits or runs for; "" for none."""
        try:
            slugs = sorted(map(str, await self._redis.smembers(keys.SLUGS)))
            pipeline = self._redis.pipeline(transaction=False)
            for slug in slugs:
                pipeline.hget(keys.of_slug(Slug(slug)).wait_requests, f"#{operation}")
            found = zip(slugs, await pipeline.execute(), strict=True)
        except (RedisError, OSError) as error:
            raise redis_down(error) from error
        return next((f"{slug} {json.loads(text)['n']}" for slug, text in found if text), "")
