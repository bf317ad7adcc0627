"""The limits in force: every slug has a backlog, the courier answers after 200 ms.

The backlog is fed while all couriers are paused, and lasts longer than the run. Then come some
seconds of warm-up, because all slugs begin in the same instant, and then the measured window.
"Slugs over" counts the whole run, its beginning included, as the courier saw it; a courier that
stood still sees what queued meanwhile at once, so "proven" leaves out what its stalls explain.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from benchmarks.pace import Allowed, Window, judge
from benchmarks.plan import Column, Plan, Scenario, Table, Value
from benchmarks.redis_figures import traffic
from benchmarks.rig import PAUSE_MS, Rig, feed, open_rig, slugs
from benchmarks.tube import REQUESTS, requests
from benchmarks.worker_tree import Setting

SIZE = (Column("slugs", "slugs"), Column("processes", "processes"))
PACE = (
    *SIZE,
    Column("rate", "rate", 3),
    Column("share", "share", 3),
    Column("over", "slugs over"),
    Column("proven", "proven"),
    Column("worst", "worst second"),
    Column("stall_ms", "courier's stall ms", 1),
    Column("in_flight", "most in flight"),
    Column("late_ms", "late ms", 1),
    Column("late_p99_ms", "late p99 ms", 1),
)
PACE_NOTE = (
    "Rate: 1 s by the mean time from a slug's arrival k-2 to k. Slugs over: more than 2 arrivals "
    "in any half-open second of the whole run, at the instants at which the courier saw them. "
    "Proven: those of them that are over however early the calls of a stall arrived. Stall: the "
    "longest time for which the courier did not look. Late: behind the earliest allowed instant."
)
COST = (
    *SIZE,
    Column("worker_us", "worker µs"),
    Column("worker_core", "worker % of a core", 1),
    Column("beanstalkd_us", "beanstalkd µs"),
    Column("redis_us", "Redis µs"),
    Column("mongodb_us", "mongod µs"),
    Column("courier_us", "stub µs"),
    Column("scripts", "scripts", 2),
    Column("round_trips", "round trips", 2),
    Column("commands", "commands in scripts", 1),
)
COST_NOTE = (
    "CPU, and requests to Redis, per call. Scripts: EVALSHA, all that a working worker sends; "
    "scripts that travel together are one round trip."
)
DELAY_MS = 200
ALLOWED = Allowed(per_second=2, guard=0.02)
PAUSED = 3_600
SPARE_SECONDS = 3


@dataclass(frozen=True, slots=True)
class Size:
    """One run."""

    slugs: int
    processes: int


FULL = (
    *(Size(slugs, 1) for slugs in (10, 50, 300, 1_200, 2_000)),
    *(Size(slugs, 2) for slugs in (50, 1_200, 2_000, 2_400)),
    *(Size(slugs, 4) for slugs in (50, 1_200)),
)
QUICK = (Size(10, 1), Size(50, 2))


@dataclass(frozen=True, slots=True)
class Spans:
    """How long a run warms up and measures, in seconds."""

    warm_up: float
    measured: float

    @property
    def backlog(self) -> int:
        """How many requests of a slug last for the run."""
        seconds = self.warm_up + self.measured + PAUSE_MS / 1000 + SPARE_SECONDS
        return round(seconds * ALLOWED.per_second)


def limited(rig: Rig, size: Size, spans: Spans) -> dict[str, Value]:
    """Run one size; gives a row."""
    names = slugs(size.slugs)
    rig.clean(DELAY_MS)
    rig.tubes.pause(REQUESTS, PAUSED)
    with rig.worker(Setting(names, size.processes)) as worker:
        fed = feed(rig, names, requests(names, spans.backlog))
        time.sleep(PAUSE_MS / 1000 + spans.warm_up)
        meter, asked = rig.meter(worker), traffic(rig.redis)
        cpu, begin_ns = meter.read(), time.monotonic_ns()
        time.sleep(spans.measured)
        used, window = meter.since(cpu), Window(begin_ns, time.monotonic_ns())
        sent = traffic(rig.redis).since(asked)
    pace = judge(rig.courier.calls(), window, ALLOWED, size.slugs)
    calls = max(1, pace.calls)
    return {
        **asdict(size),
        **asdict(pace),
        **{f"{name}_us": seconds / calls * 1e6 for name, seconds in used.items()},
        "worker_core": used["worker"] / window.seconds * 100,
        **{name: count / calls for name, count in asdict(sent).items()},
        "fed_s": fed,
        "backlog": spans.backlog,
    }


def run(plan: Plan) -> list[Table]:
    """Measure all sizes."""
    sizes: Sequence[Size] = plan.pick(FULL, QUICK)
    spans = Spans(plan.pick(6.0, 3.0), plan.span(12.0, 5.0))
    rows = []
    with open_rig() as rig:
        for size in sizes:
            plan.say(f"{size.slugs:,} couriers, worker processes: {size.processes}")
            rows.append(limited(rig, size, spans))
    title = f"Limits in force: 2 starts a second, 20 in flight, answers after {DELAY_MS} ms"
    return [
        Table("limited", title, PACE, rows, PACE_NOTE),
        Table("limited_cost", "Limits in force: what a call costs", COST, rows, COST_NOTE),
    ]


SCENARIO = Scenario("limited", "rate and exactness with the limits in force", run)
