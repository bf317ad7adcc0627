"""The site's record of every request, on its own clock."""

from __future__ import annotations

import base64
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from devstack import judge
from devstack.judge import Call
from devstack.site.behaviour import Fault
from devstack.site.shapes.reply import Asked, Kind

FOLLOWED = "followed"
"""The slug under which requests are recorded that followed a redirect or hit no address."""


@dataclass(slots=True)
class Entry:
    """One request: a call as the judge sees it, and what the site did to it.

    `kept`: what a receiver of webhooks got; None of a courier.
    """

    call: Call
    kind: Kind
    kept: Asked | None = None
    fault: Fault | None = None

    def end(self, status: int | None, ended_ns: int | None = None) -> None:
        """Note that the request is over, just now or on command; only the first time counts."""
        if self.call.ended_ns is None:
            at_ns = ended_ns or time.monotonic_ns()
            self.call = replace(self.call, ended_ns=at_ns, status=status)

    def plain(self, *, whole: bool = False) -> dict[str, object]:
        """Write the entry as JSON-able values; the `whole` of it has what was kept."""
        told = {**asdict(self.call), "kind": self.kind, "fault": self.fault}
        if whole and self.kept is not None:
            told["headers"] = {name.lower(): text for name, text in self.kept.headers.items()}
            told["body"] = base64.b64encode(self.kept.body).decode()
        return told


class Ledger:
    """All entries since the last reset, oldest first."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def begin(self, call: Call, kind: Kind, kept: Asked | None = None) -> Entry:
        """Record an arrival."""
        entry = Entry(call, kind, kept)
        self.entries.append(entry)
        return entry

    def of(self, slug: str | None) -> list[Entry]:
        """Give the entries of one slug, or all."""
        return [entry for entry in self.entries if slug in (None, entry.call.slug)]

    def summary(self, per_second: int) -> dict[str, object]:
        """Judge every courier; `per_second` is the rate that the shares refer to."""
        slugs = sorted({entry.call.slug for entry in self.entries if entry.kept is None})
        return {slug: _judged(self.of(slug), per_second) for slug in slugs}


def _judged(entries: Iterable[Entry], per_second: int) -> dict[str, object]:
    listed = list(entries)
    calls = [entry.call for entry in listed if entry.kind is Kind.CALL]
    repeats = judge.calls_per_number(calls)
    return {
        "calls": len(calls),
        "tokens": len(listed) - len(calls),
        "running": sum(call.ended_ns is None for call in calls),
        "most_in_flight": judge.most_in_flight(calls),
        "most_starts_in_any_second": judge.most_starts_in_any_second(calls),
        "rate_share": round(judge.rate_share(calls, per_second), 4),
        "numbers": len(repeats),
        "most_calls_for_one_number": max(repeats.values(), default=0),
        "most_numbers_in_a_call": judge.most_numbers_in_a_call(calls),
        "statuses": Counter(str(call.status) for call in calls),
        "faults": Counter(entry.fault for entry in listed if entry.fault),
    }
