"""The proof of limits and operations: what was measured of calls, and whether operations add up.

==================== ============================================================================
tracking:worst:<t>   of the hour from `t` (Unix seconds): a field for each line, the numbers of
                     `Worst`; `#`: the judge's, as JSON [seconds that were measured, those in which
                     violations count, epoch, exempt until, looked last (both µs)]
stats:operations     what lua/lib/state.lua adds up; `since`: when this began, in ms, and how many
                     operations were open then, with a blank
==================== ============================================================================

One process judges at a time (lua/judge.lua); it alone writes, whole values, every 10 s.
Nothing here is asked by what decides: the judge reads the stream of measured calls, and `open` is
what each line counts for its own decisions.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any

from redis.asyncio import Redis

from limits import keys
from limits.admin.soundness import busy_lines
from limits.admin.violations import ANY, GAP_US, Violations, Worst
from limits.clock import MICRO
from limits.failure import redis_asked
from limits.pipeline import Pipeline
from limits.rules import RuleBook
from tracking.errors import LimitsBroken, LimitsDown, ResultsDown
from tracking.line import Line
from tracking.operation import ENDS

Rest = Callable[[float], Awaitable[None]]
Told = tuple[int, str, str, list[tuple[str, str]]]
"""What `Violations.hear` hears."""

PERIOD_SECONDS, IDLE_SECONDS = 1.0, 5.0
"""How long after calls were measured, and after none was, the judge looks again."""

WRITE_SECONDS = 10.0
"""What was measured since is lost with a judge that is killed."""

LEASE_MS = 9_000
"""So soon another process judges where a judge is gone, or IDLE_SECONDS later: what the stream
still holds of 15 s it judges too."""

LAST_WRITE_SECONDS = 1.0
HOUR, HOURS = 3_600, 24
KEPT_SECONDS = 26 * HOUR
JUDGE = "#judge"
"""What the judge holds a lease of, among the lines of planners."""

NOTHING = "+"
"""Stands behind the last entry: who does not judge yet asks for none."""

OWN = "#"
"""The judge's field; no line is called so."""

ADMITTED, SINCE = "admitted", "since"
REFUSALS = ("full", "too_late", "id_reused")


@dataclass(slots=True)
class Hour:
    """What was measured in an hour, and how much of it a judge saw."""

    at: int
    lines: dict[Line, Worst]
    seconds: float = 0.0
    judged_seconds: float = 0.0
    epoch: str = ""
    exempt_until: int = 0
    looked: int = 0

    @classmethod
    def of(cls, at: int, fields: Mapping[Any, Any]) -> Hour:
        """Read a hash."""
        own = json.loads(fields.get(OWN, "[]"))
        lines = {Line(name): fields[name] for name in fields if name != OWN}
        worst = {name: Worst(*map(int, text.split(" "))) for name, text in lines.items()}
        return cls(at, worst, *own)

    def fields(self, changed: Iterable[Line]) -> dict[Any, Any]:
        """Write what has changed."""
        own = [round(self.seconds, 3), round(self.judged_seconds, 3)]
        written = {str(line): " ".join(map(str, astuple(self.lines[line]))) for line in changed}
        return {OWN: json.dumps([*own, self.epoch, self.exempt_until, self.looked]), **written}


