"""The table at the end of a run, for a terminal and for docs/reliability.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos import deliveries, measures, outage, recovery
from chaos.evidence import Evidence
from chaos.producer import Outcome
from chaos.recovery import Recovery
from chaos.verdict import ENDS, Breach
from chaos.wishes import Kind
from service.worker.wiring.failpoints import DeliveryPoint, FailPoint

BEGIN, END = "<!-- {}:begin -->", "<!-- {}:end -->"

SHOWN = 10
"""Couriers that are told one by one."""

Row = tuple[str, str]


def rows(found: Evidence, breaches: Sequence[Breach]) -> list[Row]:
    """The run in lines of name and figure."""
    outcomes = measures.outcomes(found)
    lost = sum(breach.invariant == "I1" for breach in breaches)
    couriers = found.scale.couriers
    concurrent = {each.slug: each.concurrent for each in couriers}
    per_second = {each.slug: each.per_second for each in couriers}
    together = {each.slug: each.together for each in couriers}
    twice = sum("times" in breach.what for breach in breaches if breach.invariant == "I8")
    return [
        ("requests acknowledged", f"{outcomes[Outcome.ACKNOWLEDGED]:,}"),
        ("requests of unknown fate", f"{outcomes[Outcome.UNKNOWN]:,}"),
        ("faults", f"{len(found.meanwhile.done):,} of {len(measures.faults(found))} kinds"),
        ("fail points that killed", _reached(found)),
        ("calls at the couriers", f"{len(found.calls):,}"),
        ("numbers in them", f"{sum(len(each.call.numbers) for each in found.calls):,}"),
        ("results stored", f"{len(found.documents):,}"),
        (
            "operations with an id that ended",
            f"{sum(map(ENDS.__contains__, found.states.values())):,}",
        ),
        ("operations archived", f"{sum(map(len, (found.archived or {}).values())):,}"),
        ("dead, by reason", _listed(measures.dead_reasons(found))),
        ("lost", str(lost)),
        *_lost_with_redis(found),
        *_poison(found),
        *deliveries.rows(found),
        ("stored twice", str(twice)),
        ("most calls in flight (allowed)", _limited(measures.most_in_flight(found), concurrent)),
        ("most starts in any second (allowed)", _limited(measures.most_starts(found), per_second)),
        ("the same as stamped", _limited(measures.most_starts_as_stamped(found), per_second)),
        ("most numbers in a call (allowed)", _limited(measures.most_numbers(found), together)),
        ("calls stamped late by a busy site", str(measures.stamped_late(found))),
        ("calls repeated needlessly", f"{measures.extra_calls(found):.1f} %"),
        *((what, _recovered(each, within)) for what, _, each, within in recovery.promised(found)),
        *(row for each in outage.outages(found) for row in each.rows()),
        ("each waiting courier is called after an outage", str(measures.drains_recovered(found))),
        ("quiet after the last fault", f"{found.quiet_seconds:.1f} s"),
        ("repairs", _listed(measures.repairs(found))),
        ("broken promises", str(len(breaches))),
    ]


def text(found: Evidence, breaches: Sequence[Breach]) -> str:
    """Everything, for a terminal."""
    shown = rows(found, breaches)
    width = max(len(name) for name, _ in shown)
    lines = [f"{name:<{width}}  {figure}" for name, figure in shown]
    lines += ["", "faults:", *(f"{count:>5}  {kind}" for kind, count in _sorted_faults(found))]
    if breaches:
        lines += ["", *(str(breach) for breach in breaches)]
        lines += ["", f"FAILED. The same again: {found.scale.command}"]
    else:
        lines += ["", f"Every promise was kept. The same again: {found.scale.command}"]
    return "\n".join(lines) + "\n"


def page(found: Evidence, breaches: Sequence[Breach], day: str) -> str:
    """The part of docs/reliability.md between its markers."""
    scale = found.scale
    size = f"Seed {scale.seed}, {scale.workers} workers, {scale.seconds:g} s of faults"
    lines = [
        f"{size}, {day}: `{scale.command}`",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {figure} |" for name, figure in rows(found, breaches)),
        "",
        "| fault | times |",
        "|---|---|",
        *(f"| {kind} | {count} |" for kind, count in _sorted_faults(found)),
    ]
    return "\n".join(lines)


def write(document: Path, part: str, kind: str) -> None:
    """Put the part between the markers of a document for runs of this kind: "chaos", "hooks"."""
    begin, end = BEGIN.format(kind), END.format(kind)
    whole = document.read_text()
    before, _, rest = whole.partition(begin)
    _, _, after = rest.partition(end)
    document.write_text(f"{before}{begin}\n{part}\n{end}{after}")


def _sorted_faults(found: Evidence) -> list[tuple[str, int]]:
    return sorted(measures.faults(found).items())


def _lost_with_redis(found: Evidence) -> list[Row]:
    """What was not promised any more; only in runs that empty Redis."""
    if not found.scale.forget_redis:
        return []
    return [("numbers and operations that Redis forgot for good", str(len(found.forgotten)))]


def _poison(found: Evidence) -> list[Row]:
    """What became of the numbers that never succeed; only in runs that have them."""
    names = [put.wish.id or "" for put in found.puts if put.wish.kind is Kind.POISON]
    states = Counter(found.states.get(name, "unknown") for name in names)
    return [("numbers that never succeed", _listed(states))] if names else []


def _reached(found: Evidence) -> str:
    points = measures.fail_points(found)
    every = DeliveryPoint if found.scale.hooks else FailPoint
    missed = ", ".join(sorted(set(every) - points))
    return f"{len(points)} of {len(every)}" + (f" (not {missed})" if missed else "")


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


def _limited(most: Mapping[str, int], allowed: Mapping[str, int]) -> str:
    if not most:
        return "one"
    if len(most) <= SHOWN:
        return ", ".join(f"{slug} {count} ({allowed[slug]})" for slug, count in most.items())
    by_limit: dict[int, list[int]] = {}
    for slug, count in most.items():
        by_limit.setdefault(allowed[slug], []).append(count)
    return ", ".join(
        f"{max(counts)} ({limit}) at {_couriers(len(counts))}"
        for limit, counts in sorted(by_limit.items())
    )


def _couriers(count: int) -> str:
    return "1 courier" if count == 1 else f"{count} couriers"


def _recovered(recovered: Sequence[Recovery], within: float) -> str:
    """Durations by the clock; the same where nothing else was broken; the longest as judged."""
    took = measures.spread(each.took for each in recovered)
    if not took.count:
        return str(took)
    alone = measures.spread(each.took for each in recovered if each.is_alone)
    clear = max(each.clear for each in recovered)
    return f"{took}; alone: {alone}; judged: most {clear:.1f} of {within:g} s"
