"""Violations: starts that broke a limit, by what was measured and not by what decides.

Scripts add to one stream when calls left and when they ended (lua/lib/batch.lua), beside lanes and
leases and without a look at them. So a defect there shows here, as a start that broke a limit.

=============================== ===============================================================
what could accuse wrongly       what is done
=============================== ===============================================================
limits that were changed, state nothing counts for EXEMPT_US
that Redis lost, a clock that
stepped back
a report that comes late        what happened is judged LAG_US later; what comes later still is
                                left out, and so is what comes twice
a call whose end nobody reports it counts for its time-out: it cannot run for longer
a look that comes too late      all is forgotten: the stream holds 15 s
=============================== ===============================================================
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from redis.asyncio import Redis

from limits import keys
from limits.clock import MICRO
from limits.failure import redis_asked
from limits.rules import RuleBook, Rules, RulesOf
from limits.server import RunInBackground
from tracking.errors import LimitsBroken, LimitsDown, ResultsDown
from tracking.line import Line, is_courier

EXEMPT_US = 60 * MICRO
LAG_US = 1_500_000
"""Reports travel for 0.3 s and a round trip."""

GAP_US = 14_000_000
"""The stream holds a little more."""

STEP_MS = 100
"""An entry that is further ahead was made before Redis' clock stepped back."""

PERIOD_SECONDS = 1.0

ANY = "-"
"""Stands before the first entry."""

RATE, CONCURRENCY = "rate", "concurrency"

Entry = tuple[int, str]
"""Of the stream: when a script ran, in ms, and what it adds: `line what line what …`, where `what`
is the sends that were reported, as JSON [start id, µs, …], or the id of a call that ended."""


@dataclass(slots=True)
class Worst:
    """The worst that was measured of a line in some time.

    `per_second`: the most starts in any second; `at_once`: the most calls at any instant; `starts`:
    all of them; `broken`: violations. The rules allowed `rate` and `concurrent`, at most.
    """

    per_second: int = 0
    at_once: int = 0
    starts: int = 0
    broken: int = 0
    rate: int = 0
    concurrent: int = 0

    def join(self, other: Worst) -> None:
        """Add what was measured at another time."""
        self.per_second = max(self.per_second, other.per_second)
        self.at_once = max(self.at_once, other.at_once)
        self.starts += other.starts
        self.broken += other.broken
        self.rate = max(self.rate, other.rate)
        self.concurrent = max(self.concurrent, other.concurrent)


class LineRecord:
    """The measured starts and ends of one line. Times are in µs of Redis' clock.

    `judged`: somebody has judged what was until then.
    """

    def __init__(self, judged: int = 0) -> None:
        self.worst = Worst()
        self._sends: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        self._running: dict[str, int] = {}
        self._last: deque[int] = deque()
        self._judged = judged

    def note(self, what: str, at: int) -> None:
        """Note what a script added at this time."""
        if not what.startswith("["):
            self._ends[what] = at
            return
        told = json.loads(what)
        for start_id, sent in zip(told[::2], told[1::2], strict=True):
            if sent > self._judged:
                self._sends[start_id] = sent

    def judge(self, until: int, rules: Rules) -> Iterator[tuple[int, str]]:
        """Tell which starts until then broke a limit: when, and which one."""
        for sent, start_id in sorted((at, name) for name, at in self._sends.items() if at <= until):
            del self._sends[start_id]
            while self._last and self._last[0] <= sent - MICRO:
                self._last.popleft()
            self._last.append(sent)
            self.worst.starts += 1
            self.worst.per_second = max(self.worst.per_second, len(self._last))
            if len(self._last) > rules.per_second:
                yield sent, RATE
            # Further requests of a call, with a # in their ids, run in its slot.
            call_id = start_id.partition("#")[0]
            if self._ends.get(call_id, sent + 1) > sent:
                self._running.setdefault(call_id, sent)
            if len(self._running) > min(rules.concurrent, self.worst.at_once):
                self._land(sent, rules)
            # One that ended at once ran too, though its end is of the same ms.
            self.worst.at_once = max(self.worst.at_once, len(self._running), 1)
            if len(self._running) > rules.concurrent:
                yield sent, CONCURRENCY
        self._judged = max(self._judged, until)
        self._land(until, rules)
        # The send of one that ended at once may be reported a little later.
        self._ends = {name: at for name, at in self._ends.items() if at > until - LAG_US}

    def _land(self, at: int, rules: Rules) -> None:
        """Forget the calls that were over at this time."""
        over = at - round(rules.call_timeout_seconds * MICRO)
        self._running = {
            call_id: sent
            for call_id, sent in self._running.items()
            if sent > over and self._ends.get(call_id, at + 1) > at
        }


