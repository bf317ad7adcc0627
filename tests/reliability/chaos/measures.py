"""Figures of a run that are shown and never gate. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from chaos.evidence import Evidence
from chaos.faults.workers import DIED
from chaos.producer import Outcome
from chaos.wishes import Kind
from devstack import judge

SECOND_NS = 1_000_000_000
REPAIRS = ("lost", "repeated")
OUTAGES = (
    "killed",
    "killed for long",
    "frozen",
    "frozen for long",
    "frozen whole",
    "down",
    "a black hole",
)


@dataclass(frozen=True, slots=True)
class Spread:
    """Durations in seconds; all 0 when there were none."""

    count: int
    p50: float
    p99: float
    most: float

    def __str__(self) -> str:
        if not self.count:
            return "none"
        return f"p50 {self.p50:.1f} s, p99 {self.p99:.1f} s, most {self.most:.1f} s ({self.count})"


def spread(durations: Iterable[float]) -> Spread:
    """Sum durations up."""
    ordered = sorted(durations)
    if not ordered:
        return Spread(0, 0.0, 0.0, 0.0)
    last = len(ordered) - 1
    return Spread(len(ordered), ordered[last // 2], ordered[round(last * 0.99)], ordered[last])


def outcomes(found: Evidence) -> Counter[Outcome]:
    """How many puts ended how, as the producer knows it."""
    return Counter(put.outcome for put in found.puts)


def repairs(found: Evidence) -> dict[str, int]:
    """How often the worker had to put something right, by kind."""
    return {name: sum(counts.get(name, 0) for counts in found.counts.values()) for name in REPAIRS}


def faults(found: Evidence) -> Mapping[str, int]:
    """How many faults of each kind there were."""
    return Counter(each.kind for each in found.meanwhile.done)


def fail_points(found: Evidence) -> set[str]:
    """At which fail points a worker died."""
    return {mark.removeprefix(DIED) for mark in found.meanwhile.marks if mark.startswith(DIED)}


def dead_reasons(found: Evidence) -> Mapping[str, int]:
    """How many requests are dead, by reason."""
    return Counter(each["reason"] for each in found.dead)


def extra_calls(found: Evidence) -> float:
    """The share of calls that were repeated although the courier had answered the one before.

    Only numbers that were asked for once are looked at: every call of theirs after the first whole
    answer is one that an injected fault caused. In percent of these numbers' calls.
    """
    asked = Counter((put.wish.slug, put.wish.number) for put in found.puts)
    again = {Kind.TWICE, Kind.SAME, Kind.AGAIN, Kind.REPEATED, Kind.CROWD}
    once = {name for name, times in asked.items() if times == 1}
    once -= {(put.wish.slug, put.wish.number) for put in found.puts if put.wish.kind in again}
    answered: Counter[tuple[str, str]] = Counter()
    total = 0
    for each in found.calls:
        for name in once.intersection((each.call.slug, number) for number in each.call.numbers):
            total += 1
            answered[name] += each.call.status in (200, 404) and not each.spoiled
    return 100.0 * sum(count - 1 for count in answered.values() if count > 1) / max(1, total)


def most_in_flight(found: Evidence) -> dict[str, int]:
    """By courier, as the site saw it."""
    return {slug: judge.most_in_flight(calls) for slug, calls in _by_slug(found).items()}


def most_starts(found: Evidence) -> dict[str, int]:
    """In any second, by courier, as the site saw it."""
    return {slug: judge.most_starts_in_any_second(calls) for slug, calls in _by_slug(found).items()}


def most_starts_as_stamped(found: Evidence) -> dict[str, int]:
    """The same without the judge's allowance for stamps that the site may have taken too late."""
    return {
        slug: judge.most_starts_in_any_second(replace(call, late_ns=0) for call in calls)
        for slug, calls in _by_slug(found).items()
    }


def most_numbers(found: Evidence) -> dict[str, int]:
    """In one call, by courier that answers for several, as the site saw it."""
    several = {each.slug for each in found.scale.couriers if each.together > 1}
    return {
        slug: judge.most_numbers_in_a_call(calls)
        for slug, calls in _by_slug(found).items()
        if slug in several
    }


def stamped_late(found: Evidence) -> int:
    """How many calls arrived while the site stood still, so that their stamps may be late."""
    return sum(each.call.late_ns > 0 for each in found.calls)


def drains_recovered(found: Evidence) -> Spread:
    """After a server's or link's return: how long until couriers with a wait list are called.

    Only outages are looked at that no other one followed before the next call.
    """
    took = []
    outages = [each for each in found.meanwhile.done if each.kind.endswith(OUTAGES)]
    for slug, calls in _by_slug(found).items():
        starts = sorted(call.arrived_ns / SECOND_NS for call in calls)
        for outage in outages:
            later = bisect_left(starts, outage.ended)
            if later == len(starts) or not _waited(found, slug, outage.ended):
                continue
            calm = (
                each is outage or each.ended < outage.ended or each.began > starts[later]
                for each in outages
            )
            if all(calm):
                took.append(starts[later] - outage.ended)
    return spread(took)


def _waited(found: Evidence, slug: str, at: float) -> bool:
    looks = found.meanwhile.looks
    index = bisect_left(looks, at, key=lambda look: look.at)
    return index < len(looks) and looks[index].waiting.get(slug, 0) > 0


def _by_slug(found: Evidence) -> dict[str, list[judge.Call]]:
    calls: dict[str, list[judge.Call]] = {courier.slug: [] for courier in found.scale.couriers}
    for each in found.calls:
        if each.call.slug in calls:
            calls[each.call.slug].append(each.call)
    return calls
