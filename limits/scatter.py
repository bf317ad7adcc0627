"""The guard of each line, widened by what the way to its courier was measured to scatter.

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
from dataclasses import replace

from limits.rules import Rules, RulesOf
from tracking.line import Line

LAST, FEWEST = 128, 4
"""Answers that count: at two a second those of a minute, and as few as tell anything."""

LOOK_EVERY = 8
"""Answers between two looks at many of them: to sort them costs 10 µs."""

OUTLIER = 50
"""One in so many of the slowest answers does not count: it is the courier's, not the way's."""

STEP_MS = 5
"""Guards are whole steps: each change has the rules of the line written again."""


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


class Scatter:
    """Measures lines, and gives their rules with the guard that fits."""

    def __init__(self, rules_of: RulesOf) -> None:
        self._set_of = rules_of
        self._answers: dict[Line, _Answers] = {}
        self._rules: dict[Line, tuple[Rules, Rules]] = {}

    def rules_of(self, line: Line) -> Rules:
        """The rules that are set, with this process' guard; the same object until it changes."""
        rules = self._set_of(line)
        known = self._rules.get(line)
        if known is None or known[0] is not rules:
            known = self._rules[line] = rules, self._guarded(line, rules)
        return known[1]

    def note(self, line: Line, seconds: float) -> None:
        """Note how long after its send an answer began to arrive."""
        answers = self._answers.get(line)
        if answers is None:
            answers = self._answers[line] = _Answers()
        if answers.add(seconds) and (known := self._rules.get(line)):
            fresh = self._guarded(line, known[0])
            if fresh != known[1]:
                self._rules[line] = known[0], fresh

    def fits(self) -> dict[str, int]:
        """The guards that would be enough, in ms, of the lines where the one that is set is not."""
        found = ((line, self._fitting(line, self._set_of(line))) for line in self._answers)
        return {
            line: guard for line, guard in found if guard and guard > self._set_of(line).guard_ms
        }

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
