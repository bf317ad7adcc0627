"""The child's side of the tie to its parent: a heartbeat out, the parent's end in.

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

LIVES, WORKS = b".", b"+"
"""What a beat says: the process lives; it is connected and takes jobs."""

_PR_SET_PDEATHSIG = 1


class Lifeline:
    """The tie of this process to its parent. Call `beat` from the loop that does the work."""

    def __init__(self, descriptor: int, stop_seconds: float) -> None:
        """`stop_seconds` is how long the stop may take once the parent is gone."""
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._stop_seconds = stop_seconds
        # Not the loop's to see: it may hang when the parent dies.
        threading.Thread(target=self._await_end, name="lifeline", daemon=True).start()

    def beat(self, *, works: bool = False) -> None:
        """Tell the parent that this process lives, or that it takes jobs; each beat wakes it."""
        # Full: the parent reads nothing at the moment; the beats in the pipe will do. Broken: the
        # thread has seen it.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._descriptor, WORKS if works else LIVES)

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
