"""What is measured: one module each, with a `SCENARIO`."""

from benchmarks.plan import Scenario
from benchmarks.scenarios import (
    archive,
    backlog,
    baseline,
    crowded,
    direct,
    door,
    idle,
    latency,
    limited,
    pages,
    rechecks,
    relay,
    scripts,
    thirty,
    unlimited,
    webhooks,
)

SCENARIOS: tuple[Scenario, ...] = (
    baseline.SCENARIO,
    unlimited.SCENARIO,
    limited.SCENARIO,
    crowded.SCENARIO,
    thirty.SCENARIO,
    latency.SCENARIO,
    direct.SCENARIO,
    backlog.SCENARIO,
    scripts.SCENARIO,
    door.SCENARIO,
    relay.SCENARIO,
    rechecks.SCENARIO,
    archive.SCENARIO,
    webhooks.SCENARIO,
    pages.SCENARIO,
    idle.SCENARIO,
)
