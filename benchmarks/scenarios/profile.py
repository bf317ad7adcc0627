"""Where the time of a whole job goes: shares of samples, and what they are of its CPU."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path

from benchmarks.cpu import spent_in_kernel
from benchmarks.plan import Plan, Scenario
from benchmarks.rig import Rig, open_rig
from benchmarks.samples import NotSampled, sampling, shares
from benchmarks.scenarios.unlimited import whole_jobs
from benchmarks.table import Column, Table, Value
from benchmarks.worker_tree import REPOSITORY, WorkerTree

COLUMNS = (
    Column("part", "part"),
    Column("percent", "% of the CPU", 1),
    Column("us", "µs per job"),
)
KERNEL = "the kernel: sockets, files, threads"
NOTE = (
    "The worker process of `unlimited`, limits out of the way. CPU of a run that was not sampled: "
    "the kernel's by its own account, the rest by the shares of py-spy's samples in a second run. "
    "A sample belongs to the innermost frame outside the standard library."
)


def profile(rig: Rig, jobs: int) -> list[dict[str, Value]]:
    """Have whole jobs done twice, the second time sampled; gives a row for each part."""
    in_kernel: list[float] = []
    job_us = whole_jobs(rig, jobs, lambda worker: _kernel(worker, in_kernel))["worker_us"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "stacks"
        whole_jobs(rig, jobs, lambda worker: sampling(worker.pids[1], file))
        found = shares(file.read_text(), REPOSITORY)
    kernel_us = sum(in_kernel) / jobs * 1e6
    spent = {part: share * (job_us - kernel_us) for part, share in found.items()}
    spent[KERNEL] = kernel_us
    return [
        {"part": part, "percent": us / job_us * 100, "us": us}
        for part, us in sorted(spent.items(), key=itemgetter(1), reverse=True)
    ]


@contextmanager
def _kernel(worker: WorkerTree, told: list[float]) -> Iterator[None]:
    before = sum(map(spent_in_kernel, worker.pids))
    yield
    told.append(sum(map(spent_in_kernel, worker.pids)) - before)


def run(plan: Plan) -> list[Table]:
    """Sample one run. Where that is not allowed, the note says so instead of a table."""
    plan.say("whole jobs, not sampled and sampled")
    try:
        with open_rig() as rig:
            rows, note = profile(rig, plan.pick(20_000, 3_000)), NOTE
    except NotSampled as why:
        rows, note = [], f"Not measured: {why}."
    return [Table("profile", "Where the time of a whole job goes", COLUMNS, rows, note)]


SCENARIO = Scenario("profile", "where the time of a whole job goes", run)
