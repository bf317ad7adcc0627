"""A busy process stays on one core, as long as it has that core mostly to itself.

Its event loop and the threads that write to MongoDB take turns at one interpreter: they never run
side by side, and each turn on another core begins with cold caches. The kernel spreads them all the
same, moves the event loop about, and has it share its core with the servers beside it.

============================ ============================================================
in the last second the loop  this process
============================ ============================================================
ran little                   goes where the kernel puts it
ran much                     stays on the core where the loop is now
ran much, and waited much    goes where the kernel puts it, until the next look: somebody
                             else is on its core
============================ ============================================================

Two processes on one core so part within two seconds, and an operator's `taskset` or `cpuset` holds.
A system that does not tell how long a thread waits (all but Linux) leaves this out.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from service.observe.background import rest

THREADS = Path("/proc/self/task")

LOOK_SECONDS = 1.0
RESTING = 10
"""So many times longer a process waits for its next look that did nearly nothing since the last."""
RESTS = 0.02
"""Part of the time for which the event loop's thread runs then, at most."""

BUSY = 0.3
"""Part of the time for which the event loop's thread runs; with less there is nothing to gain."""

CROWDED = 0.4
"""Part of the time for which it could run and another does: two that want one core all the time
wait half of it each. The other threads of this process take a quarter."""


class Spent(NamedTuple):
    """A thread's times as the kernel counts them, in nanoseconds since its start."""

    ran: int
    waited: int


def should_stay(spent: Spent, seconds: float) -> bool:
    """Whether to be on one core, after a thread `spent` so much of these seconds."""
    return spent.ran >= BUSY * seconds * 1e9 and spent.waited <= CROWDED * seconds * 1e9


class OwnCore:
    """One per process; looks after all its threads. Its event loop runs in the main one."""

    def __init__(self, threads: Path = THREADS) -> None:
        self._threads = threads
        self._loop_thread = self._threads / str(os.getpid())
        self._staying: tuple[int, set[int]] | None = None
        """The core that this process stays on, and those among which it was free to go."""

    async def run(self) -> None:
        """Look once a second, at rest more seldom, until cancelled.

        Where the kernel does not tell, do nothing.
        """
        before, at, rests = self._spent(), time.monotonic(), False
        while True:
            await rest(LOOK_SECONDS * RESTING if rests else LOOK_SECONDS)
            spent, now = self._spent(), time.monotonic()
            if before and spent:
                of_late = Spent(spent.ran - before.ran, spent.waited - before.waited)
                rests = of_late.ran <= RESTS * (now - at) * 1e9
                with suppress(OSError):  # it is forbidden here
                    self.look(stay=should_stay(of_late, now - at))
            before, at = spent, now

    def look(self, *, stay: bool) -> None:
        """Stay on the event loop's core, or go where the kernel wants. Raises OSError."""
        allowed = os.sched_getaffinity(0)
        if self._staying and allowed != {self._staying[0]}:
            self._staying = None  # somebody else has decided since
        if self._staying and not stay:
            self._move_to(self._staying[1])
            self._staying = None
        elif not self._staying and stay and len(allowed) > 1:
            core = self._core()
            self._move_to({core})
            self._staying = core, allowed

    def _move_to(self, cores: set[int]) -> None:
        for thread in self._threads.iterdir():
            with suppress(ProcessLookupError):  # it has ended
                os.sched_setaffinity(int(thread.name), cores)

    def _core(self) -> int:
        # proc(5): the 39th field, counted from 1; the second may hold blanks and parentheses.
        fields = (self._loop_thread / "stat").read_text().rpartition(")")[2].split()
        return int(fields[39 - 3])

    def _spent(self) -> Spent | None:
        try:
            ran, waited, _ = (self._loop_thread / "schedstat").read_text().split()
        except (OSError, ValueError):
            return None
        return Spent(int(ran), int(waited))
