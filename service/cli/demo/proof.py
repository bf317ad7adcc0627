"""The figures at the end of the demo, and whether each is what was promised. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.cli.demo.script import CONCURRENT, COPIES, FAILING, PER_SECOND, Request

Summary = Mapping[str, Mapping[str, Any]]
Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known at the end: from the producer, from MongoDB, and from the courier site."""

    put: Sequence[Request]
    stored: Sequence[Document]
    dead: Sequence[Document]
    site: Summary
    calls_for_copied: int
    killed: int
    exit_code: int


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the proof."""

    name: str
    value: str
    promised: str
    kept: bool


def lost(evidence: Evidence) -> list[Request]:
    """Requests that were acknowledged and are neither stored nor dead with a reason."""
    stored = {(each["slug"], each["tracking_number"]) for each in evidence.stored}
    dead = {(each["slug"], each["number"]) for each in evidence.dead}
    return [request for request in dict.fromkeys(evidence.put) if request not in stored | dead]


def figures(evidence: Evidence) -> Iterator[Figure]:
    """Every figure of the proof, judged."""
    wanted = set(evidence.put)
    answered = [each for each in evidence.stored if each["last_checked_at"]]
    reasons = Counter(each["reason"] for each in evidence.dead)
    malformed = [each for each in evidence.dead if each["reason"] == "bad_number"]
    failed = [each for each in evidence.dead if each["slug"] == FAILING]
    missing = lost(evidence)
    yield Figure("requests in", f"{len(evidence.put)} + 1 malformed", "", kept=True)
    yield Figure("different parcels", str(len(wanted)), "", kept=True)
    yield Figure(
        "answered and stored",
        str(len(answered)),
        f"{len(wanted) - len(failed)}",
        kept=len(answered) + len(failed) == len(wanted),
    )
    told = ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items()))
    expected = sum(slug == FAILING for slug, _ in wanted) + 1
    yield Figure(
        "dead, with reasons",
        f"{len(evidence.dead)} ({told})",
        str(expected),
        kept=len(evidence.dead) == expected and len(malformed) == 1,
    )
    yield Figure("lost", str(len(missing)), "0", kept=not missing)
    yield from _limits(evidence.site)
    calls = evidence.calls_for_copied
    yield Figure(f"calls for the number put {COPIES} times", str(calls), "1", kept=calls == 1)
    yield Figure("worker processes killed with -9", str(evidence.killed), "1", evidence.killed == 1)
    yield Figure("exit code of the worker", str(evidence.exit_code), "0", evidence.exit_code == 0)


def _limits(site: Summary) -> Iterator[Figure]:
    in_flight = max((each["most_in_flight"] for each in site.values()), default=0)
    starts = max((each["most_starts_in_any_second"] for each in site.values()), default=0)
    share = site.get("usps", {}).get("rate_share", 0.0)
    yield Figure(
        "most calls in flight",
        str(in_flight),
        f"at most {CONCURRENT}",
        kept=in_flight <= CONCURRENT,
    )
    yield Figure(
        "most starts in any second", str(starts), f"at most {PER_SECOND}", kept=starts <= PER_SECOND
    )
    yield Figure("usps' allowed rate used, in spite of the kill", f"{share:.1%}", "", kept=True)
