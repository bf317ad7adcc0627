"""How fast and how exactly calls arrived, judged on the courier's clock alone. Pure.

rate   1 s / mean(arrival k - arrival k-N), N the calls allowed in a second: exact
share  arrivals / (N * slugs * seconds): what was made of what is allowed, in steps of one call
over   slugs that saw more than N arrivals in any half-open second of the whole run
proven those of them of which it is certain although the courier itself stood still at times
stall  the longest time for which the courier stood still and did not see what arrived
late   how much later than N-th to last arrival + 1 s + guard a call arrived
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from devstack.judge import Call, most_in_flight, most_starts_in_any_second

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Window:
    """The measured part of a run: half-open, in monotonic nanoseconds."""

    begin_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        """How long it is."""
        return (self.end_ns - self.begin_ns) / SECOND_NS

    def holds(self, instant_ns: int) -> bool:
        """Whether an instant lies in it."""
        return self.begin_ns <= instant_ns < self.end_ns


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the limits allow each slug; `guard` in seconds."""

    per_second: int = 2
    guard: float = 0.02


@dataclass(frozen=True, slots=True)
class Pace:
    """The verdict about one run: rate, share and lateness of the window, all else of the run."""

    calls: int
    rate: float
    share: float
    over: int
    proven: int
    worst: int
    stall_ms: float
    in_flight: int
    late_ms: float
    late_p99_ms: float


def judge(calls: Iterable[Call], window: Window, allowed: Allowed, slugs: int) -> Pace:
    """Judge a run in which `slugs` slugs had something waiting all the time."""
    by_slug = slugs_of(calls)
    certain = [most_starts_in_any_second(each) for each in by_slug.values()]
    worst = [most_starts_in_any_second(map(as_stamped, each)) for each in by_slug.values()]
    gaps = [gap for each in by_slug.values() for gap in gaps_in(each, window, allowed.per_second)]
    late = [(gap - 1 - allowed.guard) * 1000 for gap in gaps] or [math.nan]
    made = sum(window.holds(call.arrived_ns) for each in by_slug.values() for call in each)
    return Pace(
        calls=made,
        rate=1 / fmean(gaps) if gaps else 0.0,
        share=made / (allowed.per_second * slugs * window.seconds),
        over=sum(most > allowed.per_second for most in worst),
        proven=sum(most > allowed.per_second for most in certain),
        worst=max(worst, default=0),
        stall_ms=max((call.late_ns for each in by_slug.values() for call in each), default=0) / 1e6,
        in_flight=max(map(most_in_flight, by_slug.values()), default=0),
        late_ms=fmean(late),
        late_p99_ms=percentile(late, 0.99),
    )


def as_stamped(call: Call) -> Call:
    """Forget that it may have arrived earlier than it was seen."""
    return replace(call, late_ns=0)


def slugs_of(calls: Iterable[Call]) -> Mapping[str, list[Call]]:
    """Sort calls by slug, oldest first."""
    by_slug: defaultdict[str, list[Call]] = defaultdict(list)
    for call in sorted(calls, key=lambda call: call.arrived_ns):
        by_slug[call.slug].append(call)
    return by_slug


def gaps_in(calls: Sequence[Call], window: Window, per_second: int) -> list[float]:
    """Seconds from arrival k-N to arrival k, for all k of which both lie in the window."""
    arrived = [call.arrived_ns for call in calls if window.holds(call.arrived_ns)]
    pairs = zip(arrived, arrived[per_second:], strict=False)
    return [(later - earlier) / SECOND_NS for earlier, later in pairs]


def turnovers(calls: Sequence[Call], concurrent: int) -> list[float]:
    """Seconds from the end of a call to the arrival of the one that got its slot.

    For one slug whose slots are always wanted: the j-th call to end makes room for arrival number
    j + `concurrent`.
    """
    ends = sorted(call.ended_ns for call in calls if call.ended_ns is not None)
    arrived = sorted(call.arrived_ns for call in calls)
    pairs = zip(ends, arrived[concurrent:], strict=False)
    return [(start - end) / SECOND_NS for end, start in pairs]


def percentile(values: Sequence[float], share: float) -> float:
    """Give the value below which `share` of all values lie; nan when there are none."""
    if not values:
        return math.nan
    return sorted(values)[min(len(values) - 1, math.floor(share * len(values)))]
