"""The promise about limits, a minute at a time and three times over.

As `limited`, for the sizes about which something is promised. It takes a quarter of an hour, so it
runs only when it is named: `python -m benchmarks --only held`.
"""

from __future__ import annotations

from benchmarks.plan import Plan, Scenario
from benchmarks.rig import open_rig
from benchmarks.scenarios.limited import PACE, PACE_NOTE, Size, Spans, limited
from benchmarks.table import Column, Table

SIZES = (Size(50, 1), Size(1_200, 1), Size(1_200, 2))
ROUNDS = 3
COLUMNS = (Column("round", "round"), *PACE, Column("worker_core", "worker % of a core", 1))
TITLE = "Limits in force, a minute each"


def run(plan: Plan) -> list[Table]:
    """Measure all sizes, round after round."""
    sizes = plan.pick(SIZES, SIZES[:1])
    spans = Spans(plan.pick(6.0, 3.0), plan.span(60.0, 5.0))
    rows = []
    with open_rig() as rig:
        for number in range(1, plan.pick(ROUNDS, 1) + 1):
            for size in sizes:
                plan.say(f"round {number}: {size.slugs:,} couriers, processes: {size.processes}")
                rows.append({**limited(rig, size, spans), "round": str(number)})
    return [Table("held", TITLE, COLUMNS, rows, PACE_NOTE)]


SCENARIO = Scenario("held", "the same for a minute, three times; only when named", run, named=True)
