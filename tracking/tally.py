"""A tally: how much happened of what in a span of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tracking.operation import ENDS

BOUNDS_MS = (
    *(100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000),
    *(300_000, 900_000, 3_600_000, 21_600_000, 86_400_000),
)
"""What a time is counted by: the least of these that it does not exceed; else MORE."""

MORE = "more"
REFUSED = ("full", "id_reused", "too_late", "malformed")
"""Requests that never became an operation."""

CALLS_OF_NONE = ("repeated", "handed_back", "lost", "idle")
"""Calls that ended no operation: `repeated` ones are retries."""

MERGED = "merged"
"""Requests without an id beyond the first of their operation."""


@dataclass(slots=True)
class Histogram:
    """How many times were how long, by their bound in ms as text."""

    counts: Counter[str] = field(default_factory=Counter)

    def quantile(self, share: float) -> float | None:
        """Seconds that `share` of the times do not exceed; None without any.

        Times are taken to lie evenly between two bounds; beyond the last bound it is the last one.
        """
        wanted, below, since = share * self.counts.total(), 0, 0
        for bound in BOUNDS_MS:
            here = self.counts[str(bound)]
            if here and below + here >= wanted:
                return (since + (bound - since) * max(0.0, wanted - below) / here) / 1000
            below, since = below + here, bound
        return since / 1000 if self.counts.total() else None


@dataclass(slots=True)
class Tally:
    """Everything that happened in a span.

    `counts`: operations by the state in which they ended; `merged` requests without an id, beyond
    the first of their operation; refused requests by why; calls that ended no operation by why.
    `waited`: of operations, from their admission to the call that ended them. `took`: of calls.
    """

    counts: Counter[str] = field(default_factory=Counter)
    waited: Histogram = field(default_factory=Histogram)
    took: Histogram = field(default_factory=Histogram)

    @property
    def operations(self) -> int:
        """How many ended: successes, errors and cancelled."""
        return sum(self.counts[end] for end in ENDS)

    @property
    def calls(self) -> int:
        """How many were made."""
        return self.took.counts.total()

    @property
    def shared(self) -> int:
        """How many operations ended by an answer to the call of others, or by one kept from it."""
        ending = self.calls - sum(self.counts[why] for why in CALLS_OF_NONE)
        return max(0, self.operations - self.counts["CANCELLED"] - ending)

    def join(self, other: Tally) -> None:
        """Add what happened in another span."""
        self.counts.update(other.counts)
        self.waited.counts.update(other.waited.counts)
        self.took.counts.update(other.took.counts)

    def raise_to(self, other: Tally) -> None:
        """Take the greater one of each figure: another tally is of the same span."""
        self.counts |= other.counts
        self.waited.counts |= other.waited.counts
        self.took.counts |= other.took.counts

    def add(self, fields: Mapping[str, object]) -> None:
        """Add what a hash of Redis holds (limits/lua/lib/state.lua)."""
        for name, value in fields.items():
            times = int(str(value))
            what, *spans = name.split(" ")
            self.counts[what] += times
            for histogram, bound in zip((self.waited, self.took), spans, strict=False):
                if bound != "-":
                    histogram.counts[bound] += times


@dataclass(frozen=True, slots=True)
class Day:
    """The tally of the day from `at` (Unix seconds, UTC), of one slug or ("") of all."""

    at: int
    slug: str
    tally: Tally


def tally_of(hashes: Iterable[Mapping[str, object]]) -> Tally:
    """Add up what happened in several spans, or to several slugs."""
    made = Tally()
    for each in hashes:
        made.add(each)
    return made
