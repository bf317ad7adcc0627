"""What is measured: one module each, with a `SCENARIO`."""

from benchmarks.plan import Scenario
from benchmarks.scenarios import (
    archive,
    backlog,
    baseline,
    crowded,
    door,
    held,
    hot_slug,
    idle,
    latency,
    limited,
    operations,
    profile,
    purge,
    puts,
    rechecks,
    scripts,
    stalls,
    unlimited,
)

SCENARIOS: tuple[Scenario, ...] = (
    baseline.SCENARIO,
    unlimited.SCENARIO,
    profile.SCENARIO,
    limited.SCENARIO,
    crowded.SCENARIO,
    stalls.SCENARIO,
    hot_slug.SCENARIO,
    latency.SCENARIO,
    backlog.SCENARIO,
    scripts.SCENARIO,
    puts.SCENARIO,
    door.SCENARIO,
    operations.SCENARIO,
    rechecks.SCENARIO,
    archive.SCENARIO,
    idle.SCENARIO,
    held.SCENARIO,
    purge.SCENARIO,
)
