"""The canceller ends waiting operations, for people; it cuts off no call that runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from redis.asyncio import Redis

from limits import keys
from limits.admin.accounts import accounts_in
from limits.admin.line_scripts import LineScripts
from limits.admin.snapshot import waiting
from limits.failure import redis_asked
from limits.rules import RulesOf
from tracking.line import Line, courier_line, is_courier, slug_of
from tracking.operation import number_of
from tracking.request import Account, Number, Origin, Slug, own_number

READ_AT_ONCE = 1_000
"""Records of one HSCAN: Redis is busy with them for about a millisecond."""

ENTRIES_AT_ONCE = 10_000
"""Entries of a page of a list: Redis is busy with them for less than a millisecond."""

AT_ONCE = 20
"""Numbers in one script, mostly of one operation each: about a millisecond of Redis' time."""

Places = tuple[Sequence[int], Sequence[int]]
"""Positions of a number in the MANUAL and in the AUTOMATIC list (lua/lib/waiting.lua)."""

NOWHERE: Final[Places] = ((), ())

_PAGE = """
return { redis.call('HGET', KEYS[2], ARGV[1]), redis.call('LLEN', KEYS[1]),
  redis.call('LRANGE', KEYS[1], ARGV[2], ARGV[3]) }
"""
"""At one instant, and not in a transaction: a full Redis may refuse all of one."""


class NotCancelled(StrEnum):
    """The reason for which an operation was not cancelled.

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
class CancelTarget:
    """A wish to cancel all that waits for a number, or one operation of it."""

    slug: Slug
    number: Number
    operation: str = ""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The result of a cancel: the count of ended operations, or why it left the named one alone."""

    operations: int = 0
    kept: NotCancelled | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CancelFilter:
    """A filter of waiting requests to cancel: those that came `age` seconds ago, or before.

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
        self._scripts = LineScripts(redis, rules_of)

    async def cancel(self, slug: Slug, number: Number, operation: str = "") -> Cancelled:
        """Cancel all that waits for `number`, of all accounts, or only `operation` of it."""
        ((_, came),) = [
            each async for each in self.cancel_many([CancelTarget(slug, number, operation)])
        ]
        return came

    async def cancel_many(
        self, wanted: Sequence[CancelTarget]
    ) -> AsyncIterator[tuple[CancelTarget, Cancelled]]:
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

    async def cancel_courier(self, slug: Slug) -> AsyncIterator[tuple[CancelTarget, Cancelled]]:
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
                yield CancelTarget(slug, Number(first)), Cancelled(ended.pop(first))
        async for each in self.cancel_many(await self._behind(slug)):
            yield each

    async def cancel_where(
        self, slug: Slug, which: CancelFilter
    ) -> AsyncIterator[tuple[CancelTarget, Cancelled]]:
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
        return sorted(slug_of(line) for line in lines if is_courier(line))

    async def waiting(self, slug: Slug) -> int:
        """Count the numbers that wait for a turn, or for a repetition."""
        with redis_asked():
            return await waiting(self._redis, courier_line(slug))

    async def _cancel(
        self, one: CancelTarget, places: Mapping[Number, Places], accounts: Sequence[Account]
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
                    return Cancelled(
                        kept=NotCancelled(word), detail="".join(told).replace(":", " ", 1)
                    )
                cancelled, more = told
                total += int(cancelled)
        return Cancelled(total)

    async def _of_others(self, one: CancelTarget, accounts: Sequence[Account]) -> list[Number]:
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
        args = (number, operation, json.dumps(places))
        return (await self._scripts.run("cancel", courier_line(slug), *args))[1:]

    async def _end_where(
        self, line: Line, numbers: Sequence[Number], asked: Mapping[str, object]
    ) -> list[tuple[CancelTarget, Cancelled]]:
        ended = await asyncio.gather(*(self._end_some(line, number, asked) for number in numbers))
        told = zip(numbers, ended, strict=True)
        return [(CancelTarget(slug_of(line), number), Cancelled(n)) for number, n in told if n]

    async def _end_some(self, line: Line, number: Number, asked: Mapping[str, object]) -> int:
        total, todo = 0, 0
        while True:
            which = json.dumps({**asked, "todo": todo} if todo else asked)
            _, ended, todo = await self._scripts.run("cancel_where", line, number, which)
            total += int(ended)
            if not todo:
                return total

    async def _places(self, slug: Slug, numbers: Sequence[Number]) -> Mapping[Number, Places]:
        with redis_asked():
            return await places_of(self._redis, courier_line(slug), numbers)

    async def _behind(self, slug: Slug) -> list[CancelTarget]:
        """Find the numbers that wait for the end of their own running call: no list has them."""
        names = keys.of_line(courier_line(slug))
        with redis_asked():
            calls = self._redis.hscan_iter(names.wait_inflight, match="=*")
            numbers = [Number(field.removeprefix("=")) async for field, _ in calls]
            records = await self._redis.hmget(names.wait_requests, numbers) if numbers else ()
        return [CancelTarget(slug, n) for n, record in zip(numbers, records, strict=True) if record]


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


async def places_of(redis: Redis, line: Line, numbers: Iterable[Number]) -> Mapping[Number, Places]:
    """Find those of `numbers` that were pushed by hand, and where they stand.

    They have no record that keeps their place. A script that looked for them would hold up Redis,
    so the lists are read here, page by page.
    """
    names = keys.of_line(line)
    wanted = await _without_record(redis, names, list(dict.fromkeys(numbers)))
    if not wanted:
        return {}
    manual = await _positions(redis, names.wait_list, "manual", wanted, names)
    automatic = await _positions(redis, names.wait_list_automatic, "automatic", wanted, names)
    found = [number for number in wanted if number in manual or number in automatic]
    return {n: (sorted(manual.get(n, ())), sorted(automatic.get(n, ()))) for n in found}


async def _without_record(
    redis: Redis, names: keys.LineKeys, numbers: Sequence[Number]
) -> set[Number]:
    without: set[Number] = set()
    for begin in range(0, len(numbers), ENTRIES_AT_ONCE):
        part = numbers[begin : begin + ENTRIES_AT_ONCE]
        records = await redis.hmget(names.wait_requests, part)
        without |= {number for number, record in zip(part, records, strict=True) if not record}
    return without


async def _positions(
    redis: Redis, key: str, field: str, wanted: set[Number], names: keys.LineKeys
) -> dict[Number, set[int]]:
    """Read from the end on: what is taken from the head meanwhile moves nothing then."""
    found: dict[Number, set[int]] = {}
    behind, entries = 0, [""]
    while entries:
        page = (field, str(-behind - ENTRIES_AT_ONCE), str(-behind - 1))
        first, length, entries = await redis.eval(_PAGE, 2, key, names.wait_order, *page)
        begin = int(first or 0) + length - behind - len(entries)
        for position, entry in enumerate(entries, begin):
            if entry in wanted:
                found.setdefault(Number(entry), set()).add(position)
        behind += ENTRIES_AT_ONCE
    return found
