"""What it costs to write down in MongoDB, too, what waits in Redis (`[redis] mirror`).

Without and with it in turn, so that both are measured in the same minutes of the same machine: a
tube full of requests that all have to wait, and the whole life of requests that nearly all waited.
It takes minutes, so it runs only when it is named: `python -m benchmarks --only mirror`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from benchmarks.plan import Plan, Scenario
from benchmarks.rig import DATABASE, Rig, open_rig, slugs
from benchmarks.scenarios.limited import PAUSED
from benchmarks.table import Column, Table, Value
from benchmarks.tube import REQUESTS, TubeError, request
from benchmarks.worker_tree import Setting

COLUMNS = (
    Column("what", "what"),
    Column("mirror", "mirror"),
    Column("jobs", "jobs"),
    Column("per_s", "jobs/s"),
    Column("ratio", "by those without", 2),
    Column("worker_us", "worker µs each"),
    Column("redis_us", "Redis µs each"),
    Column("mongodb_us", "mongod µs each"),
)
NOTE = (
    "One process, stores in memory, requests with an id. Parked: one call a second of each courier "
    "is allowed, so all but the first wait; until the tube is empty. Whole: four calls at once of "
    "each courier, each of 10 ms; until all are stored and archived. By those without: of the "
    "run right before."
)
SLUGS = 50
PARKED = {"concurrent": 1, "per_second": 1, "guard_ms": 0, "guard_most_ms": 0}
WHOLE = {"concurrent": 4, "per_second": 1_000_000, "guard_ms": 0, "guard_most_ms": 0}
DELAY_MS = 10.0
JOBS, QUICK_JOBS, ROUNDS = 40_000, 4_000, 3
LOOK_SECONDS, PATIENCE = 0.02, 300.0


def bodies(names: Sequence[str], jobs: int) -> Iterator[bytes]:
    """Write requests with ids, each for a number of its own, the couriers in turn."""
    for n in range(jobs):
        yield request(names[n % len(names)], f"N{n:09}", f"order-{n}")


def measured(rig: Rig, what: str, jobs: int, *, mirror: bool) -> dict[str, Value]:
    """Open a full tube to one worker; gives a row."""
    names, limits = slugs(SLUGS), PARKED if what == "parked" else WHOLE
    rig.clean(DELAY_MS)
    rig.tubes.pause(REQUESTS, PAUSED)
    with rig.worker(Setting(names, limits=limits, mirror=mirror)) as worker:
        rig.tubes.put(REQUESTS, bodies(names, jobs))
        meter = rig.meter(worker)
        before, began = meter.read(), time.perf_counter()
        rig.tubes.pause(REQUESTS, 0)
        while _left(rig, what, jobs):
            if time.perf_counter() - began > PATIENCE:
                raise TubeError(f"{_left(rig, what, jobs)} are left after {PATIENCE:g} s")
            time.sleep(LOOK_SECONDS if what == "parked" else 10 * LOOK_SECONDS)
        used, elapsed = meter.since(before), time.perf_counter() - began
    row: dict[str, Value] = {f"{name}_us": seconds / jobs * 1e6 for name, seconds in used.items()}
    told = "on" if mirror else "off"
    return {**row, "what": what, "mirror": told, "jobs": jobs, "per_s": jobs / elapsed}


def _left(rig: Rig, what: str, jobs: int) -> int:
    if what == "parked":
        return rig.tubes.left()
    operations = rig.mongodb[DATABASE]["operations"]
    return jobs - operations.count_documents({"finished_at": {"$ne": None}})


def run(plan: Plan) -> list[Table]:
    """Measure both, off and on in turn."""
    jobs, rows = plan.pick(JOBS, QUICK_JOBS), list[dict[str, Value]]()
    with open_rig() as rig:
        for what in ("parked", "whole"):
            for number in range(plan.pick(ROUNDS, 1)):
                plan.say(f"{what}, round {number + 1}: {jobs:,} jobs without and with it")
                off = measured(rig, what, jobs, mirror=False)
                on = measured(rig, what, jobs, mirror=True)
                ratio = float(on["per_s"] or 0) / float(off["per_s"] or 1)
                rows += [off, {**on, "ratio": ratio}]
    return [Table("mirror", "What waits written down twice", COLUMNS, rows, NOTE)]


SCENARIO = Scenario("mirror", "what waits written to MongoDB too; only when named", run, named=True)
