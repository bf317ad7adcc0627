"""A parent over fake children.

`drive_parent.py PROCESSES SILENCE GRACE HOW NOTES INSTALLATION [ARCHIVER]`. ARCHIVER: how the one
that archives does, with notes of its own; without it there is none.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from service.observe.counts import Counts
from service.observe.log import emitter, lines
from service.worker.supervisor.parent import Parent, Plan

processes, silence, grace, how, notes, installation, *archiver = sys.argv[1:]
child = [sys.executable, str(Path(__file__).with_name("fake_child.py"))]
plan = Plan(
    command=[*child, how, notes],
    archiver=[*child, *archiver, f"{notes}-archiver"] if archiver else [],
    processes=int(processes),
    silence=float(silence),
    grace=float(grace),
    installation=installation,
    margin=0.1,
    first_delay=0.05,
    delay_cap=0.2,
)
counts = Counts()
code = Parent(plan, emitter("info", lines("json"), counts.of_events()), counts).run()
Path(notes).with_suffix(".counts").write_text(repr(counts.sums))
sys.exit(code)
