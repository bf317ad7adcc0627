"""How all busy lines stand, in few round trips: for a program that asks every few seconds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from limits import keys
from limits.clock import MICRO, Clock
from limits.codec import write_rules
from limits.failure import is_broken, redis_asked
from limits.pipeline import Pipeline
from limits.rules import NOBODY, Revisions, Rules, RulesOf
from limits.soundness import BROKEN, busy_lines
from limits.view import learn_newest, numbers
from limits.workers import fitting_guards
from tracking.line import Line, courier_line, kind_of
from tracking.request import Slug

AT_ONCE = 100
"""Lines of one round trip: about a millisecond of Redis' time."""

HOUR_US = 3_600 * MICRO


@dataclass(frozen=True, slots=True)
class Standing:
    """One line at this moment. `oldest_seconds` is 0 where nobody waits.

    `bound_by` is as in `view.LineView`. `rate_unused`: starts a second that could be made more,
    although somebody has waited for a second and nothing but the rate binds. `hour_left` and
    `day_left`: calls that the quotas leave, None without such a quota.
    """

    line: Line
    running: int
    manual: int
    automatic: int
    later: int
    oldest_seconds: float
    bound_by: str
    rate_unused: int
    hour_left: int | None
    day_left: int | None


class Standings:
    """Reads them. Raises LimitsDown when Redis is silent."""

    def __init__(self, redis: Redis, rules_of: RulesOf, revisions: Revisions | None = None) -> None:
        self._revisions = revisions
        self._redis = redis
        self._pipeline = Pipeline(redis, Clock())
        self._pipeline.confirmed = 0  # what is only read waits for no replica
        self._rules_of = rules_of

    async def read(self, known: Iterable[Line]) -> list[Standing]:
        """All lines on which something waits or runs, and those of `known` that have a quota."""
        with redis_asked():
            await learn_newest(self._redis, self._revisions)
            busy = await busy_lines(self._redis)
            quotas = {line for line in known if _has_quota(self._rules_of(line))}
            lines = sorted(line for line in busy | quotas if kind_of(line))
            found: list[Standing] = []
            for begin in range(0, len(lines), AT_ONCE):
                found += await self._sound(lines[begin : begin + AT_ONCE])
            return found

    async def _sound(self, lines: Sequence[Line]) -> list[Standing]:
        """As `_some`; where one of them is broken each is read by itself."""
        try:
            return await self._some(lines)
        except Exception as error:
            if not is_broken(error):
                raise
        if len(lines) == 1:
            return [Standing(lines[0], 0, 0, 0, 0, 0.0, BROKEN, 0, None, None)]
        return [each for line in lines for each in await self._sound([line])]

    async def guards(self) -> dict[str, int]:
        """The guards that would fit, in ms (`workers.fitting_guards`). Raises LimitsDown."""
        return await fitting_guards(self._redis)

    async def room(self, slug: Slug, most: int, within: float) -> int:
        """How many re-checks a courier takes that are called in `within` seconds (lua/room.lua)."""
        line = courier_line(slug)
        with redis_asked():
            await learn_newest(self._redis, self._revisions)
        args = (write_rules(self._rules_of(line), NOBODY), b"[]", most, round(within * 1000))
        _, fit = await self._pipeline.run("room", [keys.wait_list(line)], args)
        return int(fit)

    async def _some(self, lines: Sequence[Line]) -> list[Standing]:
        seconds, micros = await self._redis.time()
        now_us = int(seconds) * MICRO + int(micros)
        pipeline = self._redis.pipeline(transaction=False)
        for line in lines:
            _ask(pipeline, keys.of_line(line), self._rules_of(line), now_us)
        told = await pipeline.execute()
        each = len(told) // len(lines)
        answers = [told[begin : begin + each] for begin in range(0, len(told), each)]
        oldest = await self._oldest(lines, answers, now_us)
        bound = await asyncio.gather(*map(self._bound_by, lines))
        return [
            _standing(line, self._rules_of(line), answer, age, why)
            for line, answer, age, why in zip(lines, answers, oldest, bound, strict=True)
        ]

    async def _oldest(
        self, lines: Sequence[Line], answers: Sequence[list[Any]], now_us: int
    ) -> list[float]:
        pipeline = self._redis.pipeline(transaction=False)
        for line, answer in zip(lines, answers, strict=True):
            # A blank field is nobody's: without one HMGET is an error.
            pipeline.hmget(keys.of_line(line).wait_requests, ["", *filter(None, answer[-2:])])
        ages = []
        for texts in await pipeline.execute():
            since = [json.loads(text)["since"] for text in texts if text]
            ages.append(max(0.0, now_us / MICRO - min(since) / 1000) if since else 0.0)
        return ages

    async def _bound_by(self, line: Line) -> str:
        rules = write_rules(self._rules_of(line), NOBODY)
        told = await self._pipeline.run("place", [keys.wait_list(line)], (rules, b"[]", "", 0))
        return str(told[2])


def _ask(pipeline: Any, names: keys.LineKeys, rules: Rules, now_us: int) -> None:
    """Ask what `_standing` reads, in the same order; the heads of the lists at the end."""
    pipeline.zcount(names.calls_leases, now_us, "+inf")
    pipeline.zcount(names.call_starts, now_us, "+inf")
    pipeline.llen(names.wait_list)
    pipeline.llen(names.wait_list_automatic)
    pipeline.hmget(names.wait_order, "manual_gaps", "automatic_gaps")
    pipeline.zcard(names.wait_later)
    # A start counts against its hour for as long as lanes do, beyond the hour.
    pipeline.zcount(names.calls_hour, now_us - HOUR_US - rules.window_us + MICRO, "+inf")
    pipeline.get(names.calls_day)
    pipeline.lindex(names.wait_list, 0)
    pipeline.lindex(names.wait_list_automatic, 0)


def _standing(
    line: Line, rules: Rules, answer: Sequence[Any], oldest: float, bound_by: str
) -> Standing:
    running, started, manual, automatic, gaps, later, hour, day, *_ = answer
    manual_gaps, automatic_gaps = (int(each or 0) for each in gaps)
    waited = oldest >= 1 and bound_by in {"", "rate", "no_worker"}
    return Standing(
        line,
        running,
        numbers(manual, manual_gaps),
        numbers(automatic, automatic_gaps),
        later,
        oldest,
        bound_by,
        rate_unused=max(0, rules.per_second - started) if waited else 0,
        hour_left=None if rules.per_hour is None else max(0, rules.per_hour - hour),
        day_left=None if rules.per_day is None else max(0, rules.per_day - int(day or 0)),
    )


def _has_quota(rules: Rules) -> bool:
    return rules.per_hour is not None or rules.per_day is not None
