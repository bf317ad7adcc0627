"""CPU time and memory of processes, read from the kernel's own accounts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

_PARENT, _USER, _SYSTEM = 1, 11, 12
"""Places in /proc/PID/stat, counted behind the name, which may hold blanks and brackets."""


def spent(pid: int) -> float:
    """Seconds of CPU, user and system, that a living process has used with all its threads."""
    fields = _fields(pid)
    return (int(fields[_USER]) + int(fields[_SYSTEM])) / TICKS_PER_SECOND


def pss(pid: int) -> int:
    """Bytes of memory of a living process; it has its share of what several have in common."""
    rows = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("Pss:")) * 1024


def tree(pid: int) -> list[int]:
    """List a process and all its descendants that live now."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                parent = int(_fields(int(entry.name))[_PARENT])
            except OSError:
                continue  # it ended meanwhile
            children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


class Meter:
    """Reads several groups of processes at once; a group that loses a process raises OSError."""

    def __init__(self, groups: Mapping[str, Sequence[int]]) -> None:
        self._groups = groups

    def read(self) -> dict[str, float]:
        """Seconds of CPU used so far, by group."""
        return {name: sum(map(spent, pids)) for name, pids in self._groups.items()}

    def since(self, before: Mapping[str, float]) -> dict[str, float]:
        """Seconds of CPU used since an earlier reading, by group."""
        return {name: seconds - before[name] for name, seconds in self.read().items()}


def _fields(pid: int) -> list[str]:
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
