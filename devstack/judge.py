"""Judging from a courier's side whether the limits were kept.

Pure functions over the calls that the courier site recorded, on the site's own clock. Our own
counters are never asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it arrived at a courier.

    `arrived_ns` is when its first byte arrived, `ended_ns` when the last byte of the answer left or
    the connection was lost; both are nanoseconds of one monotonic clock. `ended_ns` and `status`
    are None while the call runs, `status` also when no answer was given. `late_ns`: so much earlier
    it may have arrived in truth, because the site itself stood still. A call for several numbers
    is one call: `number` is the first of them, `riders` are the others.
    """

    slug: str
    number: str
    arrived_ns: int
    ended_ns: int | None = None
    status: int | None = None
    late_ns: int = 0
    riders: tuple[str, ...] = ()

    @property
    def numbers(self) -> tuple[str, ...]:
        """Every number that was asked for."""
        return (self.number, *self.riders)


def most_in_flight(calls: Iterable[Call]) -> int:
    """How many calls ran at once at the worst instant; one that ends as another arrives is gone."""
    changes = []
    for call in calls:
        changes.append((call.arrived_ns, 1))
        if call.ended_ns is not None:
            changes.append((call.ended_ns, -1))
    running = most = 0
    for _, change in sorted(changes):  # -1 sorts before 1 at the same instant
        running += change
        most = max(most, running)
    return most


def most_starts_in_any_second(calls: Iterable[Call]) -> int:
    """How many calls certainly arrived in the worst window [t, t + 1 s), wherever it begins."""
    window: list[Call] = []
    most = 0
    for last in sorted(calls, key=lambda call: call.arrived_ns):
        window = [call for call in window if last.arrived_ns - call.arrived_ns < SECOND_NS]
        before = sum(
            last.arrived_ns - call.arrived_ns + call.late_ns < SECOND_NS for call in window
        )
        most = max(most, before + 1)
        window.append(last)
    return most


def rate_share(calls: Iterable[Call], per_second: int) -> float:
    """How much of the permitted rate was used between the first and the last arrival.

    1.0 is all of it: the first `per_second` calls cost no time, so they do not count. 0.0 when the
    calls are too few to tell.
    """
    starts = sorted(call.arrived_ns for call in calls)
    if len(starts) <= per_second or starts[-1] == starts[0]:
        return 0.0
    seconds = (starts[-1] - starts[0]) / SECOND_NS
    return (len(starts) - per_second) / (per_second * seconds)


def calls_per_number(calls: Iterable[Call]) -> Counter[tuple[str, str]]:
    """How often each (slug, number) was asked for."""
    return Counter((call.slug, number) for call in calls for number in call.numbers)


def most_numbers_in_a_call(calls: Iterable[Call]) -> int:
    """How many numbers the fullest call asked for."""
    return max((len(call.numbers) for call in calls), default=0)
