"""What is judged once everything is quiet: nothing lost, nothing left, the newest kept."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from limits_invariants import lead_of

from service.worker.tubes.envelope import REQUESTS_TUBE
from simulated.courier import POISON, REFUSED, Couriers
from simulated.hooks import HookJudge
from simulated.keyspace import Hash, Keyspace
from simulated.mongodb import Collections
from simulated.operator_hands import Operator
from simulated.patches import BEGAN
from simulated.plan import Plan
from simulated.producer import Asked, Producer
from simulated.stumbling import STUMBLED_OVER
from simulated.tubes import Stands, TubeServer
from simulated.watch import Watch

NEVER = -BEGAN
RECHECKED = "R0"
A_CHECK = "a check"
LEFT = (
    *("wait_list", "wait_list_automatic", "wait_later", "wait_requests"),
    *("wait_inflight", "calls_leases"),
)

CLOCKS_APART = 1.0
"""Seconds between the world's clock and Redis', and more."""


@dataclass(slots=True)
class Judge:
    """Compares what was asked for with what there is.

    `stepped_back` is by how much Redis' clock did, in seconds: so much older an answer may look.
    """

    plan: Plan
    producer: Producer
    server: TubeServer
    collections: Collections
    space: Keyspace
    watch: Watch
    couriers: Couriers
    operator: Operator
    hooks: HookJudge
    stepped_back: float = 0.0

    def breaches(self) -> Iterator[tuple[str, str]]:
        """Everything that is not as promised."""
        for asked in self.producer.asked:
            if not self._is_answered(asked):
                yield "I1", f"lost: {asked}"
        yield from self._lost_by_hand()
        yield from self._left_in_redis()
        yield from self._overtaken()
        for number, times in self.couriers.poisoned.items():
            if times > self.plan.deaths + 1 + self._halvings():
                yield "I9", f"{number} killed {times} workers ({self.plan.deaths} deaths)"
        for name in self._unchecked():
            yield "I1", f"never looked at again: {name}"
        yield from self.hooks.breaches()

    def _halvings(self) -> int:
        """How many workers a number may kill in company, of which no death is counted."""
        return max(math.ceil(math.log2(each.together)) for each in self.plan.slugs)

    def unquiet(self) -> str:
        """What still moves or waits, or "" when nothing does."""
        self.space.tick()
        if self.producer.to_come:
            return f"{self.producer.to_come} requests to be put"
        hopeless = set(self.plan.hopeless)
        if calls := [
            each for each in self.couriers.visits if not hopeless.issuperset(each.numbers)
        ]:
            return f"{len(calls)} calls run"
        # What asks for a line to be drained goes round while somebody waits there for ever.
        if left := self.server.unfinished(REQUESTS_TUBE if self.plan.hopeless else None):
            return f"{left} jobs in the tubes"
        for slug in self.plan.slugs:
            for kind in LEFT:
                if self._left_of(kind, slug.slug):
                    return f"{kind}:{slug.slug} is not empty"
        if told := self.hooks.unquiet():
            return told
        unchecked = list(self._unchecked())
        return f"{A_CHECK} of {unchecked[0]} is due" if unchecked else ""

    def _is_hopeless(self, number: str) -> bool:
        """Whether no end is waited for, in a world with numbers that never succeed.

        Its lines stand for up to an hour while nothing else is asked; a number that kills who asks
        needs several turns after that, and so may a re-check.
        """
        hopeless = self.plan.hopeless
        return bool(hopeless) and (number in hopeless or number.startswith((POISON, RECHECKED)))

    def _left_of(self, kind: str, slug: str) -> bool:
        """Whether a key of a courier holds more than what never succeeds."""
        found = self.space.find(f"{kind}:{slug}") or ()
        if not self.plan.hopeless:
            return bool(found)
        calls = self.space.of(Hash, f"wait_inflight:{slug}") or {}
        beside = {call for name, call in calls.items() if self._is_hopeless(name.removeprefix("="))}
        beside |= {f"#{lead_of(call)}" for call in beside}
        named = {each for each in map(str, found) if each not in {"", "!relist", *beside}}
        return not all(self._is_hopeless(each.removeprefix("=")) for each in named)

    def _is_kept(self, asked: Asked) -> bool:
        """Whether it is for a number that never succeeds, and still waits or runs."""
        if not self._is_hopeless(asked.number) or asked.id in self.watch.ended:
            return False
        waits = self.space.of(Hash, f"wait_requests:{asked.slug}") or {}
        runs = self.space.of(Hash, f"wait_inflight:{asked.slug}") or {}
        return asked.number in waits or f"={asked.number}" in runs

    def _is_answered(self, asked: Asked) -> bool:
        is_recorded = f"job-{asked.job}" in self.collections.dead
        if self._is_kept(asked):
            return True
        if asked.malformed:
            job = self.server.jobs.get(asked.job)
            return is_recorded and job is not None and job.stands is Stands.BURIED
        if is_recorded or asked.number.startswith(STUMBLED_OVER):
            return is_recorded  # too many waited, another parcel's id, or poison
        cancelled = (asked.slug, asked.number) in self.operator.cancelled
        if asked.id is None:
            ended = self.watch.ended.get(f"{asked.slug}:{asked.number}:job-{asked.job}")
            cancelled |= asked.automatic and ended == "CANCELLED"  # no room, or too late
            return asked.expires or cancelled or self._is_stored(asked.slug, asked.number, asked)
        return self._has_ended(asked, cancelled=cancelled)

    def _has_ended(self, asked: Asked, *, cancelled: bool) -> bool:
        """Whether the operation of its id ended as it may, and for this parcel."""
        same = [each for each in self._everybody() if each.id == asked.id]
        taken = [each for each in same if f"job-{each.job}" not in self.collections.dead]
        if len({(each.slug, each.number) for each in taken if each in self.producer.asked}) > 1:
            return False  # one id for two parcels, and both were taken
        match self.watch.ended.get(asked.id):
            case "SUCCESS":
                # One operation: it ended by the answer that any of its jobs was content with.
                return any(self._is_stored(asked.slug, asked.number, each) for each in same)
            case "CANCELLED":
                # A newer AUTOMATIC one supersedes it, and it takes but the room that is left.
                return cancelled or any(each.expires or each.automatic for each in same)
        ended = asked.id in self.watch.ended
        return ended and self._is_refused(asked.slug, asked.number)

    def _everybody(self) -> list[Asked]:
        return [*self.producer.asked, *self.producer.unacknowledged]

    def _is_stored(self, slug: str, number: str, asked: Asked) -> bool:
        since = asked.at - asked.max_age - CLOCKS_APART - self.stepped_back
        return self._observed(f"{slug}:{number}") >= since or self._is_refused(slug, number)

    def _observed(self, name: str) -> float:
        """When the stored answer was asked for, on the world's clock."""
        document = self.collections.tracking.get(name)
        return NEVER if document is None else document["observed_us"] / 1_000_000 - BEGAN

    def _is_refused(self, slug: str, number: str) -> bool:
        document = self.collections.tracking.get(f"{slug}:{number}")
        if number.startswith(REFUSED) and document and document["error"] is not None:
            return True
        letters = self.collections.dead.values()
        return any(letter.slug == slug and letter.number == number for letter in letters)

    def _lost_by_hand(self) -> Iterator[tuple[str, str]]:
        if not self.watch.listed:
            return
        for slug, pushed in self.operator.pushed.items():
            for number, at in pushed.items():
                if not self._is_stored(slug, number, Asked(0, at, slug, number)):
                    yield "I1", f"lost: {number}, pushed by hand"

    def _left_in_redis(self) -> Iterator[tuple[str, str]]:
        self.space.tick()
        for slug in self.plan.slugs:
            calls = self.space.text(f"calls_number:{slug.slug}")
            if calls and not self.plan.hopeless:
                yield "I4", f"calls_number:{slug.slug} is {calls} when nothing runs"
        if (counted := self.watch.counted()) != len(self.watch.ended):
            yield "I8", f"{counted} operations counted, {len(self.watch.ended)} ended"

    def _overtaken(self) -> Iterator[tuple[str, str]]:
        for name, (granted_us, mark) in self.collections.newest.items():
            document = self.collections.tracking[name]
            if document["observed_us"] != granted_us:
                yield "I8", f"{name} does not hold its newest answer"
            elif mark and document["checkpoints"][-1]["message"] != mark:
                yield "I8", f"{name} holds the content of another answer than its newest"

    def _unchecked(self) -> Iterator[str]:
        """Parcels whose check was due from the beginning, and that were never asked about."""
        for name, document in self.collections.tracking.items():
            if not document["tracking_number"].startswith(RECHECKED) or self.plan.hopeless:
                continue
            refused = self._is_refused(document["slug"], document["tracking_number"])
            if self._observed(name) < -self.stepped_back - CLOCKS_APART and not refused:
                yield name
