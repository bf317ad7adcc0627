"""Stores away for minutes, or with lost replies: nothing is charged, nothing stranded."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from simulated.batch import live_in, live_through
from simulated.plan import Plan, SlugPlan, plan_for
from simulated.scripting import Scripting
from simulated.world import World

from service.worker.tubes.envelope import DRAINS_TUBE

AWAY, BACK = 5.0, 305.0
FOUND_OUT = AWAY + 3.0
"""Calls that ran when MongoDB went have found out, and their slots are free."""

SLUGS = tuple(SlugPlan(slug, 20, 1, 1_000_000) for slug in ("usps", "ups", "dhl"))
CALM = replace(
    plan_for(1),
    slugs=SLUGS,
    workers=2,
    concurrency=20,
    requests=120,
    producing=20.0,
    faulty=BACK + 5.0,
    call_timeout=30.0,
    lease=60.0,
    poison=0,
    rates={},
)


@dataclass(slots=True)
class Seen:
    """`drains`: jobs put while MongoDB was away, by their body. `calls` so far, by moment."""

    drains: Counter[bytes] = field(default_factory=Counter)
    calls: dict[float, int] = field(default_factory=dict)


class Absence(World):
    """A world whose MongoDB is away for five minutes."""

    def __init__(self, plan: Plan, seen: Seen) -> None:
        super().__init__(plan, Scripting())
        self._seen = seen
        self._store, self.server.put = self.server.put, self._put  # type: ignore[method-assign]
        self.loop.outside(AWAY, lambda: self._cut(self.couriers.calls))
        for moment in (FOUND_OUT, BACK):
            self.loop.outside(moment, self._count, moment)
        self.loop.outside(BACK, self.nemesis.mongodb_is_back)

    def _cut(self, calls: int) -> None:
        """MongoDB goes when the next call has begun."""
        self.nemesis.mongodb.away = self.couriers.calls > calls
        if not self.nemesis.mongodb.away:
            self.loop.outside(0.01, self._cut, calls)

    def _count(self, moment: float) -> None:
        self._seen.calls[moment] = self.couriers.calls

    def _put(self, tube: str, body: bytes, priority: int, ttr: float) -> int:
        if tube == DRAINS_TUBE and self.nemesis.mongodb.away:
            self._seen.drains[body] += 1
        return self._store(tube, body, priority, ttr)


def test_while_mongodb_is_away_for_five_minutes_nothing_begins_and_no_job_goes_round() -> None:
    seen = Seen()

    outcome = live_in(lambda: Absence(CALM, seen))

    assert outcome.breaches == ()
    assert seen.calls[FOUND_OUT] == seen.calls[BACK] > 0, "no call begins"
    assert set(seen.drains.values()) <= {1}, "at most one drain job per line"
    assert outcome.repairs["drain job put again"] == 0, "nobody had to be looked for"
    assert (outcome.repairs["repeated"], outcome.repairs["lost"]) == (0, 0), "nothing is charged"
    assert outcome.repairs["handed back"] > 0, "some ran when it went"


def test_where_only_replies_of_redis_are_lost_no_call_is_stranded() -> None:
    """Also where every repetition of the client is lost, and the flow has to try again."""
    plan = replace(CALM, seed=4, requests=60, faulty=60.0, rates={"redis: answer lost": 0.15})

    outcome = live_through(plan, Scripting())

    assert outcome.breaches == ()
    assert outcome.faults["redis: answer lost"] > 20
    assert outcome.repairs["lost"] == 0
