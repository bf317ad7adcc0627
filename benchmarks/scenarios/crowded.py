"""A tube with 100,000 jobs of 1,200 couriers, and one job of a lone courier behind them all.

Admitting them and calling the couriers share one core, so this is the hardest moment of a worker:
the rate is measured from soon after the tube is opened until the last job has left it. The lone
job tells how long a courier nobody else waits for has to wait behind the others' jobs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from statistics import fmean

from benchmarks.pace import Window, judge
from benchmarks.plan import Column, Plan, Scenario, Table, Value
from benchmarks.rig import Rig, open_rig, slugs
from benchmarks.scenarios.baseline import bare_loop
from benchmarks.scenarios.limited import ALLOWED, DELAY_MS, PAUSED
from benchmarks.tube import REQUESTS, TubeError, request, requests
from benchmarks.worker_tree import Setting
from devstack.judge import Call

COLUMNS = (
    Column("jobs", "jobs in the tube"),
    Column("slugs", "slugs"),
    Column("seconds", "s until empty", 1),
    Column("rate", "rate then", 3),
    Column("over", "slugs over"),
    Column("proven", "proven"),
    Column("late_ms", "late ms", 1),
    Column("late_p99_ms", "late p99 ms", 1),
    Column("worker_us", "worker µs each"),
    Column("loop_s", "loop calls/s"),
    Column("kept", "calls/s kept", 2),
    Column("lone_s", "lone call after s", 1),
)
NOTE = (
    "Shipped settings, one process. Rate then, slugs over, late: as with the limits in force, "
    "while jobs lay in the tube, from the third second on. Worker: its CPU by the jobs that left "
    "the tube and the calls that were made, together. Lone: the arrival of the call for the one "
    "job behind all others, from the instant at which the tube was opened. Loop: the bare loop "
    "right before and right after; kept: calls/s meanwhile by the loop's. What bounds this row is "
    "one core, so a slow machine shows in both."
)
WARM_UP_SECONDS = 2.0
LOOK_SECONDS = 0.1
PATIENCE = 300.0
LONE = "bench-lone"
LOOP_CALLS = 10_000


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many couriers, and how many jobs of each lie in the tube."""

    slugs: int
    each: int


FULL, QUICK = Crowd(1_200, 84), Crowd(400, 60)
ROUNDS = 3


def crowded(rig: Rig, crowd: Crowd) -> dict[str, Value]:
    """Open a full tube; gives a row."""
    names = slugs(crowd.slugs)
    rig.clean(DELAY_MS)
    rig.tubes.pause(REQUESTS, PAUSED)
    with rig.worker(Setting((*names, LONE))) as worker:
        jobs = chain(requests(names, crowd.each), [request(LONE, "N000000000")])
        put = rig.tubes.put(REQUESTS, jobs)
        meter = rig.meter(worker)
        cpu, opened = meter.read(), time.monotonic_ns()
        rig.tubes.pause(REQUESTS, 0)
        _wait_until_admitted(rig)
        emptied, used = time.monotonic_ns(), meter.since(cpu)
        calls = _with_lone_call(rig)
    window = Window(opened + round(WARM_UP_SECONDS * 1e9), emptied)
    crowd_calls = [call for call in calls if call.slug != LONE]
    lone_ns = min(call.arrived_ns for call in calls if call.slug == LONE)
    done = put + sum(call.arrived_ns < emptied for call in calls)
    pace = judge(crowd_calls, window, ALLOWED, crowd.slugs)
    return {
        **asdict(pace),
        "calls_s": pace.calls / window.seconds,
        "jobs": put,
        "slugs": crowd.slugs,
        "seconds": (emptied - opened) / 1e9,
        "lone_s": (lone_ns - opened) / 1e9,
        **{f"{name}_us": seconds / done * 1e6 for name, seconds in used.items()},
    }


def beside_the_loop(rig: Rig, crowd: Crowd) -> dict[str, Value]:
    """Open a full tube between two runs of the bare loop; gives a row."""
    before = bare_loop(rig.courier, LOOP_CALLS)["per_second"]
    row = crowded(rig, crowd)
    rig.courier.reset()
    loop_s = fmean((before, bare_loop(rig.courier, LOOP_CALLS)["per_second"]))
    return {**row, "loop_s": loop_s, "kept": float(row["calls_s"] or 0) / loop_s}


def _wait_until_admitted(rig: Rig) -> None:
    """Return when no job waits in the tube; those of running calls are still reserved."""
    deadline = time.monotonic() + PATIENCE
    while ready := rig.tubes.stats(REQUESTS).get("current-jobs-ready", 0):
        if time.monotonic() > deadline:
            raise TubeError(f"{ready} jobs are not admitted after {PATIENCE:g} s")
        time.sleep(LOOK_SECONDS)


def _with_lone_call(rig: Rig) -> Sequence[Call]:
    """All calls, once the lone courier was called."""
    deadline = time.monotonic() + PATIENCE
    while True:
        calls = rig.courier.calls()
        if any(call.slug == LONE for call in calls):
            return calls
        if time.monotonic() > deadline:
            raise TubeError(f"the lone courier is not called after {PATIENCE:g} s")
        time.sleep(1.0)


def run(plan: Plan) -> list[Table]:
    """Measure, several times in a full run."""
    crowd = plan.pick(FULL, QUICK)
    rows = []
    with open_rig() as rig:
        for number in range(1, plan.pick(ROUNDS, 1) + 1):
            plan.say(f"round {number}: {crowd.slugs * crowd.each:,} jobs in the tube")
            rows.append(beside_the_loop(rig, crowd))
    return [Table("crowded", "A full tube", COLUMNS, rows, NOTE)]


SCENARIO = Scenario("crowded", "1,200 couriers and one more behind 100,000 jobs", run)
