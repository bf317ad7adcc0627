"""What became of webhooks: judged by the receivers' log, and told in lines of a table. Pure.

Sent without a stored attempt is what a process had in flight as it was killed, or could not store
because MongoDB was away: no other call may be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from statistics import fmean

from chaos.evidence import Evidence
from chaos.faults.couriers import DESTINATIONS_DOWN
from chaos.intervals import Spell, merged
from chaos.scale import DESTINATIONS
from devstack import judge
from devstack.judge import SECOND_NS, Call, Noted

STORES_SECONDS = 1.5
"""Within which an answer is stored, and a death is noticed."""

SETTLES_SECONDS = 12.0
"""After a fault: leases of deliveries end, and sweeps and drains have gone on."""

STRETCH_SECONDS = 4.0
"""A shorter one tells too little of a rate."""

LEAST_RATE = 0.95
"""Of what is allowed; the guard takes 0.02 of it."""

SHOWN = 12
OK = 200
HEALTHY = frozenset(each.name for each in DESTINATIONS if each.is_healthy)
KEPT = frozenset({"delivered", "dead", "held"})


def breaches(found: Evidence) -> Iterator[tuple[str, str, bool]]:
    """Every promise of webhooks that was broken: invariant, what, and whether it is a time."""
    if not found.scale.hooks:
        return
    for text in islice(_lost(found), SHOWN):
        yield "I1", text, False
    calls = [call for _, made in _by_name(found) for call in made]
    for text in islice(judge.wrong_attempts(calls, found.delivered.noted), SHOWN):
        yield "I8", text, False
    if unexplained := len(doubles(found)) - len(explained(found)):
        yield "I8", f"{unexplained} attempts were made again, and nothing was killed", False
    for name, most, allowed in busiest(found):
        if most[0] > allowed[0]:
            yield "I2", f"{most[0]} attempts at once at {name}, not {allowed[0]}", False
        if most[1] > allowed[1]:
            yield "I3", f"{most[1]} attempts in a second at {name}, not {allowed[1]}", False
    rates = healthy_rates(found)
    if rates and mean_rate(rates) < LEAST_RATE:
        text = f"healthy destinations had {mean_rate(rates):.3f} of their rate"
        yield "I7", text, True


def _lost(found: Evidence) -> Iterator[str]:
    """What a destination did not hear of, and what has ended for no reason."""
    of, taken = found.delivered, _taken(found)
    have = {(each["parcel"], of.names[each["service"]]) for each in of.deliveries}
    for parcel in of.told:
        for each in DESTINATIONS:
            if (parcel, each.name) not in have:
                yield f"{each.name} does not hear of {parcel}"
    if of.untold:
        yield f"{of.untold} changes of which nobody heard"
    for each in of.deliveries:
        name, state, why = of.names[each["service"]], each["state"], each["why"]
        if state not in KEPT or (state == "dead" and not why):
            yield f"{each['_id']} to {name} is {state} {why}"
        elif state == "delivered" and each["_id"] not in taken:
            yield f"{each['_id']} to {name} is delivered, and did not arrive"
        elif name in HEALTHY and state != "delivered":
            yield f"{each['_id']} to {name}, which takes all, is {state} {why}"


def doubles(found: Evidence) -> list[Sequence[Call]]:
    """The calls for each delivery that was sent more often than attempts of it are stored."""
    noted = found.delivered.noted
    made = judge.calls_of_numbers(call for _, calls in _by_name(found) for call in calls)
    again: list[Sequence[Call]] = []
    for number, calls in made.items():
        again += [calls] * (len(calls) - noted.get(number, Noted()).attempts)
    return again


def explained(found: Evidence) -> list[Sequence[Call]]:
    """Those of them of which a call ran, or was to be stored, as something was killed."""
    return [calls for calls in doubles(found) if any(_was_killed(found, call) for call in calls)]


def in_flight_at_kills(found: Evidence) -> int:
    """How many calls ran, or were to be stored, as something was killed."""
    return sum(_was_killed(found, call) for _, calls in _by_name(found) for call in calls)


def _was_killed(found: Evidence, call: Call) -> bool:
    began = call.arrived_ns / SECOND_NS
    ended = (call.ended_ns or call.arrived_ns) / SECOND_NS + STORES_SECONDS
    if any(began <= death <= ended for death in found.meanwhile.deaths):
        return True
    away = (each for each in found.meanwhile.done if "mongodb" in each.needs)
    return any(each.began <= ended and began <= each.ended for each in away)


def healthy_rates(found: Evidence) -> list[tuple[float, float]]:
    """What healthy destinations had of their rate while nothing was broken and more waited.

    By stretch: how many seconds it took, all destinations together, and the share.
    """
    rates = list[tuple[float, float]]()
    for begin, end in undisturbed(found):
        shares = [
            judge.rate_share(inside, found.scale.service_rate)
            for name, calls in _by_name(found)
            if name in HEALTHY and (inside := _inside(found, calls, (begin, end)))
        ]
        if shares:
            rates.append(((end - begin) * len(shares), fmean(shares)))
    return rates


def mean_rate(rates: Sequence[tuple[float, float]]) -> float:
    """Weigh each stretch by its seconds."""
    return sum(seconds * share for seconds, share in rates) / sum(seconds for seconds, _ in rates)


def _inside(found: Evidence, calls: Sequence[Call], stretch: Spell) -> list[Call]:
    """The calls of a stretch, if others waited until it was over."""
    begin, end = (round(at * SECOND_NS) for at in stretch)
    if sum(each.arrived_ns >= end for each in calls) <= 2 * found.scale.service_rate:
        return []
    return [each for each in calls if begin <= each.arrived_ns < end]


def undisturbed(found: Evidence) -> list[Spell]:
    """The stretches in which nothing is broken, and all that was has settled.

    They begin when all parcels have changed: who has calls to come has deliveries that wait.
    """
    broken = merged(
        (each.began, each.ended + SETTLES_SECONDS)
        for each in found.meanwhile.done
        if each.kind != DESTINATIONS_DOWN
    )
    at, stretches = found.delivered.changed, list[Spell]()
    for began, ended in [*broken, (float("inf"), float("inf"))]:
        until = min(began, found.delivered.over)
        if until - at >= STRETCH_SECONDS:
            stretches.append((at, until))
        at = max(at, ended)
    return stretches


def busiest(found: Evidence) -> list[tuple[str, tuple[int, int], tuple[int, int]]]:
    """By destination the most attempts at once and in any second, and what its limits are."""
    return [
        (
            name,
            (judge.most_in_flight(calls), judge.most_starts_in_any_second(calls)),
            found.scale.limits_of(name),
        )
        for name, calls in _by_name(found)
    ]


def _by_name(found: Evidence) -> Iterator[tuple[str, list[Call]]]:
    """The calls that arrived at each destination."""
    calls: dict[str, list[Call]] = {each.name: [] for each in DESTINATIONS}
    for each in found.calls:
        if each.call.slug in calls:
            calls[each.call.slug].append(each.call)
    yield from calls.items()


def _taken(found: Evidence) -> set[str]:
    """The deliveries that a receiver answered with 2xx."""
    return {call.number for _, calls in _by_name(found) for call in calls if call.status == OK}


def rows(found: Evidence) -> Iterator[tuple[str, str]]:
    """The deliveries in lines of name and figure; none where nothing is delivered."""
    if not found.scale.hooks:
        return
    of = found.delivered
    states = Counter(each["state"] for each in of.deliveries)
    dead = Counter(each["why"] for each in of.deliveries if each["state"] == "dead")
    kinds = Counter(each.name.rstrip("0123456789") for each in DESTINATIONS)
    wrong = Counter(
        "at once" in each
        for each in judge.wrong_attempts(
            [call for _, calls in _by_name(found) for call in calls], of.noted
        )
    )
    rates = healthy_rates(found)
    yield "destinations of webhooks", _listed(kinds)
    yield "deliveries", f"{len(of.deliveries):,}: {_listed(states)}"
    yield "dead ones, by reason", _listed(dead)
    yield "attempts that arrived", f"{sum(len(calls) for _, calls in _by_name(found)):,}"
    again = f"{len(doubles(found))} ({in_flight_at_kills(found)})"
    yield "sent again, as something was killed soon after (of so many sent then)", again
    yield "two attempts of one delivery at once", str(wrong[True])
    yield "sent after a stored success", str(wrong[False])
    for place, what in enumerate(("at once", "in any second")):
        most = Counter[int]()
        for _, seen, allowed in busiest(found):
            most[allowed[place]] = max(most[allowed[place]], seen[place])
        told = ", ".join(f"{seen} ({allowed})" for allowed, seen in sorted(most.items()))
        yield f"most attempts {what} at a destination (allowed)", told
    if rates:
        by_stretch = ", ".join(f"{share:.3f}" for _, share in rates)
        told = f"{mean_rate(rates):.3f} (by stretch without a fault {by_stretch})"
        yield "of their rate healthy destinations had", told


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items())) or "none"
