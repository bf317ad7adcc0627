"""Statistics that scripts count: read, and their spans added up to longer ones.

======================= ======== ==================================== =========
key                     span     made of                              kept for
======================= ======== ==================================== =========
stats1:<t>              10 s     (scripts, lua/lib/state.lua)         1 h
stats2:<slug>:<t>       10 min   (the same)                           1 week
stats2:<t>              10 min   that of each slug                    1 week
stats3:<slug>:<t>, :<t> a day    the 10 minutes of the slug, of all   8 days
======================= ======== ==================================== =========

A longer span is made again until it is over. Sums only grow (lua/add_up.lua), so it is right in the
end, however many processes make it, and however often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from limits import keys
from limits.clock import Clock
from limits.failure import redis_asked
from limits.pipeline import Pipeline
from tracking.tally import Day, Tally, tally_of

TEN_SECONDS, TEN_MINUTES, DAY = 10, 600, 86_400
KEPT = {TEN_SECONDS: 3_600, TEN_MINUTES: 7 * DAY, DAY: 8 * DAY}
"""Seconds for which the hashes of each span are kept."""

READ_AT_ONCE = 500
"""Hashes of one round trip: about a millisecond of Redis' time."""

ADDED_AT_ONCE = 100
"""Hashes that one script adds up, of fifty fields each in two milliseconds."""


@dataclass(frozen=True, slots=True)
class MadeSpans:
    """Spans that were made until `until`, and their days, which are to be kept elsewhere."""

    until: int
    days: Sequence[Day]


class Tallies:
    """Reads and adds up tallies. Every method raises LimitsDown, and may be repeated."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._pipeline = Pipeline(redis, Clock())
        # What a failover takes away of a sum is there again when the span is made the next time.
        self._pipeline.confirmed = 0

    async def count_malformed(self, times: int) -> None:
        """Count jobs that were no requests."""
        await self._pipeline.run("malformed", [], [times])

    async def now(self) -> int:
        """Tell Redis' clock, by which all is counted: Unix seconds."""
        with redis_asked():
            seconds, _ = await self._redis.time()
        return int(seconds)

    async def make_spans(self) -> MadeSpans:
        """Make all spans since the last ones that were `kept`, and those of now as far as they are.

        Where none was kept, those since something was counted first (lua/lib/state.lua). Days are
        made once in ten minutes; there are none in between.
        """
        now = await self.now()
        current, oldest = _from(now, TEN_MINUTES), _from(now - KEPT[TEN_MINUTES], DAY) + DAY
        with redis_asked():
            slugs = sorted(map(str, await self._redis.smembers(keys.TALLIED_SLUGS)))
            before = int(await self._redis.get(keys.SPANS_MADE) or oldest)
        first = max(min(before, current), oldest)
        if not slugs:
            return MadeSpans(current, ())
        # One after the other: a pipeline of a week's scripts would hold up what else asks Redis.
        for at in range(first, current + 1, TEN_MINUTES):
            await self._add_up(keys.ten_minutes(at), [keys.ten_minutes(at, s) for s in slugs])
        if before == current:
            return MadeSpans(current, ())
        days = range(_from(first, DAY), current + 1, DAY)
        # Those of all slugs are made of what was made just now.
        made = [await self._day(at, slug, current) for at in days for slug in ("", *slugs)]
        return MadeSpans(current, made)

    async def kept(self, made: MadeSpans) -> None:
        """The days that were made are safe: only later ones are to be made from now on."""
        with redis_asked():
            await self._redis.set(keys.SPANS_MADE, made.until)

    async def read(self, names: Sequence[str]) -> list[Tally]:
        """What these hashes hold."""
        found: list[Tally] = []
        with redis_asked():
            for begin in range(0, len(names), READ_AT_ONCE):
                pipeline = self._redis.pipeline(transaction=False)
                for name in names[begin : begin + READ_AT_ONCE]:
                    pipeline.hgetall(name)
                found += [tally_of([each]) for each in await pipeline.execute()]
        return found

    async def _day(self, at: int, slug: str, current: int) -> Day:
        ends = min(at + DAY, current + TEN_MINUTES)
        parts = [keys.ten_minutes(each, slug) for each in range(at, ends, TEN_MINUTES)]
        return Day(at, slug, await self._add_up(keys.day(at, slug), parts, KEPT[DAY]))

    async def _add_up(
        self, name: str, parts: Sequence[str], kept_seconds: int = KEPT[TEN_MINUTES]
    ) -> Tally:
        told: list[Any] = []
        for begin in range(0, len(parts), ADDED_AT_ONCE):
            some = parts[begin : begin + ADDED_AT_ONCE]
            kept_ms = kept_seconds * 1000 if begin + ADDED_AT_ONCE >= len(parts) else 0
            _, *told = await self._pipeline.run("add_up", [name, *some], [kept_ms, *told])
        return tally_of([dict(zip(told[::2], told[1::2], strict=True))])


def _from(at: int, span: int) -> int:
    return int(at) - int(at) % span
