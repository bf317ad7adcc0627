"""Become another program, one that the kernel kills when its starter dies.

Run as a script: `launch.py STARTER_PID PROGRAM ARGUMENT…`. A script of its own and not a
`preexec_fn`, because code between fork and exec may deadlock where the starter has threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    """Tie this process to its starter, then become the program."""
    starter, *command = sys.argv[1:]
    if not tie(int(starter), signal.SIGKILL):
        sys.exit("the starter is gone")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and exec would pass that on
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


def tie(starter: int, number: signal.Signals) -> bool:
    """Let the kernel send `number` to this process when its starter dies; false: it is dead."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    return os.getppid() == starter  # it may have died before the kernel knew


if __name__ == "__main__":
    main()
