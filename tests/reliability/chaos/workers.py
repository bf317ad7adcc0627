"""Workers as their operator sees them: processes that take signals and write lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from chaos.log_reader import LogReader
from devstack.nursery import Nursery

REPOSITORY = Path(__file__).resolve().parents[3]
STEP = 0.05
STOP_PATIENCE = 20.0
LOG_PATIENCE = 2.0

MARK = "FAULT_RUN_WORKER"
"""The variable by which a worker's processes are known."""

Line = dict[str, Any]


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for something to become true; whether it did within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(STEP)
    return True


class Worker:
    """One `worker.py run`, started any number of times; each run has a log of its own."""

    def __init__(
        self, name: str, folder: Path, nursery: Nursery, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self.starts = 0
        self.kills: list[float] = []
        """When worker processes were killed (-9), in seconds of `time.monotonic()`."""
        self._folder = folder
        self._nursery = nursery
        self._environment = environment
        self._mark = f"{folder / name}"
        self._run: subprocess.Popen[bytes] | None = None
        self._log_reader: LogReader | None = None
        self._wanted = False
        self._lock = threading.RLock()

    def start(self, failpoint: str = "") -> None:
        """Start it, armed with a fail point if one is named; nothing happens to one that runs."""
        with self._lock:
            if self._run is not None and self._run.poll() is None:
                return
            self.starts += 1
            self._wanted = True
            command = [sys.executable, str(REPOSITORY / "worker.py"), "run"]
            environment = {**self._environment, MARK: self._mark, "FAILPOINT": failpoint}
            log = self._log(self.starts)
            pipe = log.with_suffix(".pipe")
            self._log_reader = LogReader(pipe, log)
            self._run = self._nursery.start(command, pipe, environment)

    def restart_if_ended(self) -> int | None:
        """Do what a service manager does; returns the exit code, None when it runs as it should."""
        with self._lock:
            if not self._wanted or self._run is None or (code := self._run.poll()) is None:
                return None
            self.start()
            return code

    def stop(self) -> int:
        """Stop in order; returns the exit code. Raises TimeoutExpired when it does not end."""
        with self._lock:
            self._wanted = False
            if self._run is None:
                return 0
            self._run.send_signal(signal.SIGTERM)
            return self._run.wait(STOP_PATIENCE)

    def kill(self) -> None:
        """Kill the parent process (-9); its children stop in order by themselves."""
        with self._lock:
            self._wanted = False
            if self._run is not None:
                self._run.kill()
                self._run.wait()

    def end(self) -> None:
        """End everything of all runs at once, frozen or not."""
        self.kill()
        for pid in self.living(self.all_pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self._log_reader is not None:
            self._log_reader.close(LOG_PATIENCE)

    def stall_log_reader(self) -> None:
        """Read nothing more of what this run says, until `log_reader_goes_on`."""
        if self._log_reader is not None:
            self._log_reader.stall()

    def log_reader_goes_on(self) -> None:
        """Read the log again."""
        if self._log_reader is not None:
            self._log_reader.go_on()

    def signal_children(self, number: signal.Signals) -> list[int]:
        """Send a signal to the worker processes; returns their ids."""
        children = self.children
        if children and number is signal.SIGKILL:
            self.kills.append(time.monotonic())
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return children

    def signal_parent(self, number: signal.Signals) -> None:
        """Send a signal to the parent process."""
        if self._run is not None:
            self._run.send_signal(number)

    @property
    def children(self) -> list[int]:
        """The worker processes of this run that live."""
        ended = {line["pid"] for line in self.lines(self.starts, "process died")}
        begun = [line["pid"] for line in self.lines(self.starts, "process started")]
        return self.living(pid for pid in begun if pid not in ended)

    @property
    def all_pids(self) -> list[int]:
        """The worker processes of all runs."""
        return [
            line["pid"]
            for number in range(1, self.starts + 1)
            for line in self.lines(number, "process started")
        ]

    def living(self, pids: Iterable[int]) -> list[int]:
        """Those of its processes that live: an id may be somebody else's by now."""
        return [pid for pid in pids if _has(pid, f"{MARK}={self._mark}")]

    @property
    def serves(self) -> bool:
        """Whether this run has begun to take jobs."""
        return self.logged("worker started")

    @property
    def died(self) -> bool:
        """Whether a worker process of this run died unasked."""
        return self.logged("process died")

    def logged(self, event: str) -> bool:
        """Whether this run has logged an event."""
        return bool(self.lines(self.starts, event))

    def events(self) -> Counter[str]:
        """How often each event was logged, over all runs."""
        numbers = range(1, self.starts + 1)
        return Counter(str(line["event"]) for number in numbers for line in self.lines(number))

    def lines(self, run: int, event: str = "") -> list[Line]:
        """What one run logged, of one event or all; what is no JSON is a line of its own kind."""
        with suppress(FileNotFoundError):
            texts = self._log(run).read_bytes().splitlines()
            # Long logs are asked often: most lines need not be read as JSON.
            lines = [_line(text) for text in texts if event.encode() in text]
            return [line for line in lines if event in ("", line["event"])]
        return []

    def _log(self, run: int) -> Path:
        return self._folder / f"{self.name}.{run}.log"


def _has(pid: int, variable: str) -> bool:
    """Whether a process lives that has this in its environment; one not reaped yet has none."""
    try:
        return variable.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _line(text: bytes) -> Line:
    with suppress(ValueError):
        line = json.loads(text)
        if isinstance(line, dict) and "event" in line:
            return line
    return {"event": "no JSON", "text": text.decode(errors="replace")}
