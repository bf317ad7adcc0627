"""The child's side of the tie to its parent: a heartbeat out, the parent's end in.

============================ ================================================================
what happens                 what follows
============================ ================================================================
the child's loop hangs       no beat; the parent kills it
the parent dies              the child gets one SIGTERM, and stops in good order: from the
                             kernel, or where that cannot be had, from the beat that finds the
                             pipe broken. Never from both: the second would mean "at once"
============================ ================================================================
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


class Lifeline:
    """The tie of this process to its parent. Call `beat` from the loop that does the work."""

    def __init__(self, descriptor: int, parent: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._broken = False
        self._told_by_kernel = _end_with_parent()
        # It may have died before the kernel knew that we want to be told.
        if os.getppid() != parent:
            self._broken = True
            os.kill(os.getpid(), signal.SIGTERM)

    def beat(self) -> None:
        """Tell the parent that this process does its work; each beat wakes it."""
        if self._broken:
            return
        try:
            os.write(self._descriptor, b".")
        except BlockingIOError:
            # The parent reads nothing at the moment; the beats in the pipe will do.
            return
        except BrokenPipeError:
            self._broken = True
            if not self._told_by_kernel:
                os.kill(os.getpid(), signal.SIGTERM)


def _end_with_parent() -> bool:
    """Ask the kernel for a SIGTERM when the parent dies; false where it cannot do that."""
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM) == 0)
