"""What was measured, on what, when and how: kept as JSON."""

from __future__ import annotations

import datetime as dt
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import msgspec

from benchmarks.plan import Table
from devstack import find
from devstack.errors import StackError

RESULTS = Path(__file__).parent / "results"
LAST = RESULTS / "last.json"
"""The last full run."""

PART = RESULTS / "part.json"
"""The last run that was quick, or of some scenarios only."""
LIBRARIES = ("aiohttp", "redis", "pymongo", "greenstalk", "msgspec")
_CPUINFO = Path("/proc/cpuinfo")
_MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True)
class Report:
    """All tables of one run on one machine."""

    machine: str
    versions: dict[str, str]
    command: str
    date: str
    tables: Sequence[Table] = ()
    whole: bool = True
    """Whether all scenarios were run, in their full sizes."""

    def having(self, tables: Sequence[Table]) -> Report:
        """Add tables; those of the same name are replaced."""
        merged = {table.name: table for table in (*self.tables, *tables)}
        return replace(self, tables=tuple(merged.values()))

    def table(self, name: str) -> Table | None:
        """Find a table; None when its scenario was not run."""
        return next((table for table in self.tables if table.name == name), None)

    def write(self, path: Path) -> None:
        """Keep it at `path`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self)) + b"\n")

    @classmethod
    def read(cls, path: Path) -> Report:
        """Read what `write` wrote. Raises OSError, msgspec.DecodeError."""
        return msgspec.json.decode(path.read_bytes(), type=cls)


def blank(command: str, cores: int, *, whole: bool = True) -> Report:
    """Begin a report: this machine, these versions, now."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    return Report(_machine(cores), _versions(), command, now, whole=whole)


def _machine(cores: int) -> str:
    model = _line(_CPUINFO, "model name") or platform.processor() or platform.machine()
    memory = int((_line(_MEMINFO, "MemTotal") or "0 kB").split()[0]) / 1024**2
    return f"{model}, {cores} cores used of {os.cpu_count()}, {memory:.0f} GiB, {platform.system()}"


def _line(path: Path, name: str) -> str:
    lines = (line.partition(":") for line in path.read_text().splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == name), "")


def _versions() -> dict[str, str]:
    found = {"Python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}
    for name, look in (
        ("beanstalkd", find.beanstalkd),
        ("Redis", find.redis),
        ("MongoDB", find.mongodb),
    ):
        try:
            found[name] = look().backing
        except StackError:
            found[name] = "not found"
    return found | {"commit": _commit()}


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(  # noqa: S603 - the user's own git
            command, cwd=RESULTS.parent, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return "unknown"
    return done.stdout.strip() or "unknown"
