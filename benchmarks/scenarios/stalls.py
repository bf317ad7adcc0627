"""A courier that stands still for moments, and whether the limit is kept then.

The stub is stopped and continued in the measured window. What was sent meanwhile it sees at once
when it goes on, and no sender foresees that.
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

COLUMNS = (Column("stalls", "stalls"), *PACE)
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
    """Measure with and without stalls."""
    slugs = plan.pick(300, 50)
    spans = Spans(plan.pick(6.0, 3.0), plan.span(12.0, 5.0))
    rows = []
    with open_rig() as rig:
        ways: tuple[tuple[int, Callable[[float], None]], ...] = (
            (round(spans.measured // EVERY_SECONDS), partial(stumble, rig.courier.pid)),
            (0, time.sleep),
        )
        for stalls, spend in ways:
            plan.say(f"{stalls} stalls")
            rows.append({**limited(rig, Size(slugs, 1), spans, spend), "stalls": stalls})
    return [Table("stalls", TITLE, COLUMNS, rows, PACE_NOTE)]


SCENARIO = Scenario("stalls", "a courier that stands still for moments", run)
