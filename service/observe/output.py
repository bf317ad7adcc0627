"""Where lines go: a file descriptor that a thread writes to, so that logging never waits.

Their reader may stall: a terminal after Ctrl-S, a pager, a log driver that hangs. Lines
wait in memory then; when that is full, new ones are dropped and counted. A process that is killed
loses the lines that its thread had no time to write: those of its last milliseconds.
"""

from __future__ import annotations

import atexit
import os
import select
import threading
import time
from collections import deque

LINE_MOST = 4_096
"""What a pipe takes whole, in bytes: longer lines of several processes would mix."""

WAITING_MOST = 4 * 1024 * 1024
"""Bytes of lines that may wait: some 15,000 lines, which a busy worker logs in half a minute."""

GATHER_SECONDS = 0.005
"""Lines are gathered for so long: each time that the thread runs, it takes the interpreter from the
event loop."""

END_SECONDS = 1.0
"""How long a process that ends waits for its last lines to be read."""


class Output:
    """Takes lines of any thread, and writes them whole and in their order.

    A full disk and a closed pipe cost lines, which are counted as dropped, and nothing else.
    """

    def __init__(self, descriptor: int, most: int = WAITING_MOST) -> None:
        """`most` bytes may wait."""
        self._descriptor = descriptor
        self._most = most
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._dropped = 0
        self._thread: threading.Thread | None = None
        # Reentrant: a collection of garbage in the middle of a line may log one of its own.
        self._changed = threading.Condition(threading.RLock())

    def has_room(self) -> bool:
        """Tell whether a line may be given; one that may not counts as dropped."""
        if self._bytes < self._most:
            return True
        with self._changed:
            self._dropped += 1
        return False

    def take_dropped(self) -> int:
        """Tell how many lines were dropped since this was last asked."""
        if not self._dropped:
            return 0
        with self._changed:
            dropped, self._dropped = self._dropped, 0
            return dropped

    def write(self, line: bytes) -> None:
        """Have a line written; waits for nobody."""
        with self._changed:
            if not self._lines:
                self._changed.notify_all()  # with lines at hand the thread waits for nothing
            self._lines.append(line)
            self._bytes += len(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="log", daemon=True)
                self._thread.start()
                atexit.register(self.flush, END_SECONDS)

    def flush(self, seconds: float) -> bool:
        """Wait until all lines are written or dropped; False when that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._bytes, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._lines))
            time.sleep(GATHER_SECONDS)
            while piece := self._next_piece():
                written = _write(self._descriptor, piece)
                with self._changed:
                    self._bytes -= len(piece)
                    self._dropped += 0 if written else piece.count(b"\n")
                    self._changed.notify_all()

    def _next_piece(self) -> bytes:
        """Take as many lines as a pipe takes whole: other processes write to it too."""
        piece = b""
        with self._changed:
            while self._lines and (not piece or len(piece) + len(self._lines[0]) <= LINE_MOST):
                piece += self._lines.popleft()
        return piece


def _write(descriptor: int, piece: bytes) -> bool:
    """Write all of it, however long that takes; False when it cannot be written."""
    writable = select.poll()
    writable.register(descriptor, select.POLLOUT)
    try:
        while piece:
            try:
                piece = piece[os.write(descriptor, piece) :]
            except BlockingIOError:
                # Another process that shares the descriptor may have made it non-blocking.
                writable.poll()
    except OSError:
        return False
    return True
