"""A worker as its operator sees it: a process that takes signals and writes lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
Line = dict[str, Any]

STEP = 0.1
BOOT_SECONDS = 90.0
"""Until a worker is taken to hang. Eight start at once, each makes fifty indexes, and two more
processes test beside them: on a machine at a third of its speed that took more than 30 s."""

STOP_SECONDS = 30.0


def until(condition: Callable[[], T | None], seconds: float, what: str, step: float = STEP) -> T:
    """Wait for something to become true, and give what it then is."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(step)
    return found


class RunningWorker:
    """One `worker.py run`: a parent and its processes."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, processes: int) -> None:
        self.process = process
        self._log = log
        self._processes = processes
        self._lines: list[Line] = []
        self._read = 0

    @property
    def lines(self) -> list[Line]:
        """Everything that was logged so far; what is no JSON is a line of its own kind."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            for text in log:
                if not text.endswith(b"\n"):
                    break
                self._read += len(text)
                self._lines.append(_line(text))
        return self._lines

    def events(self, event: str, **fields: object) -> list[Line]:
        """The lines of one event, with these fields."""
        wanted = {"event": event, **fields}
        return [
            line
            for line in self.lines
            if all(line.get(name) == value for name, value in wanted.items())
        ]

    def misses(self, kind: str) -> bool:
        """Whether it said that a server of this kind is away."""
        return any(kind in line["server"].lower() for line in self.events("server is away"))

    def ready(self) -> RunningWorker:
        """Wait until every process takes jobs."""
        until(
            lambda: len(self.events("worker started")) >= self._processes,
            BOOT_SECONDS,
            "the worker starts",
        )
        return self

    @property
    def children(self) -> list[int]:
        """The ids of its processes that live, the workers' first."""
        dead = {line["pid"] for line in self.events("process died")}
        begun = sorted(self.events("process started"), key=lambda at: at["process"] == "archiver")
        return [line["pid"] for line in begun if line["pid"] not in dead]

    def kill_child(self, pid: int | None = None) -> int:
        """Kill one worker process (-9) and wait until its parent knows; returns its id."""
        victim = pid or self.children[0]
        os.kill(victim, signal.SIGKILL)
        until(lambda: self.events("process died", pid=victim), 10.0, "the parent notices")
        return victim

    def terminate(self) -> None:
        """Send SIGTERM and wait for nothing."""
        self.process.send_signal(signal.SIGTERM)

    def stop(self, seconds: float = STOP_SECONDS) -> int:
        """SIGTERM, if it still runs; returns the exit code."""
        if self.process.poll() is None:
            self.terminate()
        return self.process.wait(seconds)

    def vanish(self) -> None:
        """Kill everything at once (-9), as a machine that loses its power."""
        # The parent first, or it would start another.
        self.process.kill()
        self.process.wait()
        for pid in self.children:
            if _alive(pid):
                os.kill(pid, signal.SIGKILL)

    def left_behind(self) -> list[int]:
        """The processes of this worker that live although their parent has ended."""
        return [pid for pid in self.children if _alive(pid)]

    def defects(self) -> list[Line]:
        """What no run may log: tracebacks, and complaints of libraries."""
        return [
            line
            for line in self.lines
            if line["event"] in {"unexpected error", "library message", "no JSON"}
        ]


def _line(text: bytes) -> Line:
    try:
        line: Line = json.loads(text)
    except ValueError:
        return {"event": "no JSON", "text": text.decode(errors="replace")}
    return line


def _alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not reaped yet has no command line."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False
