"""Reading what Redis holds, for people: `info`, `show`, `put --wait`. Changes nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from limits import keys
from limits.accounts import accounts_in
from limits.clock import Clock
from limits.codec import write_rules
from limits.failure import is_broken, redis_asked
from limits.memory import Memory, memory_in
from limits.operations import Operation, operations, operations_of
from limits.pauses import stop_of
from limits.pipeline import Pipeline
from limits.rules import NOBODY, Revisions, RulesOf
from limits.soundness import BROKEN, busy_lines
from limits.workers import LiveWorker, live_workers
from tracking.account import MAIN, Account
from tracking.errors import StoreError
from tracking.line import Line
from tracking.operation import State
from tracking.request import Number, Slug


@dataclass(frozen=True, slots=True)
class LineView:
    """One line at this moment. Times in seconds; None: nobody waits, or nothing binds.

    `bound_by` is one of "", "broken" (see soundness.py; nothing else is known), "no_worker",
    "not_configured", "quiet", "paused", "probing" (after a pause one call alone tries),
    "per_hour", "per_day", "concurrency", "rate". `paused_why` is
    "by_hand" or the code of an error; `paused_note` is what the person wrote who paused it.
    `last_starts_seconds`: until the call is expected to start of the last that waits.
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
    last_starts_seconds: float | None
    paused_why: str
    paused_note: str
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Place:
    """Where one number stands, what keeps it and until when its call is expected to start.

    `ahead` numbers have their turn before; None while it runs, or is in no list. `eta_seconds` is
    None too where nobody can tell. `ahead` is exact while nobody left the number's list before its
    turn (cancelled, or now wanted by a MANUAL request). It is off by no more than those who did,
    and mostly by few: they are taken to have stood evenly spread over the list.

    `bound_by` is as in `LineView`, "retry" before that is due, or "running" behind the call of its
    own number; `until_seconds` is when that ends.

    `list` is "manual", "automatic", "later" (a retry, not due) or "behind" (its number runs).
    """

    state: State
    list: str
    ahead: int | None = None
    eta_seconds: float | None = None
    attempts: int = 0
    bound_by: str = ""
    until_seconds: float | None = None


async def waiting(redis: Redis, line: Line) -> tuple[int, int, int]:
    """Count the MANUAL numbers, the AUTOMATIC ones, and those that wait for a retry."""
    names = keys.of_line(line)
    # No transaction: a full Redis may refuse all of one.
    pipeline = redis.pipeline(transaction=False)
    pipeline.llen(names.wait_list)
    pipeline.llen(names.wait_list_automatic)
    pipeline.hmget(names.wait_order, "manual_gaps", "automatic_gaps")
    pipeline.zcard(names.wait_later)
    manual, automatic, gaps, later = await pipeline.execute()
    manual_gaps, automatic_gaps = (int(each or 0) for each in gaps)
    return numbers(manual, manual_gaps), numbers(automatic, automatic_gaps), int(later)


def numbers(entries: int, gaps: int) -> int:
    """How many numbers wait in a list, as lua/lib/lists.lua counts them."""
    return entries and max(1, entries - gaps)


async def newest_revision(redis: Redis) -> int:
    """Of the rules by which calls are granted. Raises LimitsDown."""
    with redis_asked():
        return int(await redis.get(keys.REVISION) or 0)


async def learn_newest(redis: Redis, revisions: Revisions | None) -> None:
    """Go by the rules that workers go by; by those known where nobody can tell them."""
    if revisions is None:
        return
    if await newest_revision(redis) != revisions.revision:
        with suppress(StoreError):
            await revisions.learn()


