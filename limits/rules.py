"""The rules of each line: as they are set, as changed while workers run, with the guard widened.

Two starts of a lane are a second and the guard apart when they leave. They arrive a second apart
only where the later one travels by no more than the guard faster than the earlier one. How long a
request travelled nobody tells us. But what its answer came later than the quickest answer holds
what it travelled longer than the quickest request, beside what the courier and the way back took
longer: so the scatter of the answers is at least that of the way, and errs to the safe side.

================================ ================================================================
the scatter of the last answers  the guard
================================ ================================================================
not known yet: too few of them   `guard_most_ms`, as the safe side
within `guard_ms`                `guard_ms`: that is what it is there for
above it                         that scatter, `guard_ms` beside it, and `guard_most_ms` at most
================================ ================================================================

Each process measures for itself, and its own sends hold their lanes for so much longer: no other
one needs to know. `fits` says what would be enough, also beyond `guard_most_ms`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from tracking.line import TRACKING, Kind, Line
from tracking.request import Account

LATE_SECONDS = 1.0
"""How long after its instant a grant may still be sent; the lane is held that much longer until
the send is reported. Larger only costs rate after a crash, smaller wastes grants of a busy loop."""

AHEAD_SECONDS = 0.15
"""How far ahead a grant may be made; must exceed a script's round trip and one turn of the loop."""

ANSWER_KEEP_SECONDS = 30.0
"""How long an answer is remembered in Redis at least, for requests that find it fresh enough."""

ANSWER_KEEP_MOST_SECONDS = 3_600.0
"""And at most: an older one is looked up in MongoDB, or a year's answers would fill Redis."""


HOUR_US, DAY_US = 3_600_000_000, 86_400_000_000

LAST, FEWEST = 128, 8
"""Answers that count: at two a second those of a minute, and as few as hardly ever are alike by
chance: of four every fortieth time those of a scattered way are, and calls arrive too close."""

LOOK_EVERY = 8
"""Answers between two looks at many of them: to sort them costs 10 µs."""

OUTLIER = 50
"""One in so many of the slowest answers does not count: it is the courier's, not the way's."""

