"""A parent process over fake children, and what they noted."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

DRIVER = Path(__file__).with_name("drive_parent.py")
PATIENCE = 20.0


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE} s"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether the process runs; one that ended and was not reaped yet does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def _noted(notes: Path, what: str) -> list[int]:
    if not notes.exists():
        return []
    lines = [line.split() for line in notes.read_text().splitlines()]
    return [int(line[1]) for line in lines if line[0] == what and len(line) == 2]


class Family:
    """A parent and what its children noted."""

    def __init__(
        self,
        folder: Path,
        how: str,
        numbers: Mapping[str, float],
        out: int | None,
        archiver: str = "",
    ) -> None:
        """`numbers`: processes, silence, grace; `out` is where the parent logs, else a file.

        `archiver`: how the process that archives does, if there is one.
        """
        self.notes = folder / "notes"
        self.installation = str(folder)
        self.log = (folder / "log").open("w+b")
        self.parent = subprocess.Popen(
            [
                *(sys.executable, str(DRIVER), *map(str, numbers.values())),
                *(how, str(self.notes), self.installation, *([archiver] if archiver else [])),
            ],
            stdout=self.log if out is None else out,
        )

    def noted(self, what: str) -> list[int]:
        """The ids of the workers that noted it, in their order."""
        return _noted(self.notes, what)

    def archiver_noted(self, what: str) -> list[int]:
        """The same of the processes that archive."""
        return _noted(self.notes.with_name("notes-archiver"), what)

    def events(self) -> list[dict[str, Any]]:
        self.log.seek(0)
        return [json.loads(line) for line in self.log.read().splitlines()]

    def counted(self) -> dict[tuple[str, str], int]:
        """What all its children counted; once it has ended."""
        found: dict[tuple[str, str], int] = ast.literal_eval(
            self.notes.with_suffix(".counts").read_text()
        )
        return found

    def await_started(self, count: int) -> list[int]:
        until(lambda: len(self.noted("started")) >= count, f"{count} children started")
        return self.noted("started")

    def signal(self, number: signal.Signals) -> None:
        self.parent.send_signal(number)

    def exit_code(self) -> int:
        return self.parent.wait(PATIENCE)

    def end(self) -> None:
        self.parent.kill()
        self.parent.wait()
        for pid in (*self.noted("started"), *self.archiver_noted("started")):
            # A child is its own session's leader: this is no other process with its old id.
            if alive(pid) and os.getsid(pid) == pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.log.close()


Start = Callable[..., Family]
