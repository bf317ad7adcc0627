"""The bare HTTP loop: what the machine gives in this minute."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.courier import REPOSITORY, Courier
from benchmarks.plan import Column, Plan, Scenario, Table, Value
from devstack.nursery import Nursery

COLUMNS = (
    Column("run", "run"),
    Column("per_second", "calls/s"),
    Column("cpu_us", "CPU µs/call", 1),
)
PATIENCE = 120.0


def bare_loop(courier: Courier, calls: int) -> dict[str, float]:
    """Run the loop in a process of its own: `per_second`, `cpu_us` per call."""
    command = [sys.executable, "-m", "benchmarks.bare_loop", courier.url, str(calls)]
    with tempfile.TemporaryDirectory() as folder, Nursery() as nursery:
        told = Path(folder) / "told"
        loop = nursery.start(command, told, {"PYTHONPATH": str(REPOSITORY)})
        if loop.wait(PATIENCE) != 0:
            raise RuntimeError(f"the bare loop ended with {loop.returncode}: {told.read_text()}")
        measured: dict[str, float] = json.loads(told.read_text())
    return measured


def run(plan: Plan) -> list[Table]:
    """Measure the loop alone: the spread of its runs is the noise of this machine."""
    calls, rounds = plan.pick(20_000, 2_000), plan.pick(5, 2)
    runs = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Nursery() as nursery,
        Courier.running(nursery, Path(folder)) as courier,
    ):
        for number in range(1, rounds + 1):
            plan.say(f"bare loop, run {number} of {rounds}")
            runs.append(bare_loop(courier, calls))
            courier.reset()
    rows: list[dict[str, Value]] = [{"run": str(n), **each} for n, each in enumerate(runs, 1)]
    rows.append({"run": "median", **{key: median(each[key] for each in runs) for key in runs[0]}})
    note = f"{calls:,} calls, 50 at once, a new URL each, no cookies, body read and decoded."
    return [Table("baseline", "Bare aiohttp loop", COLUMNS, rows, note)]


SCENARIO = Scenario("baseline", "a bare aiohttp loop", run)
