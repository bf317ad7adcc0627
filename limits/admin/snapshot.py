"""Snapshots of lines: what runs, what waits and what binds, read in few round trips."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import Redis

from limits import keys
from limits.admin.line_scripts import LineScripts
from limits.admin.running import fitting_guards
from limits.admin.soundness import BROKEN, busy_lines
from limits.clock import MICRO
from limits.failure import is_broken, redis_asked
from limits.rules import RuleBook, Rules, RulesOf
from tracking.line import Line, courier_line, is_courier, slug_of
from tracking.request import Account, Slug
from tracking.tally import tally_of

LINES_AT_ONCE = 100
"""Lines of one round trip: about a millisecond of Redis' time."""

TEN_MINUTES, HOUR, DAY = 600, 3_600, 86_400

BY_HAND = "by_hand"


@dataclass(frozen=True, slots=True)
class LineSnapshot:
    """One line at this moment. Times in seconds; None: nobody waits, or nothing binds.

    `bound_by` is one of "", "broken" (see soundness.py; nothing else is known), "no_worker",
    "not_configured", "quiet", "paused", "probing" (after a pause one call alone tries),
    "per_hour", "per_day", "concurrency", "rate", "filling" (all wait for company, as a call takes
    several numbers, or for their share of a quota that rations calls), "account_quota" (all wait
    until their accounts have calls again). `paused_why` is
    "by_hand" or the code of an error; `paused_note` is what the person wrote who paused it.
    `last_starts_seconds`: until the call is expected to start of the last that waits.
    `hour_left` and `day_left`: calls (numbers, where quotas count these) that the quotas leave,
    None without such a quota. `counts`:
    what happened in the last hour, as statistics name it; `asked`: somebody ever asked.
    A call holds `together` numbers at most; `calls` were counted, which had `numbers`, or
    `numbers_a_call` in the mean. `checks_due` re-checks are due and not put yet, the first of
    them for `checks_behind_seconds`; None: MongoDB, which knows, was not asked or is away.
    """

    line: Line
    concurrent: int
    per_second: int
    bound_by: str
    running: int = 0
    started_last_second: int = 0
    waiting_manual: int = 0
    waiting_automatic: int = 0
    waiting_later: int = 0
    oldest_age_seconds: float | None = None
    until_seconds: float | None = None
    last_starts_seconds: float | None = None
    paused_why: str = ""
    paused_note: str = ""
    hour_left: int | None = None
    day_left: int | None = None
    asked: bool = False
    together: int = 1
    calls: int = 0
    numbers: int = 0
    numbers_a_call: float | None = None
    checks_due: int | None = None
    checks_behind_seconds: float | None = None
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def waiting(self) -> int:
        """All numbers that wait."""
        return self.waiting_manual + self.waiting_automatic + self.waiting_later

    @property
    def rate_unused(self) -> int:
        """Starts a second that could be made more.

        Somebody has waited for a second, and nothing but the rate binds.
        """
        waited = (self.oldest_age_seconds or 0.0) >= 1
        if not waited or self.bound_by not in {"", "rate", "no_worker"}:
            return 0
        return self.per_second - self.started_last_second


