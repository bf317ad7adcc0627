"""One child program that may be stopped, killed, frozen and started again."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from devstack.nursery import Nursery

STOP_PATIENCE = 10.0
"""Seconds for an orderly stop before the kill."""


class Process:
    """A command that is run any number of times, at most one run at once.

    `log` collects the output of all runs. `environment` is added to ours.
    """

    def __init__(
        self,
        nursery: Nursery,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log
        self._nursery = nursery
        self._command = command
        self._environment = environment or {}
        self._run: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id, None while it does not run."""
        if self._run is None or self._run.poll() is not None:
            return None
        return self._run.pid

    def spawn(self) -> None:
        """Start it if it does not run; returns before it is ready for anything."""
        if self.pid is None:
            self._run = self._nursery.start(self._command, self.log, self._environment)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens when it does not run."""
        if self._run is not None:
            self._run.send_signal(number)  # looks first whether it was reaped

    def stop(self) -> None:
        """Stop in order (SIGTERM), after STOP_PATIENCE by force, and wait for the end."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)  # a frozen one would not notice
        if self._run is not None:
            try:
                self._run.wait(STOP_PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """Kill (SIGKILL) and wait for the end."""
        self.signal(signal.SIGKILL)
        if self._run is not None:
            self._run.wait()
