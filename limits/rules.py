"""How much one line allows, what its kind does, and the time spans the scripts reckon with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from tracking.line import TRACKING, Kind, Line

LATE_SECONDS = 1.0
"""How long after its instant a grant may still be sent; the lane is held that much longer until
the send is reported. Larger only costs rate after a crash, smaller wastes grants of a busy loop."""

AHEAD_SECONDS = 0.15
"""How far ahead a grant may be made; must exceed a script's round trip and one turn of the loop."""

ANSWER_KEEP_SECONDS = 30.0
"""How long an answer is remembered in Redis at least, for requests that find it fresh enough."""

ANSWER_KEEP_MOST_SECONDS = 3_600.0
"""And at most: an older one is looked up in MongoDB, or a year's answers would fill Redis."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The limits of one line, over all workers: `[limits]` and `[limits.slugs.<slug>]`.

    `together` numbers, at most, go with one call, which is what the limits count.
    `guard_ms` covers the jitter between the courier and us: starts of one lane are at least
    1 s + guard apart. Where more is measured a process widens it by itself, up to `guard_most_ms`
    (limits/scatter.py). `per_hour` holds in any 3,600 s; `per_day` between two resets, at
    `day_resets_at_seconds` after midnight UTC. `kind` is what scripts go by besides, as
    tracking/line.py says.
    """

    concurrent: int = 20
    per_second: int = 2
    together: int = 1
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
    def reach_us(self) -> tuple[int, int]:
        """How far ahead of Redis' clock a lease, and a lane, can end; in microseconds."""
        lane = 1.0 + AHEAD_SECONDS + LATE_SECONDS + max(self.guard_ms, self.guard_most_ms) / 1000
        return round(self.lease_seconds * 1e6), round(lane * 1e6)


RulesOf = Callable[[Line], Rules]
"""The rules of every line, asked at every step: they may change while the worker runs.

What it returns is kept in written form for as long as it is the very same object.
"""


class Revisions(Protocol):
    """How rules that may change while workers run are known by their revision."""

    revision: int
    """Of the rules that this process goes by; 0 while nobody has changed any."""

    async def learn(self) -> None:
        """Go by the newest rules. Raises StoreError."""


def answer_keep_seconds(max_age: float) -> float:
    """How long answers are remembered in Redis where requests that set no age say `max_age`."""
    return min(max(ANSWER_KEEP_SECONDS, max_age), ANSWER_KEEP_MOST_SECONDS)


NOBODY: Mapping[str, object] = MappingProxyType(
    {"epoch": "", "revision": 0, "token": "", "deaths": 0, "max_age_ms": 0}
)
"""What a worker tells of itself beside the rules, of one who neither calls nor drains."""