class Violations:
    """Counts the starts that broke a limit, by line and limit; 0 for lines without any."""

    def __init__(
        self, rules_of: RulesOf, exempt_us: int = EXEMPT_US, revisions: RuleBook | None = None
    ) -> None:
        self.revisions = revisions
        self.worst: dict[Line, Worst] = {}
        """Of lines that started calls, since somebody took it."""
        self._exempt_us = exempt_us
        self.counts: dict[tuple[Line, str], int] = {}
        self._rules_of = rules_of
        self._lines: dict[Line, LineRecord] = {}
        self.epoch = ""
        self.looked = 0
        self.exempt_until = 0
        """Nothing is counted that was before, as the rules of then are not known."""
        self._judged = 0

    def go_on(self, looked: int, epoch: str, exempt_until: int) -> str:
        """Go on where another process left off; give the entry behind which it looked last."""
        self.looked, self.epoch, self.exempt_until = looked, epoch, exempt_until
        self._judged = max(0, looked - LAG_US)
        return str(self._judged // 1000) if looked else ANY

    async def hear(
        self, now_us: int, epoch: str, revision: str, entries: Sequence[tuple[str, str]]
    ) -> str:
        """Judge by what Redis says at `now_us`; `entries` are those of the stream, with their ids.

        Returns behind which entry to look the next time, "" where there is none. Raises StoreError.
        """
        if self.revisions and (revision or "0") != str(self.revisions.revision):
            await self.revisions.learn()
        named = " ".join(filter(None, (epoch.partition(" ")[0], revision)))
        self.note(now_us, named, [(int(at.partition("-")[0]), text) for at, text in entries])
        return f"({entries[-1][0]}" if entries else ""

    def note(self, now_us: int, epoch: str, entries: Sequence[Entry]) -> None:
        """Judge what is old enough; `entries` are all since the last time, the oldest first.

        `epoch` is another one after a loss of state, and after a change of the rules.
        """
        stepped = now_us < self.looked or any(ms > now_us // 1000 + STEP_MS for ms, _ in entries)
        is_new = epoch != self.epoch or stepped
        if is_new:
            self.epoch, self.exempt_until = epoch, now_us + self._exempt_us
        if is_new or now_us - self.looked > GAP_US:
            self._lines = {}
        self.looked = now_us
        for ms, text in entries:
            words = text.split(" ")
            for name, what in zip(words[::2], words[1::2], strict=True):
                if is_courier(line := Line(name)):
                    self._lines.setdefault(line, LineRecord(self._judged)).note(what, ms * 1000)
        for line, record in self._lines.items():
            for limit in (RATE, CONCURRENCY):
                self.counts.setdefault((line, limit), 0)
            rules = self._rules_of(line)
            for at, limit in record.judge(now_us - LAG_US, rules):
                counted = at > self.exempt_until
                self.counts[line, limit] += counted
                record.worst.broken += counted
            if record.worst.starts:
                record.worst.rate, record.worst.concurrent = rules.per_second, rules.concurrent
                self.worst.setdefault(line, Worst()).join(record.worst)
                record.worst = Worst()


async def look(redis: Redis, violations: Violations, after: str) -> str:
    """Judge what is in the stream behind an entry; give the last one. Raises StoreError."""
    with redis_asked():
        pipeline = redis.pipeline(transaction=False)
        pipeline.time()
        pipeline.mget(keys.EPOCH, keys.REVISION)
        pipeline.xrange(keys.MEASURED, min=after)
        (seconds, micros), (epoch, revision), found = await pipeline.execute()
    told = [(at, fields["m"]) for at, fields in found]
    now_us = int(seconds) * MICRO + int(micros)
    return await violations.hear(now_us, epoch or "", revision or "", told) or after


async def _judge_on(redis: Redis, violations: Violations) -> None:
    """Judge once a second; never returns."""
    after = ANY
    while True:
        with contextlib.suppress(LimitsBroken, LimitsDown, ResultsDown):
            after = await look(redis, violations, after)
        await asyncio.sleep(PERIOD_SECONDS)


@asynccontextmanager
async def judging(
    redis: Redis, rules_of: RulesOf, beside: RunInBackground, revisions: RuleBook | None = None
) -> AsyncIterator[Violations]:
    """Count what breaks a limit within the `with` block."""
    violations = Violations(rules_of, revisions=revisions)
    async with beside("violations", lambda: _judge_on(redis, violations)):
        yield violations
