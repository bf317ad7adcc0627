"""A child process, as its parent sees it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

from service.observe.counts import Counts
from service.worker.supervisor.lifeline import LIVES, WORKS

PIPE_BYTES = 65_536
"""What a pipe holds: one read takes all that is there."""

_BEATS = frozenset({LIVES, WORKS})


@dataclass(slots=True)
class Child:
    """A running process and its signs of life. Times are of `time.monotonic()`."""

    process: subprocess.Popen[bytes]
    beats: int
    """Where its heartbeats arrive: a descriptor that never blocks."""
    started: float
    last_beat: float
    beaten: bool = False
    works: bool = False
    """Whether it said that it is connected and does its work."""
    unread: bytes = b""

    def listen(self, counts: Counts) -> bool:
        """Take what heartbeats and counts there are; false when there will be no more."""
        try:
            read = os.read(self.beats, PIPE_BYTES)
        except BlockingIOError:
            return True
        if not read:
            return False
        *lines, self.unread = (self.unread + read).split(b"\n")
        self.last_beat = time.monotonic()
        self.beaten = True
        self.works = self.works or WORKS in lines
        counts.take(b"\n".join(line for line in lines if line not in _BEATS))
        return True

    def ask_to_stop(self) -> None:
        """Ask it to finish or hand back what it holds. An ended process is none to ask."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once; works on a stopped process too."""
        self.process.kill()

    def close(self) -> None:
        """Let go of the descriptor; only after it ended."""
        os.close(self.beats)


def start(command: Sequence[str]) -> Child:
    """Start a process. The descriptor for its beats is appended to its arguments.

    It gets a session of its own: Ctrl-C on a terminal reaches the parent only, which passes it on
    once. Otherwise the child would see two signals, and the second means "at once".
    """
    beats, theirs = os.pipe()
    os.set_blocking(beats, False)
    try:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [*command, str(theirs)],
            pass_fds=(theirs,),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    except BaseException:
        os.close(beats)
        raise
    finally:
        os.close(theirs)
    now = time.monotonic()
    return Child(process, beats, started=now, last_beat=now)
