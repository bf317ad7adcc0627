"""The child's side of the tie to its parent: heartbeats and counts out, the parent's end in.

============================ ================================================================
what happens                 what follows
============================ ================================================================
the child's loop hangs       no beat; the parent kills it
the parent dies              a thread sees that the pipe of the beats is broken, and asks this
                             process once, by SIGTERM, to stop in good order
its stop takes too long,     then the kernel ends it (SIGALRM): no parent is there any more to
or its loop hangs            do so
============================ ================================================================
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import threading

from service.observe.counts import Counts

LIVES, WORKS = b".", b"+"
"""What a beat says, in a line: the process lives; it is connected and does its work. Any other line
is what it has counted."""

NEWS_SECONDS = 1.0
"""What was counted should not be old when the parent is asked for it."""

_PR_SET_PDEATHSIG = 1


class Lifeline:
    """The tie of this process to its parent. Call `beat` from the loop that does the work."""

    def __init__(self, descriptor: int, stop_seconds: float, counts: Counts | None = None) -> None:
        """`stop_seconds` is how long the stop may take once the parent is gone.

        Each beat hands `counts` over; what is counted between two makes a beat of its own.
        """
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._stop_seconds = stop_seconds
        self._counts = counts or Counts()
        self._counts.begun = self._beat_soon
        # Not the loop's to see: it may hang when the parent dies.
        threading.Thread(target=self._await_end, name="lifeline", daemon=True).start()

    def beat(self, *, works: bool = False) -> None:
        """Tell the parent that this process lives, or that it does its work; each beat wakes it."""
        # Without room the beats in the pipe will do, and what was counted goes with a later one.
        room = self._write((WORKS if works else LIVES) + b"\n")
        while room and (news := self._counts.news(select.PIPE_BUF)):
            room = self._write(news)
            if not room:
                self._counts.take(news)

    def _beat_soon(self) -> None:
        import asyncio  # noqa: PLC0415 - the parent imports this module too, and needs no event loop

        # Another thread has counted, or no loop turns yet: that goes with the next beat.
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop().call_later(NEWS_SECONDS, self.beat)

    def _write(self, line: bytes) -> bool:
        """Write all of it or nothing, as a pipe does with so little."""
        # Full: the parent reads nothing at the moment. Broken: the thread has seen it.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            return os.write(self._descriptor, line) > 0
        return False

    def _await_end(self) -> None:
        pipe = select.poll()
        pipe.register(self._descriptor, 0)  # a broken pipe is reported unasked
        pipe.poll()
        signal.setitimer(signal.ITIMER_REAL, self._stop_seconds)
        os.kill(os.getpid(), signal.SIGTERM)


def end_with(parent: int) -> None:
    """Get a SIGTERM when the process `parent`, which started this one, dies, or is dead already.

    Only Linux can do that; elsewhere nobody tells.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    # It may have died before the kernel knew that we want to hear of it.
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)