class LineSnapshots:
    """Reads them. Every method raises LimitsDown when Redis is silent."""

    def __init__(self, redis: Redis, rules_of: RulesOf, revisions: RuleBook | None = None) -> None:
        self.redis = redis
        self.scripts = LineScripts(redis, rules_of, revisions, reads_only=True)

    async def lines(self, known: Iterable[Line] = ()) -> list[LineSnapshot]:
        """All lines that Redis holds something of, and all of `known`; by name."""
        with redis_asked():
            await self.scripts.learn_rules()
            return await self._read(await busy_lines(self.redis) | set(known))

    async def line(self, line: Line) -> LineSnapshot:
        """One line, whether Redis holds something of it or not."""
        with redis_asked():
            await self.scripts.learn_rules()
            (snapshot,) = await self._read([line])
            return snapshot

    async def busy(self, known: Iterable[Line]) -> list[LineSnapshot]:
        """All couriers for which something waits or runs, and those of `known` with a quota."""
        with redis_asked():
            await self.scripts.learn_rules()
            quotas = {line for line in known if _has_quota(self.scripts.rules_of(line))}
            return await self._read(filter(is_courier, await busy_lines(self.redis) | quotas))

    async def guards(self) -> dict[str, int]:
        """The guards that would fit, in ms, by line."""
        return await fitting_guards(self.redis)

    async def room(self, slug: Slug, most: int, within: float) -> int:
        """How many re-checks a courier takes that are called in `within` seconds (lua/room.lua)."""
        with redis_asked():
            await self.scripts.learn_rules()
        args = (most, round(within * 1000))
        _, fit = await self.scripts.run("room", courier_line(slug), *args)
        return int(fit)

    async def resting(self) -> tuple[frozenset[Account], float]:
        """Find the accounts that have no call left today, and when (Unix time) they have again."""
        pipeline = self.redis.pipeline(transaction=False)
        pipeline.hgetall(keys.ACCOUNT_QUOTAS)
        pipeline.hgetall(keys.ACCOUNT_CALLS)
        pipeline.time()
        with redis_asked():
            quotas, calls, (seconds, _) = await pipeline.execute()
        quotas.pop("!", None)
        used_up = (name for name, most in quotas.items() if int(calls.get(name, 0)) >= int(most))
        return frozenset(map(Account, used_up)), (int(seconds) // DAY + 1) * DAY

    def together(self, slug: Slug) -> int:
        """How many numbers a call of a courier holds, at most."""
        return self.scripts.rules_of(courier_line(slug)).together

    async def _read(self, lines: Iterable[Line]) -> list[LineSnapshot]:
        ordered, found = sorted(lines), list[LineSnapshot]()
        for begin in range(0, len(ordered), LINES_AT_ONCE):
            found += await self._sound(ordered[begin : begin + LINES_AT_ONCE])
        return found

    async def _sound(self, lines: Sequence[Line]) -> list[LineSnapshot]:
        """As `_some`; where one of them is broken each is read by itself, and of that only that."""
        try:
            return await self._some(lines)
        except Exception as error:
            if not is_broken(error):
                raise
        if len(lines) > 1:
            return [each for line in lines for each in await self._sound([line])]
        rules = self.scripts.rules_of(lines[0])
        return [LineSnapshot(lines[0], rules.concurrent, rules.per_second, BROKEN)]

    async def _some(self, lines: Sequence[Line]) -> list[LineSnapshot]:
        seconds, micros = await self.redis.time()
        now_us = int(seconds) * MICRO + int(micros)
        pipeline = self.redis.pipeline(transaction=False)
        for line in lines:
            _ask(pipeline, line, self.scripts.rules_of(line), now_us)
        told = await pipeline.execute()
        each = len(told) // len(lines)
        answers = [told[begin : begin + each] for begin in range(0, len(told), each)]
        oldest = await self._oldest(lines, answers, now_us)
        bound = await asyncio.gather(*(self.scripts.run("place", line, "", 0) for line in lines))
        return [
            _snapshot(line, self.scripts.rules_of(line), answer, age, binds)
            for line, answer, age, binds in zip(lines, answers, oldest, bound, strict=True)
        ]

    async def _oldest(
        self, lines: Sequence[Line], answers: Sequence[list[Any]], now_us: int
    ) -> list[float | None]:
        """How long the first of each line has waited; of a number without a record nobody knows."""
        pipeline = self.redis.pipeline(transaction=False)
        for line, answer in zip(lines, answers, strict=True):
            # A blank field is nobody's: without one HMGET is an error.
            pipeline.hmget(keys.of_line(line).wait_requests, ["", *filter(None, answer[-2:])])
        ages = list[float | None]()
        for answer, texts in zip(answers, await pipeline.execute(), strict=True):
            since = [json.loads(text)["since"] for text in texts if text]
            age_us = now_us - min(since, default=now_us // 1000) * 1000
            ages.append(max(0.0, age_us / MICRO) if any(answer[-2:]) else None)
        return ages


async def waiting(redis: Redis, line: Line) -> int:
    """Count the numbers of a line that wait for a turn, or for a repetition."""
    # No transaction: a full Redis may refuse all of one.
    pipeline = redis.pipeline(transaction=False)
    _ask_who_waits(pipeline, keys.of_line(line))
    return sum(_numbers_waiting(*await pipeline.execute()))


def seconds_until(us: int | str, now_us: int) -> float | None:
    """Read an instant as scripts write it; "" is none."""
    return None if us == "" else max(0.0, (int(us) - now_us) / MICRO)


def _ask(pipeline: Any, line: Line, rules: Rules, now_us: int) -> None:
    """Ask what `_snapshot` reads, in the same order; the heads of the lists at the end."""
    names = keys.of_line(line)
    pipeline.zcount(names.calls_leases, now_us, "+inf")
    pipeline.zcount(names.call_starts, now_us, "+inf")
    _ask_who_waits(pipeline, names)
    # A start counts against its hour for as long as lanes do, beyond the hour.
    pipeline.zcount(names.calls_hour, now_us - HOUR * MICRO - rules.window_us + MICRO, "+inf")
    pipeline.get(names.calls_day)
    for key in (names.calls_held, names.calls_paused):
        pipeline.get(key)
        pipeline.pttl(key)
    pipeline.get(names.calls_brake)
    pipeline.exists(names.counts)
    pipeline.hmget(names.counts, "calls", "numbers")
    now = now_us // MICRO
    for at in range(now - now % TEN_MINUTES - HOUR, now + 1, TEN_MINUTES):
        pipeline.hgetall(keys.ten_minutes(at, slug_of(line)))
    pipeline.lindex(names.wait_list, 0)
    pipeline.lindex(names.wait_list_automatic, 0)


def _ask_who_waits(pipeline: Any, names: keys.LineKeys) -> None:
    """Ask what `_numbers_waiting` reads, in the same order."""
    pipeline.llen(names.wait_list)
    pipeline.llen(names.wait_list_automatic)
    pipeline.hmget(names.wait_order, "manual_gaps", "automatic_gaps")
    pipeline.zcard(names.wait_later)


def _numbers_waiting(
    manual: int, automatic: int, gaps: Sequence[Any], later: int
) -> tuple[int, int, int]:
    """How many numbers wait in each list, as lua/lib/waiting.lua counts them; and for a retry."""
    manual_gaps, automatic_gaps = (int(each or 0) for each in gaps)
    return (
        manual and max(1, manual - manual_gaps),
        automatic and max(1, automatic - automatic_gaps),
        later,
    )


def _snapshot(
    line: Line, rules: Rules, answer: Sequence[Any], oldest: float | None, binds: Sequence[Any]
) -> LineSnapshot:
    running, started, *waits, hour, day = answer[:8]
    manual, automatic, later = _numbers_waiting(*waits)
    why, note = _stop(*answer[8:13])
    now_us, _, bound_by, ends, last = binds
    calls, numbers = (int(each or 0) for each in answer[14])
    return LineSnapshot(
        line,
        rules.concurrent,
        rules.per_second,
        bound_by,
        running,
        min(started, rules.per_second),
        manual,
        automatic,
        later,
        oldest_age_seconds=oldest,
        until_seconds=seconds_until(ends, now_us),
        last_starts_seconds=seconds_until(last, now_us),
        paused_why=why,
        paused_note=note,
        hour_left=None if rules.per_hour is None else max(0, rules.per_hour - hour),
        day_left=None if rules.per_day is None else max(0, rules.per_day - int(day or 0)),
        asked=bool(answer[13]),
        together=rules.together,
        calls=calls,
        numbers=numbers,
        numbers_a_call=numbers / calls if calls else None,
        counts=dict(tally_of(answer[15:-2]).counts),
    )


def _stop(
    held: str | None, held_ms: int, why: str | None, paused_ms: int, brake: str | None
) -> tuple[str, str]:
    """Why a line stands, of two pauses by the one that lasts longer; and what a person wrote."""
    if held and not 0 <= held_ms < paused_ms:
        return BY_HAND, json.loads(held)["why"]
    state = json.loads(brake or "{}")
    # No pause is left, and one call alone tries whether the courier answers again.
    return why or (state["why"] if "pauses" in state else ""), ""


def _has_quota(rules: Rules) -> bool:
    return rules.per_hour is not None or rules.per_day is not None
