"""The reader of a worker's log, who may stall: a terminal after Ctrl-S, a log driver that hangs."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

PIPE_BYTES = 4_096
"""The least that Linux gives a pipe: a reader that stalls is soon felt."""


class LogReader:
    """Copies what one run writes to `pipe` into a file, until its last process has ended."""

    def __init__(self, pipe: Path, file: Path) -> None:
        self._pipe = pipe
        self._file = file
        self._goes_on = threading.Event()
        self._goes_on.set()
        os.mkfifo(pipe)
        # The opening of a pipe waits for its other end: this thread and the worker meet there.
        self._thread = threading.Thread(target=self._copy, name=pipe.name, daemon=True)
        self._thread.start()

    def stall(self) -> None:
        """Read nothing more, until `go_on`."""
        self._goes_on.clear()

    def go_on(self) -> None:
        """Read on."""
        self._goes_on.set()

    def close(self, seconds: float) -> None:
        """Wait for the end of what was written."""
        self.go_on()
        self._thread.join(seconds)

    def _copy(self) -> None:
        with self._pipe.open("rb") as pipe, self._file.open("ab", buffering=0) as file:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            for line in pipe:
                file.write(line)
                self._goes_on.wait()
