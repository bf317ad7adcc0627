"""Redis' clock leaps forward while a worker hangs: limits hold until its parent has killed it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from portion import daily
from simulated.batch import live_in
from simulated.loop import Process
from simulated.plan import LEAPS, SlugPlan, plan_for
from simulated.scripting import Scripting
from simulated.world import World

LEASE, CALL_TIMEOUT = 9.0, 3.0
LEAPT = 20.0
PLAN = replace(
    plan_for(1),
    slugs=tuple(SlugPlan(slug, 1, 3, 1_000_000) for slug in ("usps", "ups")),
    workers=3,
    concurrency=6,
    requests=40,
    producing=10.0,
    faulty=60.0,
    call_timeout=CALL_TIMEOUT,
    lease=LEASE,
    poison=0,
    shuffle=True,
    rates={"courier silent": 0.3, LEAPS: 0.0},
    services=(),
)


class Leap(World):
    """The clock leaps while a courier is silent; the worker that waits for it hangs then."""

    def __init__(self, seed: int) -> None:
        super().__init__(replace(PLAN, seed=seed), Scripting())
        self.loop.outside(3.0, self._leap)

    def _leap(self) -> None:
        began = self.loop.now - 1.0 + LEASE
        waiting = [visit for visit in self.couriers.visits if visit.lease_ends < began]
        if not waiting:
            self.loop.outside(0.1, self._leap)
            return
        self._step_clock(LEAPT)
        self.loop.outside(1.0, self._hang, waiting[0].process)

    def _hang(self, process: Process) -> None:
        silence = LEASE - CALL_TIMEOUT
        self.workers.pause(process, 10 * LEASE)
        self.loop.outside(silence, self.workers.kill, process)


@pytest.mark.parametrize("seed", daily([2, 5], 2, 4, 5, 6))
def test_a_worker_that_hangs_when_the_clock_leapt_takes_no_call_beyond_the_limit(seed: int) -> None:
    outcome = live_in(lambda: Leap(seed))

    assert outcome.breaches == ()
    assert outcome.repairs["lost"] > 0, "its calls were swept"
