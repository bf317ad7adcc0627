"""Cancelling what waits, for people. What runs at this moment is not cut off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby, islice
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from limits import keys
from limits.clock import Clock
from limits.codec import write_rules
from limits.failure import redis_down
from limits.pipeline import Pipeline
from limits.rules import RulesOf
from tracking.line import courier_line
from tracking.request import Number, Slug

NOBODY: dict[str, object] = {"epoch": "", "token": "", "deaths": 0, "max_age_ms": 0}
"""What a worker would tell of itself: cancelling neither calls nor drains."""

AT_ONCE = 20
"""Numbers in one script, mostly of one operation each: about a millisecond of Redis' time."""

WALKED_MOST = 100_000
"""Entries of lists that one script walks along in search of its numbers: about 2 ms."""


_List = tuple[Callable[[str], Any], Callable[[str, int, int], Any], str]
"""How a key's numbers are counted and read from the first one on; and the key."""


class Kept(StrEnum):
    """Why an operation was not cancelled.

    ========= ======================================================= =========================
    kept      the id                                                  detail
    ========= ======================================================= =========================
    ELSEWHERE is that of a request for another parcel                 "usps 9405…"
    RUNNING   is of a call that runs now                              ""
    ENDED     has ended before                                        SUCCESS, ERROR, CANCELLED
    UNKNOWN   waits nowhere: in a tube, mistyped, or long forgotten   ""
    ========= ======================================================= =========================
    """

    ELSEWHERE = "elsewhere"
    RUNNING = "running"
    ENDED = "ended"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody wants cancelled: all that waits for a number, or one operation of it."""

    slug: Slug
    number: Number
    operation: str = ""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What came of a cancel: how many operations it ended, or why it left the named one alone."""

    operations: int = 0
    kept: Kept | None = None
    detail: str = ""


class Canceller:
    """Ends waiting operations as CANCELLED (lua/cancel.lua).

    Every method raises LimitsDown. Some may be cancelled then; repeat it for the others.
    """

    def __init__(self, redis: Redis, rules_of: RulesOf) -> None:
        self._redis = redis
        self._pipeline = Pipeline(redis, Clock())
        self._rules_of = rules_of

    async def cancel(self, slug: Slug, number: Number, operation: str = "") -> Cancelled:
        """Cancel all that waits for `number`, or only `operation`, which must wait for it."""
        line = courier_line(slug)
        rules = write_rules(self._rules_of(line), NOBODY)
        total, more = 0, 1
        while more:
            _, word, *told = await self._pipeline.run(
                "cancel", [keys.wait_list(line)], (rules, b"[]", number, operation)
            )
            if word != "cancelled":
                return Cancelled(kept=Kept(word), detail="".join(told).replace(":", " ", 1))
            cancelled, more = told
            total += int(cancelled)
        return Cancelled(total)

    async def cancel_many(
        self, wanted: Sequence[Wanted]
    ) -> AsyncIterator[tuple[Wanted, Cancelled]]:
        """Cancel each, in their order, in scripts that hold nobody up."""
        for slug, group in groupby(wanted, lambda each: each.slug):
            while batch := list(islice(group, await self._room(slug))):
                for each in await self._cancel_together(batch):
                    yield each

    async def cancel_courier(self, slug: Slug) -> AsyncIterator[tuple[Wanted, Cancelled]]:
        """Cancel all that waits for a courier; of what comes meanwhile, some may stay."""
        with _redis_asked():
            for count, read, key in _lists(self._redis, slug):
                left = await count(key)
                while left > 0 and (numbers := await read(key, 0, AT_ONCE - 1)):
                    left -= len(numbers)
                    # These stand first, where they are found at once.
                    recorded = await self._recorded(slug, numbers)
                    for each in await self._cancel_together([Wanted(slug, n) for n in recorded]):
                        yield each
                    # Pushed by hand, it may stand anywhere else once more.
                    pushed = [n for n in dict.fromkeys(numbers) if n not in recorded]
                    async for each in self.cancel_many([Wanted(slug, n) for n in pushed]):
                        yield each
            async for each in self.cancel_many(await self._behind(slug)):
                yield each

    async def waiting(self, slug: Slug) -> int:
        """Count the numbers that wait for a turn, or for a repetition."""
        with _redis_asked():
            pipeline = self._redis.pipeline(transaction=False)
            for count, _, key in _lists(pipeline, slug):
                count(key)
            return sum(await pipeline.execute())

    async def _room(self, slug: Slug) -> int:
        """How many numbers, standing anywhere in the courier's lists, go into one script."""
        return max(1, min(AT_ONCE, WALKED_MOST // (1 + await self.waiting(slug))))

    async def _cancel_together(self, batch: Sequence[Wanted]) -> list[tuple[Wanted, Cancelled]]:
        """Cancel each; all of them in one script."""
        each = (self.cancel(one.slug, one.number, one.operation) for one in batch)
        return list(zip(batch, await asyncio.gather(*each), strict=True))

    async def _behind(self, slug: Slug) -> list[Wanted]:
        """Find the numbers that wait for the end of their own running call: no list has them."""
        names = keys.of_line(courier_line(slug))
        calls = self._redis.hscan_iter(names.wait_inflight, match="=*")
        numbers = [Number(field.removeprefix("=")) async for field, _ in calls]
        return [Wanted(slug, number) for number in await self._recorded(slug, numbers)]

    async def _recorded(self, slug: Slug, numbers: Sequence[Number]) -> list[Number]:
        """Tell the numbers apart that were requested; the others were pushed by hand."""
        if not numbers:
            return []
        records = await self._redis.hmget(keys.of_line(courier_line(slug)).wait_requests, numbers)
        return [number for number, record in zip(numbers, records, strict=True) if record]


def _lists(redis: Redis, slug: Slug) -> Sequence[_List]:
    names = keys.of_line(courier_line(slug))
    return (
        (redis.llen, redis.lrange, names.wait_list),
        (redis.llen, redis.lrange, names.wait_list_automatic),
        (redis.zcard, redis.zrange, names.wait_later),
    )


@contextmanager
def _redis_asked() -> Iterator[None]:
    try:
        yield
    except (RedisError, OSError) as error:
        raise redis_down(error) from error
