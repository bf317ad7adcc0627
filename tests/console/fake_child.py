"""A worker process that does nothing but live: `fake_child.py HOW NOTES DESCRIPTOR`.

It writes a line to the file NOTES for whatever happens to it. HOW is "well", "deaf" (does not stop
on SIGTERM), "hanging" (deaf, and never beats again), "slow" (takes 2 s to its first beat),
"refusing" (ends with 2), "refusing-later" (the third and the fourth to start end with 2), "dying"
(ends with 1, four times over, and then lives), "dying-once" or "silent-once".
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from service.observe.counts import Counts
from service.worker.supervisor.lifeline import Lifeline

DEATHS = 4
STOP_SECONDS = 2.0

how, notes, descriptor = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])


def note(what: str) -> None:
    with notes.open("a") as file:
        file.write(f"{what} {os.getpid()}\n")


def stop(*_: object) -> None:
    note("asked")
    if how not in ("deaf", "hanging"):
        note("stopped")
        sys.exit(0)


def is_first() -> bool:
    try:
        notes.with_suffix(".first").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


first = is_first()
signal.signal(signal.SIGTERM, stop)
counts = Counts()
counts.add(("tracker_repairs_total", "drain"), 3)  # whatever it may be
lifeline = Lifeline(descriptor, STOP_SECONDS, counts)
note("started")
if how == "slow":
    time.sleep(2.0)
lifeline.beat()
note("beaten")
match how:
    case "refusing":
        sys.exit(2)
    case "refusing-later" if 2 < notes.read_text().count("started") <= 4:
        sys.exit(2)
    case "dying" if notes.read_text().count("started") <= DEATHS:
        sys.exit(1)
    case "dying-once" if first:
        sys.exit(1)
silent = how == "hanging" or (how == "silent-once" and first)
if silent:
    note("silent")
deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    if not silent:
        lifeline.beat(works=True)
    time.sleep(0.05)