class Judge:
    """Judges calls by what was measured of them, while it holds the lease. Once per process."""

    def __init__(
        self, pipeline: Pipeline, book: RuleBook, who: str, rest: Rest = asyncio.sleep
    ) -> None:
        """`pipeline` is unconfirmed: a lease that is lost with a failover is taken once more."""
        self._redis = pipeline.redis
        self._pipeline = pipeline
        self._book = book
        self._who = who
        self._rest = rest
        self._violations: Violations | None = None
        self._after = ANY
        self._hour = Hour(0, {})
        self._changed: set[Line] = set()
        self._written = 0

    async def run(self) -> None:
        """Judge until cancelled, and write then what is not written yet."""
        away = (LimitsBroken, LimitsDown, ResultsDown)  # said elsewhere
        try:
            while True:
                after = self._after
                with contextlib.suppress(*away):
                    await self.judge()
                await self._rest(IDLE_SECONDS if after == self._after else PERIOD_SECONDS)
        finally:
            with contextlib.suppress(*away, TimeoutError):
                async with asyncio.timeout(LAST_WRITE_SECONDS):
                    await self.write()

    async def judge(self) -> None:
        """Judge what was measured since the last time. Raises StoreError: repeat it."""
        told = await self._asked(NOTHING if self._violations is None else self._after)
        if told and self._violations is None:
            self._violations = await self._begin()
            told = await self._asked(self._after)
        violations = self._violations = self._violations if told else None
        if violations is None or told is None:
            return
        before = violations.looked
        self._after = await violations.hear(*told) or self._after
        self._note(violations, violations.looked - before)
        if violations.looked - self._written >= WRITE_SECONDS * MICRO:
            await self.write()

    async def _asked(self, after: str) -> Told | None:
        """Ask for what was measured behind an entry; None: another process judges."""
        names = keys.planner(JUDGE), keys.EPOCH, keys.REVISION, keys.MEASURED
        match await self._pipeline.run("judge", names, (self._who, LEASE_MS, after)):
            case [now_us, "judge", epoch, revision, found]:
                return now_us, epoch, revision, [(at, fields[1]) for at, fields in found]
        return None

    async def write(self) -> None:
        """Write what was measured. Raises LimitsDown: repeat it."""
        if self._violations is None:
            return
        name = keys.worst(self._hour.at)
        with redis_asked():
            pipeline = self._redis.pipeline(transaction=False)
            pipeline.hset(name, mapping=self._hour.fields(self._changed))
            pipeline.expire(name, KEPT_SECONDS)
            await pipeline.execute()
        self._changed = set()
        self._written = self._violations.looked

    async def _begin(self) -> Violations:
        """Go on where another process left off."""
        await begin_balance(self._redis)
        with redis_asked():
            seconds, _ = await self._redis.time()
            at = int(seconds) // HOUR * HOUR
            self._hour = Hour.of(at, await self._redis.hgetall(keys.worst(at)))
            before = Hour.of(at - HOUR, await self._redis.hgetall(keys.worst(at - HOUR)))
        last = self._hour if self._hour.looked else before
        self._changed, self._written = set(), 0
        self._violations = violations = Violations(self._book.rules_of, revisions=self._book)
        self._after = violations.go_on(last.looked, last.epoch, last.exempt_until)
        return violations

    def _note(self, violations: Violations, took_us: int) -> None:
        at = violations.looked // MICRO // HOUR * HOUR
        if at != self._hour.at:
            # What was not written of the old hour, of 10 s at most, counts in the new one.
            left = {line: self._hour.lines[line] for line in self._changed}
            self._hour = Hour(at, {})
            violations.worst = left | violations.worst
        hour = self._hour
        for line, worst in violations.worst.items():
            hour.lines.setdefault(line, Worst()).join(worst)
            self._changed.add(line)
        violations.worst = {}
        if 0 < took_us <= GAP_US:
            hour.seconds += took_us / MICRO
            hour.judged_seconds += (violations.looked > violations.exempt_until) * took_us / MICRO
        hour.epoch, hour.exempt_until = violations.epoch, violations.exempt_until
        hour.looked = violations.looked


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured from `since` until `until` (Unix seconds), by line.

    `seconds` of it somebody measured, and in `judged_seconds` of these violations counted: not in
    the minute behind a change of limits.
    """

    since: int
    until: int
    seconds: float
    judged_seconds: float
    lines: Mapping[Line, Worst]


async def measured(redis: Redis) -> Measured:
    """Read what was measured in this hour and the 24 before it. Raises LimitsDown."""
    with redis_asked():
        until, _ = await redis.time()
        last = int(until) // HOUR * HOUR
        names = range(last - HOURS * HOUR, last + 1, HOUR)
        pipeline = redis.pipeline(transaction=False)
        for at in names:
            pipeline.hgetall(keys.worst(at))
        found = [Hour.of(*each) for each in zip(names, await pipeline.execute(), strict=True)]
    seen = [hour for hour in found if hour.seconds]
    lines: dict[Line, Worst] = {}
    for hour in found:
        for line, worst in hour.lines.items():
            lines.setdefault(line, Worst()).join(worst)
    return Measured(
        since=seen[0].at if seen else int(until),
        until=int(until),
        seconds=sum(hour.seconds for hour in seen),
        judged_seconds=sum(hour.judged_seconds for hour in seen),
        lines=lines,
    )


@dataclass(frozen=True, slots=True)
class Balance:
    """Operations with an id at one instant: each that was admitted has ended or is open.

    `since`: when counting began, in ms, None: not yet; `before` were open then.
    """

    since: int | None
    before: int
    admitted: int
    ended: Mapping[str, int]
    refused: Mapping[str, int]
    open: int

    @property
    def missing(self) -> int:
        """How many are neither open nor ended; less than 0: nobody admitted them."""
        return self.before + self.admitted - sum(self.ended.values()) - self.open


async def balance(redis: Redis, known: Iterable[Line] = ()) -> Balance:
    """Read what there is at one instant, in one transaction. Raises LimitsDown."""
    with redis_asked():
        asked, busy = set[Line](), {*known, *await busy_lines(redis)}
        told: list[str | None] = []
        fields: dict[str, str] = {}
        while True:
            asked |= busy
            pipeline = redis.pipeline(transaction=True)
            pipeline.hgetall(keys.OPERATIONS)
            pipeline.smembers(keys.LINES)
            for line in asked:
                pipeline.hget(keys.of_line(line).counts, "open")
            fields, names, *told = await pipeline.execute()
            busy = set(map(Line, names))
            # A line that got busy meanwhile may have what was admitted meanwhile.
            if busy <= asked:
                break
    since, _, before = fields.get(SINCE, "").partition(" ")
    return Balance(
        since=int(since) if since else None,
        before=int(before or 0),
        admitted=int(fields.get(ADMITTED, 0)),
        ended={str(end): int(fields.get(end, 0)) for end in sorted(ENDS)},
        refused={why: int(fields.get(why, 0)) for why in REFUSALS},
        open=sum(int(each or 0) for each in told),
    )


async def begin_balance(redis: Redis, known: Iterable[Line] = ()) -> None:
    """Note what is open when counting begins, unless that is noted. Raises LimitsDown."""
    found = await balance(redis, known)
    if found.since is None:
        with redis_asked():
            seconds, micros = await redis.time()
            now = int(seconds) * 1_000 + int(micros) // 1_000
            await redis.hsetnx(keys.OPERATIONS, SINCE, f"{now} {-found.missing}")
