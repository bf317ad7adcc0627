"""The child's side of the tie to its parent: a heartbeat out, the parent's end in.

============================ ================================================================
what happens                 what follows
============================ ================================================================
the child's loop hangs       no beat; the parent kills it
the parent dies              the child gets one SIGTERM, and stops in good order: from the
                             kernel, or where that cannot be had, from the beat that finds the
                             pipe broken. Never from both: the second would mean "at once"
its stop takes too long then the kernel ends it (SIGALRM): no parent is there any more to do so
============================ ================================================================
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

LIVES, WORKS = b".", b"+"
"""What a beat says: the process lives; it is connected and takes jobs."""

_PR_SET_PDEATHSIG = 1


class Lifeline:
    """The tie of this process to its parent. Call `beat` from the loop that does the work."""

    def __init__(self, descriptor: int, parent: int, stop_seconds: float) -> None:
        """`stop_seconds` is how long the stop may take once the parent is gone."""
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._stop_seconds = stop_seconds
        self._broken = False
        self._told_by_kernel = end_with(parent)

    def beat(self, *, works: bool = False) -> None:
        """Tell the parent that this process lives, or that it takes jobs; each beat wakes it."""
        if self._broken:
            return
        try:
            os.write(self._descriptor, WORKS if works else LIVES)
        except BlockingIOError:
            # The parent reads nothing at the moment; the beats in the pipe will do.
            return
        except BrokenPipeError:
            self._broken = True
            signal.setitimer(signal.ITIMER_REAL, self._stop_seconds)
            if not self._told_by_kernel:
                os.kill(os.getpid(), signal.SIGTERM)


def end_with(parent: int) -> bool:
    """Get a SIGTERM when the process `parent`, which started this one, dies, or is dead already.

    False where the kernel cannot do that: then nobody tells.
    """
    told = (
        sys.platform == "linux"
        and ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) == 0
    )
    # It may have died before the kernel knew that we want to be told.
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)
        return True
    return bool(told)
