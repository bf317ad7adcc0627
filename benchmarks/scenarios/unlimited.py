"""The whole job with all limits out of the way, in turn with the bare loop.

One pair is one run of the loop and one of the worker, right after each other: what else the machine
does hits both. The worker is idle and waits for jobs when the clock starts, with the first reserve;
it stops with the last delete, when every answer is stored.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.plan import Column, Plan, Scenario, Table, Value
from benchmarks.rig import Medium, Rig, open_rig, slugs
from benchmarks.scenarios.baseline import bare_loop
from benchmarks.tube import REQUESTS, requests
from benchmarks.worker_tree import OPEN, Setting
from devstack.kinds import Durability

KEPT = (
    Column("stores", "stores"),
    Column("jobs_s", "jobs/s"),
    Column("loop_s", "loop calls/s"),
    Column("rate_kept", "rate kept", 2),
    Column("worker_us", "worker µs"),
    Column("loop_us", "loop µs"),
    Column("cpu_kept", "CPU kept", 2),
)
KEPT_NOTE = (
    "Medians of the pairs. Rate kept: jobs/s by the loop's calls/s. CPU kept: the loop's CPU per "
    "call by the worker's per job, parent process included. Worker, servers, courier and loop "
    "share two cores."
)
SERVERS = (
    Column("stores", "stores"),
    Column("beanstalkd_us", "beanstalkd µs"),
    Column("redis_us", "Redis µs"),
    Column("mongodb_us", "mongod µs"),
    Column("courier_us", "stub µs"),
)
SLUGS = 50
PAUSED = 3_600


@dataclass(frozen=True, slots=True)
class Ground:
    """What the servers keep, and where. In memory, syncing to "disk" costs only the call."""

    name: str
    medium: Medium
    durability: Durability
    pairs: int


GROUNDS = (
    Ground("durable, in memory", Medium.MEMORY, Durability.FULL, 5),
    Ground("durable, on disk", Medium.DISK, Durability.FULL, 3),
    Ground("not durable, in memory", Medium.MEMORY, Durability.NONE, 3),
)


class Unfinished(Exception):
    """The tube is empty and results are missing: a fault of the worker, not a measurement."""


def whole_jobs(rig: Rig, jobs: int) -> dict[str, float]:
    """Have `jobs` requests answered: jobs per second, CPU µs per job of each process group."""
    rig.clean()
    rig.tubes.pause(REQUESTS, PAUSED)
    with rig.worker(Setting(slugs(SLUGS), limits=OPEN)) as worker:
        put = rig.tubes.put(REQUESTS, requests(slugs(SLUGS), jobs // SLUGS))
        meter = rig.meter(worker)
        before, began = meter.read(), time.perf_counter()
        rig.tubes.pause(REQUESTS, 0)
        rig.tubes.wait_until_empty()
        seconds, used = time.perf_counter() - began, meter.since(before)
    if rig.stored() != put:
        raise Unfinished(f"{put} jobs were deleted, {rig.stored()} results are stored")
    return {"jobs_s": put / seconds, **{f"{k}_us": v / put * 1e6 for k, v in used.items()}}


def pair(rig: Rig, jobs: int) -> dict[str, Value]:
    """Run the loop, then the worker."""
    rig.courier.reset()
    loop = bare_loop(rig.courier, jobs)
    work = whole_jobs(rig, jobs)
    return {
        "loop_s": loop["per_second"],
        "loop_us": loop["cpu_us"],
        "rate_kept": work["jobs_s"] / loop["per_second"],
        "cpu_kept": loop["cpu_us"] / work["worker_us"],
        **work,
    }


def medians(pairs: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
    """Take the median of every value over all pairs."""
    return {key: statistics.median(float(each[key] or 0) for each in pairs) for key in pairs[0]}


def run(plan: Plan) -> list[Table]:
    """Measure on all grounds, a quick run on the first one only."""
    jobs = plan.pick(10_000, 3_000)
    rows: list[dict[str, Value]] = []
    details: list[dict[str, Value]] = []
    for ground in plan.pick(GROUNDS, GROUNDS[:1]):
        pairs = []
        count = plan.pick(ground.pairs, 2)
        with open_rig(ground.medium, ground.durability) as rig:
            for number in range(1, count + 1):
                plan.say(f"{ground.name}, pair {number} of {count}")
                pairs.append(pair(rig, jobs))
        details += [{"stores": ground.name, **each} for each in pairs]
        rows.append({"stores": ground.name, **medians(pairs)})
    title = f"Unlimited: {jobs:,} whole jobs, one worker process"
    return [
        Table("unlimited", title, KEPT, rows, KEPT_NOTE, details),
        Table("unlimited_servers", "Unlimited: CPU of the servers per job", SERVERS, rows),
    ]


SCENARIO = Scenario("unlimited", "whole jobs with the limits out of the way", run)
