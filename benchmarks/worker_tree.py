"""The worker under test, as an operator starts it, and the CPU and memory that processes take."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from redis import Redis

from benchmarks.tube import DRAINS, REQUESTS, Tubes
from devstack.nursery import Nursery
from devstack.process import Process
from limits.keys import ARCHIVE_LOCKS

REPOSITORY = Path(__file__).resolve().parents[1]
READY_SECONDS = 60.0
STEP = 0.05

OPEN: Mapping[str, int] = {
    "concurrent": 1_000_000,
    "per_second": 1_000_000,
    "guard_ms": 0,
    "guard_most_ms": 0,
}
"""Limits set out of the way."""


class NotReady(Exception):
    """The worker did not begin to wait for jobs; the message holds the end of its log."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What differs between runs; all else is as it ships. `limits` overrides `[limits]`.

    `together`: how many numbers each courier answers for in one call. `sections`: more of
    config.toml, as it is written there.
    """

    slugs: Sequence[str]
    processes: int = 1
    limits: Mapping[str, int] = field(default_factory=dict)
    together: int = 1
    sections: str = ""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the worker finds everything; `allow_loss` where the servers keep nothing."""

    beanstalkd: str
    redis: str
    mongodb: str
    courier: str
    allow_loss: bool = False


@dataclass(frozen=True, slots=True)
class WorkerTree:
    """A running worker: the parent, its processes, and the one that archives."""

    pids: tuple[int, ...]
    """The parent's, then those of its processes in the order in which they began."""
    log: Path


def configuration(setting: Setting, at: Addresses) -> str:
    """Write config.toml for a run; what is not named keeps its shipped value."""
    loss = f"allow_loss = {str(at.allow_loss).lower()}"
    sections = [
        f'[beanstalkd]\nservers = ["{at.beanstalkd}"]\n{loss}',
        f'[redis]\nurl = "{at.redis}"\n{loss}',
        f'[mongodb]\nuri = "{at.mongodb}"\n{loss}',
        f"[worker]\nprocesses = {setting.processes}",
        "\n".join(["[limits]", *(f"{key} = {n}" for key, n in setting.limits.items())]),
    ]
    sections += [setting.sections] if setting.sections else []
    many = f"\nnumbers_per_call = {setting.together}" if setting.together > 1 else ""
    sections += [
        f'[couriers.{slug}]\nmodule = "json_feed"\nbase_url = "{at.courier}"{many}'
        for slug in setting.slugs
    ]
    return "\n\n".join(sections) + "\n"


@contextmanager
def running(setting: Setting, at: Addresses, tubes: Tubes, folder: Path) -> Iterator[WorkerTree]:
    """Run a worker for the length of a `with` block; it waits for jobs when the block begins.

    At the end it is killed: what it holds is thrown away together with the stores.
    """
    config = folder / "config.toml"
    config.write_text(configuration(setting, at))
    command = [sys.executable, str(REPOSITORY / "worker.py"), "--config", str(config), "run"]
    log = folder / "worker.log"
    log.unlink(missing_ok=True)
    with Nursery() as nursery, _without_settings():
        process = Process(nursery, command, log)
        process.spawn()
        if (pid := process.pid) is None:
            raise NotReady(f"the worker ended at once:\n{log.read_text()[-2000:]}")
        try:
            _wait_ready(setting.processes, process, tubes, log)
            _wait_archiving(at.redis)
            yield WorkerTree(tuple(tree(pid)), log)
        finally:
            _kill(tree(pid))
            process.kill()
            _wait_forgotten(tubes)


def _wait_ready(processes: int, process: Process, tubes: Tubes, log: Path) -> None:
    """Return when all wait for jobs, and the one that archives is there, whose CPU counts, too."""
    deadline = time.monotonic() + READY_SECONDS
    while not _is_ready(processes, process.pid, tubes):
        if process.pid is None or time.monotonic() > deadline:
            raise NotReady(f"the worker does not wait for jobs:\n{log.read_text()[-2000:]}")
        time.sleep(STEP)


def _wait_archiving(redis: str) -> None:
    """Return when the process that archives has begun: its start is no cost of any job."""
    deadline = time.monotonic() + READY_SECONDS
    with Redis.from_url(redis) as asked:
        while not asked.exists(ARCHIVE_LOCKS[0]):
            if time.monotonic() > deadline:
                raise NotReady("nobody archives")
            time.sleep(STEP)


def _is_ready(processes: int, parent: int | None, tubes: Tubes) -> bool:
    if parent is None or any(tubes.waiting(tube) < processes for tube in (REQUESTS, DRAINS)):
        return False
    return len(tree(parent)) >= 1 + processes + 1


def _wait_forgotten(tubes: Tubes) -> None:
    """Return when beanstalkd knows that the worker is gone: its waits would pass for the next's."""
    deadline = time.monotonic() + READY_SECONDS
    while any(tubes.waiting(tube) for tube in (REQUESTS, DRAINS)):
        if time.monotonic() > deadline:
            raise NotReady("connections of the last worker are still open")
        time.sleep(STEP)


def _kill(pids: Sequence[int]) -> None:
    """Kill the parent first: it would replace its processes."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def _without_settings() -> Iterator[None]:
    """Hide settings of the environment: they would win over the run's own."""
    hidden = {
        name: os.environ.pop(name) for name in tuple(os.environ) if name.startswith("TRACKER_")
    }
    try:
        yield
    finally:
        os.environ.update(hidden)


PROC = Path("/proc")
_PARENT = 1
"""Its place in /proc/PID/stat, counted behind the name, which may hold blanks and brackets."""

_CLOCK_OF_ALL_THREADS = 2


def spent(pid: int) -> float:
    """Seconds of CPU, user and system, that a living process has used with all its threads.

    By its own clock, as Linux' clock_getcpuclockid(3) names it: /proc/PID/stat counts in 10 ms, an
    eighth of what a process takes that idles for a minute.
    """
    return time.clock_gettime(~pid << 3 | _CLOCK_OF_ALL_THREADS)


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
