"""A courier that stands still for moments: what the answer correction does, and what it costs.

The stub is stopped and continued in the measured window. What was sent meanwhile it sees at once
when it goes on, and no sender foresees that; with `correction_ms` late answers move later starts.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial

from benchmarks.plan import Plan, Scenario
from benchmarks.rig import open_rig
from benchmarks.scenarios.limited import PACE, PACE_NOTE, Size, Spans, limited
from benchmarks.table import Column, Table

STALL_SECONDS = 0.09
EVERY_SECONDS = 0.7
"""No part of the second that calls of a lane are apart: stalls meet every phase of it."""

COLUMNS = (Column("correction_ms", "correction_ms"), Column("stalls", "stalls"), *PACE)
TITLE = f"A courier that stands still for {STALL_SECONDS * 1000:.0f} ms now and then"


def stumble(pid: int, seconds: float) -> None:
    """Let `seconds` go by, in which the process `pid` is stopped again and again for a moment."""
    end = time.monotonic() + seconds
    while time.monotonic() + EVERY_SECONDS < end:
        time.sleep(EVERY_SECONDS - STALL_SECONDS)
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(STALL_SECONDS)
        finally:
            os.kill(pid, signal.SIGCONT)
    time.sleep(max(0.0, end - time.monotonic()))


def run(plan: Plan) -> list[Table]:
    """Measure without and with the correction: with stalls, then what it costs alone."""
    slugs = plan.pick(300, 50)
    spans = Spans(plan.pick(6.0, 3.0), plan.span(12.0, 5.0))
    rows = []
    with open_rig() as rig:
        stumbling = partial(stumble, rig.courier.pid)
        ways: tuple[tuple[int, Callable[[float], None]], ...] = (
            (0, stumbling),
            (100, stumbling),
            (0, time.sleep),
            (100, time.sleep),
        )
        for correction_ms, spend in ways:
            stalls = round(spans.measured // EVERY_SECONDS) if spend is stumbling else 0
            plan.say(f"{stalls} stalls, correction_ms = {correction_ms}")
            row = limited(rig, Size(slugs, 1, correction_ms), spans, spend)
            rows.append({**row, "stalls": stalls})
    return [Table("stalls", TITLE, COLUMNS, rows, PACE_NOTE)]


SCENARIO = Scenario("stalls", "a courier that stands still, with and without correction", run)