STEP_MS = 5
"""Guards are whole steps: each change has the rules of the line written again."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The limits of one line, over all workers: `[limits]` and `[limits.slugs.<slug>]`.

    `together` numbers, at most, go with one call, which is what the limits count; the quotas count
    each number where `quotas_count_numbers`. Re-checks wait `fill_ms` for company at most, under a
    quota its mean interval if that is longer.
    `guard_ms` covers the jitter between the courier and us: starts of one lane are at least
    1 s + guard apart. Where more is measured a process widens it by itself, up to `guard_most_ms`.
    `per_hour` holds in any 3,600 s; `per_day` between two resets, at `day_resets_at_seconds` after
    midnight UTC. `kind` is what scripts go by besides, as tracking/line.py says.
    """

    concurrent: int = 20
    per_second: int = 2
    together: int = 1
    fill_ms: int = 2_000
    quotas_count_numbers: bool = False
    guard_ms: int = 20
    guard_most_ms: int = 0
    call_timeout_seconds: float = 30.0
    lease_seconds: float = 60.0
    max_waiting: int = 1_000_000
    per_hour: int | None = None
    per_day: int | None = None
    day_resets_at_seconds: int = 0
    kind: Kind = TRACKING

    @property
    def window_us(self) -> int:
        """How far apart two starts of one lane are, in microseconds."""
        return 1_000_000 + self.guard_ms * 1_000

    @property
    def fill_us(self) -> int:
        """How long a re-check waits for company, in microseconds.

        Under a quota as long as one call comes after the other when it is spent evenly: full calls
        make the most of it. Quotas that count numbers save nothing by company.
        """
        intervals = [self.fill_ms * 1_000]
        if not self.quotas_count_numbers:
            quotas = ((HOUR_US, self.per_hour), (DAY_US, self.per_day))
            intervals += [span // most for span, most in quotas if most]
        return max(intervals)

    @property
    def reach_us(self) -> tuple[int, int]:
        """How far ahead of Redis' clock a lease, and a lane, can end; in microseconds."""
        lane = 1.0 + AHEAD_SECONDS + LATE_SECONDS + max(self.guard_ms, self.guard_most_ms) / 1000
        return round(self.lease_seconds * 1e6), round(lane * 1e6)


RulesOf = Callable[[Line], Rules]
"""The rules of every line, asked at every step: they may change while the worker runs.

What it returns is kept in written form for as long as it is the very same object.
"""


def answer_keep_seconds(max_age: float) -> float:
    """How long answers are remembered in Redis where requests that set no age say `max_age`."""
    return min(max(ANSWER_KEEP_SECONDS, max_age), ANSWER_KEEP_MOST_SECONDS)


NOBODY: Mapping[str, object] = MappingProxyType(
    {"epoch": "", "revision": 0, "token": "", "deaths": 0, "max_age_ms": 0}
)
"""What a worker tells of itself beside the rules, of one who neither calls nor drains."""


class _Answers:
    """How long the last answers of one line took, in seconds, and what guard fits these."""

    def __init__(self) -> None:
        self._last: deque[float] = deque(maxlen=LAST)
        self._count = 0
        self.scatter_ms: float | None = None

    def add(self, seconds: float) -> bool:
        """Note one; whether the scatter was looked at again."""
        self._last.append(seconds)
        self._count += 1
        if self._count < FEWEST or (self._count > 2 * LOOK_EVERY and self._count % LOOK_EVERY):
            return False
        told, many = sorted(self._last), len(self._last)
        # Of few the extremes are not seen yet: of n evenly spread ones (n - 1) of (n + 1) parts.
        seen = told[-1 - many // OUTLIER] - told[0]
        self.scatter_ms = seen * 1000 * (many + 1) / (many - 1)
        return True


Own = Mapping[str, int | None]
"""What is set for one courier: name of a limit → value; None: no such quota."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The limits that are set over config.toml, by slug, and their revision.

    `quotas`: how many calls an account may have a day, of those that have such a quota.
    """

    revision: int = 0
    slugs: Mapping[str, Own] = field(default_factory=dict)
    quotas: Mapping[Account, int] = field(default_factory=dict)


async def unchanged() -> Changes:
    """Say that nothing is set over config.toml."""
    return Changes()


class RuleBook:
    """The rules by which one process calls; `revision` is 0 while nobody has changed any."""

    def __init__(
        self, plain_of: RulesOf, read: Callable[[], Awaitable[Changes]] = unchanged
    ) -> None:
        """`plain_of`: where nothing is set. `read` reads what is set now; raises ResultsDown."""
        self._plain_of = plain_of
        self._read = read
        self._changes = Changes()
        self.revision = 0
        self._answers: dict[Line, _Answers] = {}
        self._rules: dict[Line, tuple[Rules, Rules, Rules]] = {}

    def guarded(self, line: Line) -> Rules:
        """Find the rules of a line, with this process' guard; the same object until they change.

        Each script of a call asks: usually it is one look-up.
        """
        plain, known = self._plain_of(line), self._rules.get(line)
        if known is None or known[0] is not plain:
            own: Any = self._changes.slugs.get(line, {})
            rules = replace(plain, **own) if own else plain
            known = self._rules[line] = plain, rules, self._guarded(line, rules)
        return known[2]

    def rules_of(self, line: Line) -> Rules:
        """Find the rules of a line as they are set; the same object as long as they are."""
        self.guarded(line)
        return self._rules[line][1]

    @property
    def quotas(self) -> Mapping[Account, int]:
        """How many calls an account may have a day, of those that have such a quota."""
        return self._changes.quotas

    def rationed(self, line: Line) -> Mapping[str, object]:
        """Tell scripts whether accounts have quotas, for which calls of webhooks do not count."""
        rationed = bool(self._changes.quotas) and self._plain_of(line).kind.operations
        return {"rationed": True} if rationed else {}

    async def learn(self) -> None:
        """Read the limits that are set now, and go by them. Raises ResultsDown."""
        self._changes = await self._read()
        self.revision, self._rules = self._changes.revision, {}

    def note(self, line: Line, seconds: float) -> None:
        """Note how long after its send an answer began to arrive."""
        answers = self._answers.get(line)
        if answers is None:
            answers = self._answers[line] = _Answers()
        if answers.add(seconds) and (known := self._rules.get(line)):
            plain, rules, guarded = known
            fresh = self._guarded(line, rules)
            if fresh != guarded:
                self._rules[line] = plain, rules, fresh

    def fits(self) -> dict[str, int]:
        """The guards that would be enough, in ms, of the lines where the one that is set is not."""
        found: dict[str, int] = {}
        for line in self._answers:
            rules = self.rules_of(line)
            guard = self._fitting(line, rules)
            if guard and guard > rules.guard_ms:
                found[line] = guard
        return found

    def _guarded(self, line: Line, rules: Rules) -> Rules:
        guard = self._fitting(line, rules) or rules.guard_most_ms
        guard = max(rules.guard_ms, min(guard, rules.guard_most_ms))
        return rules if guard == rules.guard_ms else replace(rules, guard_ms=guard)

    def _fitting(self, line: Line, rules: Rules) -> int | None:
        """The guard that fits, None where too little was measured."""
        answers = self._answers.get(line)
        if answers is None or answers.scatter_ms is None:
            return None
        if answers.scatter_ms <= rules.guard_ms:
            return rules.guard_ms
        return rules.guard_ms + STEP_MS * -int(-answers.scatter_ms // STEP_MS)
