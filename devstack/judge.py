"""Judging from a courier's side whether the limits were kept.

Pure functions over the calls that the courier site recorded, on the site's own clock. Our own
counters are never asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

SECOND_NS = 1_000_000_000

SLACK_NS = SECOND_NS // 2
"""By so much what is said of one instant may differ on a busy machine."""


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


@dataclass(frozen=True, slots=True)
class Noted:
    """What is stored of the attempts of one delivery.

    `stored_ns`: when the success was stored at the latest, on the clock of the calls; None where
    there was none.
    """

    attempts: int = 0
    successes: int = 0
    stored_ns: int | None = None


def noted_in(rows: Iterable[Mapping[str, Any]], epoch_ns: int) -> dict[str, Noted]:
    """Sum up the rows of the collection `attempts` by delivery.

    `epoch_ns`: what the clock of the calls is behind that of the rows, which is Unix time.
    """
    found: dict[str, Noted] = {}
    for row in rows:
        known = found.get(row["delivery"], Noted())
        known = replace(known, attempts=known.attempts + 1)
        if row["failure"] is None:
            ended_ns = round(row["at"].timestamp() * SECOND_NS) + row["ms"] * 1_000_000
            stored_ns = ended_ns - epoch_ns + SLACK_NS
            known = replace(known, successes=known.successes + 1, stored_ns=stored_ns)
        found[row["delivery"]] = known
    return found


def wrong_attempts(calls: Iterable[Call], noted: Mapping[str, Noted]) -> Iterator[str]:
    """Say what is wrong with attempts, by the receivers' log: a call is one, its number a delivery.

    Of a delivery no two run at once, none arrives behind a stored success, and one succeeds.
    """
    for number, made in calls_of_numbers(calls).items():
        known = noted.get(number, Noted())
        if (most := most_in_flight(made)) > 1:
            yield f"{number}: {most} attempts at once"
        if known.successes > 1:
            yield f"{number}: {known.successes} attempts succeeded"
        last_ns = max(call.arrived_ns for call in made)
        if known.stored_ns is not None and last_ns > known.stored_ns:
            behind = (last_ns - known.stored_ns) / SECOND_NS
            yield f"{number}: sent {behind:.3f} s after a stored success"


def calls_of_numbers(calls: Iterable[Call]) -> dict[str, list[Call]]:
    """Sort calls by their number."""
    found: dict[str, list[Call]] = {}
    for call in calls:
        found.setdefault(call.number, []).append(call)
    return found


def most_numbers_in_a_call(calls: Iterable[Call]) -> int:
    """How many numbers the fullest call asked for."""
    return max((len(call.numbers) for call in calls), default=0)
