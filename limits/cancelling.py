"""Cancelling what waits, for people. What runs at this moment is not cut off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from redis.asyncio import Redis

from limits import keys
from limits.accounts import accounts_in
from limits.clock import Clock
from limits.codec import write_rules
from limits.failure import redis_asked
from limits.pipeline import Pipeline
from limits.pushed_by_hand import NOWHERE, Places, places_of
from limits.rules import NOBODY, RulesOf
from limits.view import waiting
from tracking.account import Account, own_number
from tracking.line import Line, courier_line, kind_of, slug_of
from tracking.operation import number_of
from tracking.request import Number, Origin, Slug

READ_AT_ONCE = 1_000
"""Records of one HSCAN: Redis is busy with them for about a millisecond."""

AT_ONCE = 20
"""Numbers in one script, mostly of one operation each: about a millisecond of Redis' time."""


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


@dataclass(frozen=True, slots=True)
class Which:
    """What somebody wants cancelled of all that waits: what came `age` seconds ago, or before.

    None: of any age, of either origin. A number pushed by hand has neither, so it is never meant.
    """

    age: float | None = None
    origin: Origin | None = None


class Canceller:
    """Ends waiting operations as CANCELLED (lua/cancel.lua).

    Every method raises LimitsDown. Some may be cancelled then; repeat it for the others.
    """

    def __init__(self, redis: Redis, rules_of: RulesOf) -> None:
        self._redis = redis
        self._pipeline = Pipeline(redis, Clock())
        self._rules_of = rules_of

    async def cancel(self, slug: Slug, number: Number, operation: str = "") -> Cancelled:
        """Cancel all that waits for `number`, of all accounts, or only `operation` of it."""
        ((_, came),) = [each async for each in self.cancel_many([Wanted(slug, number, operation)])]
        return came

    async def cancel_many(
        self, wanted: Sequence[Wanted]
    ) -> AsyncIterator[tuple[Wanted, Cancelled]]:
        """Cancel each, in their order, in scripts that hold nobody up."""
        numbers: dict[Slug, list[Number]] = {}
        for each in wanted:
            if not each.operation:
                numbers.setdefault(each.slug, []).append(each.number)
        places = {slug: await self._places(slug, named) for slug, named in numbers.items()}
        accounts = await accounts_in(self._redis) if numbers else ()
        for begin in range(0, len(wanted), AT_ONCE):
            batch = wanted[begin : begin + AT_ONCE]
            came = (self._cancel(each, places.get(each.slug, {}), accounts) for each in batch)
            for told in zip(batch, await asyncio.gather(*came), strict=True):
                yield told

    async def cancel_courier(self, slug: Slug) -> AsyncIterator[tuple[Wanted, Cancelled]]:
        """Cancel all that waits for a courier; of what comes meanwhile, some may stay."""
        ended: dict[str, int] = {}
        more = 1
        while more:
            _, told, more = await self._run(slug, Number(""), "", NOWHERE)
            for number, count in zip(told[::2], told[1::2], strict=True):
                ended[number] = ended.get(number, 0) + count
            # The last one may have more operations than one script ends.
            while len(ended) > more:
                first = next(iter(ended))
                yield Wanted(slug, Number(first)), Cancelled(ended.pop(first))
        async for each in self.cancel_many(await self._behind(slug)):
            yield each

    async def cancel_where(
        self, slug: Slug, which: Which
    ) -> AsyncIterator[tuple[Wanted, Cancelled]]:
        """Cancel what is meant of all that waits for a courier, and tell of each number."""
        line = courier_line(slug)
        names = keys.of_line(line)
        with redis_asked():
            seconds, micros = await self._redis.time()
        asked: dict[str, object] = {} if which.origin is None else {"origin": which.origin.value}
        if which.age is not None:
            asked["before"] = round((seconds + micros / 1e6 - which.age) * 1000)
        with redis_asked():
            found = self._redis.hscan_iter(names.wait_requests, count=READ_AT_ONCE)
            batch: list[Number] = []
            async for number, text in found:
                if _may_be_meant(number, text, asked):
                    batch.append(Number(number))
                if len(batch) == AT_ONCE:
                    for told in await self._end_where(line, batch, asked):
                        yield told
                    batch.clear()
            for told in await self._end_where(line, batch, asked):
                yield told

    async def couriers(self) -> list[Slug]:
        """List those for which something waits or runs, by name."""
        with redis_asked():
            lines = [Line(str(name)) for name in await self._redis.smembers(keys.LINES)]
        return sorted(slug_of(line) for line in lines if kind_of(line))

    async def waiting(self, slug: Slug) -> int:
        """Count the numbers that wait for a turn, or for a repetition."""
        with redis_asked():
            return sum(await waiting(self._redis, courier_line(slug)))

    async def _cancel(
        self, one: Wanted, places: Mapping[Number, Places], accounts: Sequence[Account]
    ) -> Cancelled:
        if one.operation:
            names = [Number(number_of(one.number, one.operation))]
        else:
            names = [one.number, *await self._of_others(one, accounts)]
        total = 0
        for name in names:
            more = 1
            while more:
                where = places.get(name, NOWHERE)
                word, *told = await self._run(one.slug, name, one.operation, where)
                if word != "cancelled":
                    return Cancelled(kept=Kept(word), detail="".join(told).replace(":", " ", 1))
                cancelled, more = told
                total += int(cancelled)
        return Cancelled(total)

    async def _of_others(self, one: Wanted, accounts: Sequence[Account]) -> list[Number]:
        """Find under which names other accounts than main wait for a number."""
        names = [Number(own_number(one.number, each)) for each in accounts]
        if not names:
            return []
        with redis_asked():
            records = await self._redis.hmget(
                keys.of_line(courier_line(one.slug)).wait_requests, names
            )
        return [name for name, record in zip(names, records, strict=True) if record]

    async def _run(self, slug: Slug, number: Number, operation: str, places: Places) -> list[Any]:
        line = courier_line(slug)
        args = (write_rules(self._rules_of(line), NOBODY), b"[]", number, operation)
        reply = await self._pipeline.run(
            "cancel", [keys.wait_list(line)], (*args, json.dumps(places))
        )
        return list(reply[1:])

    async def _end_where(
        self, line: Line, numbers: Sequence[Number], asked: Mapping[str, object]
    ) -> list[tuple[Wanted, Cancelled]]:
        ended = await asyncio.gather(*(self._end_some(line, number, asked) for number in numbers))
        told = zip(numbers, ended, strict=True)
        return [(Wanted(slug_of(line), number), Cancelled(n)) for number, n in told if n]

    async def _end_some(self, line: Line, number: Number, asked: Mapping[str, object]) -> int:
        rules, total, todo = write_rules(self._rules_of(line), NOBODY), 0, 0
        while True:
            which = json.dumps({**asked, "todo": todo} if todo else asked)
            _, ended, todo = await self._pipeline.run(
                "cancel_where", [keys.wait_list(line)], (rules, b"[]", number, which)
            )
            total += int(ended)
            if not todo:
                return total

    async def _places(self, slug: Slug, numbers: Sequence[Number]) -> Mapping[Number, Places]:
        with redis_asked():
            return await places_of(self._redis, courier_line(slug), numbers)

    async def _behind(self, slug: Slug) -> list[Wanted]:
        """Find the numbers that wait for the end of their own running call: no list has them."""
        names = keys.of_line(courier_line(slug))
        with redis_asked():
            calls = self._redis.hscan_iter(names.wait_inflight, match="=*")
            numbers = [Number(field.removeprefix("=")) async for field, _ in calls]
            records = await self._redis.hmget(names.wait_requests, numbers) if numbers else ()
        return [Wanted(slug, n) for n, record in zip(numbers, records, strict=True) if record]


def _may_be_meant(number: str, text: str, asked: Mapping[str, Any]) -> bool:
    """Whether any operation of a record may be meant, so that others cost no script."""
    if number == "!relist":  # lua/sweep.lua
        return False
    record = json.loads(text)
    origin = Origin.AUTOMATIC if record.get("auto") else Origin.MANUAL
    operations = len(record.get("newest", ())) + record.get("listed", 0) + ("anon" in record)
    mixed = origin == Origin.MANUAL and operations > 1  # some of them may be AUTOMATIC
    meant = mixed or asked.get("origin", origin) == origin
    since: int = record["since"]
    before: int = asked.get("before", since)
    return meant and since <= before
