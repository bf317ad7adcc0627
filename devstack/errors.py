"""What can go wrong while real servers are found and started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tracking.errors import TrackingError

LOG_LINES_SHOWN = 15


class StackError(TrackingError):
    """Root of the errors of the development stack."""


class NotUsable(StackError):
    """One place where a program was looked for did not yield it; the message says why."""


class ServerMissing(StackError):
    """No place yielded a server's program. The message lists the places and what to install."""

    def __init__(self, server: str, tried: Sequence[str], install: str) -> None:
        places = "".join(f"\n  - {place}" for place in tried)
        super().__init__(f"no {server} was found. Tried, in this order:{places}\nFix: {install}")
        self.server = server


class ServerFailed(StackError):
    """A server did not start, or does not answer. The message ends with the tail of its log."""

    def __init__(self, server: str, what: str, log: Path | None) -> None:
        super().__init__(f"{server} {what}{_tail(log)}")
        self.server = server


def _tail(log: Path | None) -> str:
    if log is None or not log.exists():
        return ""
    lines = log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
    return f"\n--- end of {log}\n" + "\n".join(lines or ["(the log is empty)"])