class View:
    """Reads for people. Every method raises LimitsDown when Redis is silent."""

    def __init__(self, redis: Redis, rules_of: RulesOf, revisions: Revisions | None = None) -> None:
        self._revisions = revisions
        self.redis = redis
        self._pipeline = Pipeline(redis, Clock())
        self._pipeline.confirmed = 0  # what is only read waits for no replica
        self._rules_of = rules_of

    async def lines(self, known: Iterable[Line] = ()) -> list[LineView]:
        """All lines that Redis holds something of, and all of `known`; by name."""
        with redis_asked():
            await learn_newest(self.redis, self._revisions)
            active = await busy_lines(self.redis)
            return [await self._sound(line) for line in sorted(active | set(known))]

    async def line(self, line: Line) -> LineView:
        """One line, whether Redis holds something of it or not."""
        with redis_asked():
            await learn_newest(self.redis, self._revisions)
            return await self._sound(line)

    async def workers(self) -> list[LiveWorker]:
        """All worker processes that live, by host and age."""
        with redis_asked():
            return await live_workers(self.redis, await self._now_ms())

    async def memory(self) -> Memory:
        """What Redis uses of the memory that it may use."""
        with redis_asked():
            return memory_in(await self.redis.info("memory"))

    async def operation(self, operation: str) -> Operation | None:
        """Where an operation stands, by its id; None: still in the tube, or unknown."""
        return (await self.operations([operation])).get(operation)

    async def operations(
        self, ids: Sequence[str], about: Mapping[str, str] | None = None
    ) -> dict[str, Operation]:
        """As `operation`, for many in one round trip; what is not known is left out.

        `about`: the parcel of each id, `<slug>:<number>`; what is of another one is left out too.
        """
        with redis_asked():
            return await operations(self.redis, ids, about) if ids else {}

    async def operations_of(
        self, slug: Slug, number: Number, account: Account | None = None
    ) -> list[Operation]:
        """All operations of an account's parcel, each with its `id`, the newest first.

        None: those of each account, `main`'s before all others.
        """
        with redis_asked():
            whose = [account] if account else [MAIN, *await accounts_in(self.redis)]
            asked = (operations_of(self.redis, slug, number, each) for each in whose)
            return [each for told in await asyncio.gather(*asked) for each in told]

    async def place(self, line: Line, number: Number, *, itself: bool = False) -> Place | None:
        """Where a number stands, None when nobody waits for it (lua/place.lua).

        `itself`: of an operation that waits, so a call that runs for the number is not its own.
        """
        with redis_asked():
            await learn_newest(self.redis, self._revisions)
        now_us, word, *told = await self._ask(line, number, int(itself))
        match word, told:
            case "running", [tries]:
                return Place(State.RUNNING, "", attempts=tries)
            case "waiting", [where, ahead, tries, why, ends, starts]:
                return Place(
                    State.WAITING,
                    where,
                    ahead=None if ahead == "" else ahead,
                    eta_seconds=_seconds_until(starts, now_us),
                    attempts=tries,
                    bound_by=why,
                    until_seconds=_seconds_until(ends, now_us),
                )
        return None

    async def _ask(self, line: Line, number: Number, itself: int) -> list[Any]:
        rules = write_rules(self._rules_of(line), NOBODY)
        args = (rules, b"[]", number, itself)
        return list(await self._pipeline.run("place", [keys.wait_list(line)], args))

    async def _sound(self, line: Line) -> LineView:
        """As `_line`; of one that is broken only that."""
        try:
            return await self._line(line)
        except Exception as error:
            if not is_broken(error):
                raise
        rules, nobody = self._rules_of(line), (0, 0, 0, None)
        calls = (0, rules.concurrent, 0, rules.per_second)
        return LineView(line, *calls, *nobody, BROKEN, None, None, "", "", {})

    async def _line(self, line: Line) -> LineView:
        names, rules = keys.of_line(line), self._rules_of(line)
        pipeline = self.redis.pipeline(transaction=False)
        now_ms = await self._now_ms()
        pipeline.zcount(names.calls_leases, now_ms * 1000, "+inf")
        pipeline.zcount(names.call_starts, now_ms * 1000, "+inf")
        pipeline.lindex(names.wait_list, 0)
        pipeline.lindex(names.wait_list_automatic, 0)
        pipeline.hgetall(names.counts)
        running, started, first, first_automatic, counts = await pipeline.execute()
        manual, automatic, later = await waiting(self.redis, line)
        heads = [number for number in (first, first_automatic) if number]
        oldest = await self._oldest_age(names, heads, now_ms) if heads else None
        stop = await stop_of(self.redis, names)
        now_us, _, bound_by, ends, last = await self._ask(line, Number(""), 0)
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
            until_seconds=_seconds_until(ends, now_us),
            last_starts_seconds=_seconds_until(last, now_us),
            paused_why=stop.why,
            paused_note=stop.note,
            counts={name: int(count) for name, count in counts.items()},
        )

    async def _oldest_age(self, names: keys.LineKeys, heads: list[str], now_ms: int) -> float:
        texts = await self.redis.hmget(names.wait_requests, heads)
        since = [json.loads(text)["since"] for text in texts if text]
        return max(0.0, (now_ms - min(since, default=now_ms)) / 1000)

    async def _now_ms(self) -> int:
        seconds, micros = await self.redis.time()
        return int(seconds) * 1000 + int(micros) // 1000


def _seconds_until(us: int | str, now_us: int) -> float | None:
    return None if us == "" else max(0.0, (int(us) - now_us) / 1_000_000)
