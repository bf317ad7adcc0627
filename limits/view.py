"""Reading what Redis holds, for people: `info`, `show`, `put --wait`. Changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from redis.asyncio import Redis

from limits import keys
from limits.failure import redis_asked
from limits.memory import Memory, memory_in
from limits.operations import Operation, operations, operations_of
from limits.pauses import Stop, stop_of
from limits.rules import RulesOf
from limits.workers import LiveWorker, live_workers
from tracking.line import Line
from tracking.operation import State
from tracking.request import Number, Slug

HOUR_MS = 3_600_000
PLACES_READ = 100_000
"""How deep a list is searched for a number that was pushed by hand: a millisecond for Redis."""


@dataclass(frozen=True, slots=True)
class LineView:
    """One line at this moment. Times in seconds; None: nobody waits, or nothing binds.

    `bound_by` is one of "", "no_worker", "not_configured", "quiet", "paused", "probing" (after a
    pause one call alone tries), "per_hour", "per_day", "concurrency", "rate". `paused_why` is
    "by_hand" or the code of an error; `paused_note` is what the person wrote who paused it.
    """

    line: Line
    running: int
    concurrent: int
    started_last_second: int
    per_second: int
    waiting_manual: int
    waiting_automatic: int
    waiting_later: int
    oldest_age_seconds: float | None
    bound_by: str
    until_seconds: float | None
    paused_why: str
    paused_note: str
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Place:
    """Where one number stands. `ahead` and `eta_seconds` are None while it runs.

    `ahead` is exact while nobody left the number's list before its turn (cancelled, or now wanted
    by a MANUAL request). It is off by no more than those who did, and mostly by few: they are taken
    to have stood evenly spread over the list.

    `list` is "manual", "automatic", "later" (a retry, not due) or "behind" (its number runs).
    """

    state: State
    list: str
    ahead: int | None = None
    eta_seconds: float | None = None
    attempts: int = 0


class _List(NamedTuple):
    """One of the two lists: its entries, the position of the first, how many are gaps."""

    entries: int
    first: int
    gaps: int

    @property
    def numbers(self) -> int:
        return self.entries and max(1, self.entries - self.gaps)

    def ahead(self, index: int) -> int:
        """How many numbers stand before this entry, where the gaps are spread evenly."""
        index = min(max(0, index), self.entries)
        return max(index - self.gaps, round(index * self.numbers / self.entries)) if index else 0


async def _lists(redis: Redis, names: keys.LineKeys) -> tuple[_List, _List]:
    """Read what Redis knows of the MANUAL list, and of the AUTOMATIC one."""
    pipeline = redis.pipeline(transaction=True)
    pipeline.llen(names.wait_list)
    pipeline.llen(names.wait_list_automatic)
    pipeline.hmget(names.wait_order, "manual", "manual_gaps", "automatic", "automatic_gaps")
    manual, automatic, order = await pipeline.execute()
    first, gaps, first_automatic, gaps_automatic = (int(each or 0) for each in order)
    return _List(manual, first, gaps), _List(automatic, first_automatic, gaps_automatic)


async def waiting(redis: Redis, line: Line) -> tuple[int, int, int]:
    """Count the MANUAL numbers, the AUTOMATIC ones, and those that wait for a retry."""
    names = keys.of_line(line)
    manual, automatic = await _lists(redis, names)
    return manual.numbers, automatic.numbers, int(await redis.zcard(names.wait_later))


class View:
    """Reads for people. Every method raises LimitsDown when Redis is silent."""

    def __init__(self, redis: Redis, rules_of: RulesOf) -> None:
        self._redis = redis
        self._rules_of = rules_of

    async def lines(self, known: Iterable[Line] = ()) -> list[LineView]:
        """All lines that Redis holds something of, and all of `known`; by name."""
        with redis_asked():
            active = {Line(str(name)) for name in await self._redis.smembers(keys.LINES)}
            return [await self._line(line) for line in sorted(active | set(known))]

    async def line(self, line: Line) -> LineView:
        """One line, whether Redis holds something of it or not."""
        with redis_asked():
            return await self._line(line)

    async def workers(self) -> list[LiveWorker]:
        """All worker processes that live, by host and age."""
        with redis_asked():
            return await live_workers(self._redis, await self._now_ms())

    async def memory(self) -> Memory:
        """What Redis uses of the memory that it may use."""
        with redis_asked():
            return memory_in(await self._redis.info("memory"))

    async def operation(self, operation: str) -> Operation | None:
        """Where an operation stands, by its id; None: still in the tube, or unknown."""
        return (await self.operations([operation])).get(operation)

    async def operations(self, ids: Sequence[str]) -> dict[str, Operation]:
        """As `operation`, for many in one round trip; what is not known is left out."""
        with redis_asked():
            return await operations(self._redis, ids) if ids else {}

    async def operations_of(self, slug: Slug, number: Number) -> list[Operation]:
        """All operations of a parcel, each with its `id`, the newest first."""
        with redis_asked():
            return await operations_of(self._redis, slug, number)

    async def place(self, line: Line, number: Number) -> Place | None:
        """Where a number stands, None when nobody waits for it."""
        with redis_asked():
            return await self._place(line, number)

    async def _place(self, line: Line, number: Number) -> Place | None:
        names = keys.of_line(line)
        if call := await self._redis.hget(names.wait_inflight, f"={number}"):
            record = json.loads(await self._redis.hget(names.wait_inflight, call) or "{}")
            return Place(State.RUNNING, "", attempts=_tries(record))
        text = await self._redis.hget(names.wait_requests, number)
        record = json.loads(text or "{}")  # none: it may have been pushed by hand
        attempts = _tries(record)
        if record.get("state") == "behind":
            return Place(State.WAITING, "behind", attempts=attempts)
        now_ms = await self._now_ms()
        if record.get("state") == "later":
            due_ms = await self._redis.zscore(names.wait_later, number) or now_ms
            eta = max(0.0, (due_ms - now_ms) / 1000)
            return Place(State.WAITING, "later", eta_seconds=eta, attempts=attempts)
        automatic = bool(record.get("auto"))
        waiting = names.wait_list_automatic if automatic else names.wait_list
        lists = await _lists(self._redis, names)
        mine, others = lists[automatic], lists[not automatic].numbers
        index = record["position"] - mine.first if "position" in record else None
        if index is None:
            index = await self._redis.lpos(waiting, number, maxlen=PLACES_READ)
        if not isinstance(index, int):
            if not text:
                return None
            return Place(State.WAITING, "automatic" if automatic else "manual", attempts=attempts)
        ahead = mine.ahead(index)
        pause = (await stop_of(self._redis, names)).seconds or 0.0
        turns = ahead + 1 + (min(others, 3 * (ahead + 1)) if automatic else min(others, ahead // 3))
        each = await self._seconds_each(line)
        return Place(
            State.WAITING,
            "automatic" if automatic else "manual",
            ahead=turns - 1,
            eta_seconds=pause + turns * each,
            attempts=attempts,
        )

    async def _line(self, line: Line) -> LineView:
        names, rules = keys.of_line(line), self._rules_of(line)
        pipeline = self._redis.pipeline(transaction=False)
        now_ms = await self._now_ms()
        pipeline.zcount(names.calls_leases, now_ms * 1000, "+inf")
        pipeline.zcount(names.call_starts, now_ms * 1000, "+inf")
        pipeline.zcard(names.wait_later)
        pipeline.lindex(names.wait_list, 0)
        pipeline.lindex(names.wait_list_automatic, 0)
        pipeline.hgetall(names.counts)
        running, started, later, *rest = await pipeline.execute()
        manual, automatic = (each.numbers for each in await _lists(self._redis, names))
        first, first_automatic, counts = rest
        heads = [number for number in (first, first_automatic) if number]
        oldest = await self._oldest_age(names, heads, now_ms) if heads else None
        stop = await stop_of(self._redis, names)
        bound_by, until = await self._binds(line, running, manual + automatic, later, stop)
        return LineView(
            line=line,
            running=running,
            concurrent=rules.concurrent,
            started_last_second=min(started, rules.per_second),
            per_second=rules.per_second,
            waiting_manual=manual,
            waiting_automatic=automatic,
            waiting_later=later,
            oldest_age_seconds=oldest,
            bound_by=bound_by,
            until_seconds=until,
            paused_why=stop.why,
            paused_note=stop.note,
            counts={name: int(count) for name, count in counts.items()},
        )

    async def _oldest_age(self, names: keys.LineKeys, heads: list[str], now_ms: int) -> float:
        texts = await self._redis.hmget(names.wait_requests, heads)
        since = [json.loads(text)["since"] for text in texts if text]
        return max(0.0, (now_ms - min(since, default=now_ms)) / 1000)

    async def _binds(
        self, line: Line, running: int, waiting: int, later: int, stop: Stop
    ) -> tuple[str, float | None]:
        """What those who wait are waiting for, and for how many seconds."""
        names, rules = keys.of_line(line), self._rules_of(line)
        if waiting + later and not await self._redis.exists(keys.WORKERS):
            return "no_worker", None
        now_ms = await self._now_ms()
        quiet_ms = _quiet_until_ms(await self._redis.get(keys.EPOCH)) - now_ms
        if quiet_ms > 0:
            return "quiet", quiet_ms / 1000
        if stop.why or not waiting:
            bound_by = "probing" if stop.probes else "paused"
            return bound_by if stop.why else "", stop.seconds
        if rules.per_day and int(await self._redis.get(names.calls_day) or 0) >= rules.per_day:
            return "per_day", max(0, await self._redis.pttl(names.calls_day)) / 1000
        if rules.per_hour:
            place = -rules.per_hour  # the start that must be an hour old before the next one
            first = await self._redis.zrange(names.calls_hour, place, place, withscores=True)
            hour_ends_ms = float(first[0][1]) / 1000 + HOUR_MS if first else 0.0
            if hour_ends_ms > now_ms:
                return "per_hour", (hour_ends_ms - now_ms) / 1000
        bound_by = "concurrency" if running >= rules.concurrent else "rate"
        return bound_by, waiting * await self._seconds_each(line)

    async def _seconds_each(self, line: Line) -> float:
        rules = self._rules_of(line)
        average_us = float(await self._redis.hget(keys.of_line(line).counts, "call_us") or 0)
        rate = rules.window_us / 1_000_000 / rules.per_second
        return max(rate, average_us / 1_000_000 / rules.concurrent)

    async def _now_ms(self) -> int:
        seconds, micros = await self._redis.time()
        return int(seconds) * 1000 + int(micros) // 1000


def _quiet_until_ms(epoch: object) -> float:
    """When the quiet time ends that the key tracking:epoch tells of."""
    return float(str(epoch).partition(" ")[2]) / 1000 if epoch else 0.0


def _tries(record: dict[str, int]) -> int:
    """Failed calls, also of a record of the version before, which knows attempts only."""
    return record.get("tries", record.get("attempts", 0))
