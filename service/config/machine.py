"""What this machine gives a process: calls in flight by open files and memory, and memory."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from service.config.schema import Worker

CALL_BYTES = 512 * 1024
"""What a call in flight costs. Measured over TLS: 316 KiB with an answer of 1.4 KB, 439 KiB with
one of 60 KB, of which 256 KiB are a buffer that asyncio keeps for each connection; then the job."""

MORE_FILES = (
    "Raise the hard limit of open files: LimitNOFILE= of systemd, --ulimit nofile= of Docker, "
    "/etc/security/limits.conf."
)
MORE_MEMORY = "Give the worker more memory, or set fewer worker.processes."

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


@dataclass(frozen=True, slots=True)
class CallBudget:
    """`calls` in flight at once, what keeps it from being more, and how to have more, in words."""

    calls: int
    bound_by: str
    fix: str


def call_budget(worker: Worker) -> CallBudget:
    """Tell what a worker process has here, once it has called `raise_open_files`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return least(worker, max(soft, min(hard, _files_wanted(worker))), memory_bytes())


def raise_open_files(worker: Worker) -> None:
    """Raise this process' soft limit of open files as far as its calls need it and it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < (raised := min(hard, _files_wanted(worker))):
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))


def kept_below(worker: Worker) -> int:
    """Tell the descriptor from which on no connection to a courier is kept after its answer.

    Of the open files that are not for calls half are for kept connections, half for our servers.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(0, (soft - worker.concurrency) // 2)


def least(worker: Worker, files: int, memory: int) -> CallBudget:
    """Judge: pure. `files` may be open in one process; `memory` (bytes) is for all processes."""
    share = memory // 2 // worker.processes
    bounds = (
        CallBudget(worker.concurrency, "worker.concurrency", "Raise worker.concurrency."),
        CallBudget(files // 2, f"half of {files:,} open files", MORE_FILES),
        CallBudget(share // CALL_BYTES, f"half of {memory // 2**20:,} MiB of memory", MORE_MEMORY),
    )
    bound = min(bounds, key=lambda each: each.calls)
    return bound if bound.calls else replace(bound, calls=1)


def memory_bytes() -> int:
    """Memory that all processes here may use: the smallest limit of our cgroups, else all."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([physical, *_cgroup_limits()])


def _files_wanted(worker: Worker) -> int:
    return 2 * worker.concurrency


def _cgroup_limits() -> Iterator[int]:
    """Limits of this process' cgroups and all above them, of both versions of cgroups.

    In a container the paths may be those of the host: then only the top is found, which is ours.
    """
    try:
        lines = OWN_CGROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            top, name = CGROUPS, "memory.max"
        elif "memory" in controllers.split(","):
            top, name = CGROUPS / "memory", "memory.limit_in_bytes"
        else:
            continue
        own = top / path.lstrip("/")
        for folder in (own, *own.parents):
            if folder.is_relative_to(top):
                yield from _limit(folder / name)


def _limit(file: Path) -> Iterator[int]:
    try:
        text = file.read_text().strip()
    except OSError:
        return
    if text.isdigit():  # cgroups 2 say "max" where there is no limit
        yield int(text)


THRESHOLDS = (300_000, 50, 100)
"""More objects than come and go with the jobs of a full process: with 100,000 a look that found
nothing held the event loop for 85 ms, every fourth second of a full tube. Calls that fail leave
cycles, 69 objects and 9 KB each: so those take 36 MB at most."""


def calm_the_collector() -> None:
    """Look for cyclic garbage seldom, and never among what is there by now.

    Call it before the imports of a process, and again once all is made that stays. Nearly all
    garbage here goes by its reference count; the collector's defaults cost a quarter of the CPU of
    a job (`make bench`) and a seventh of a start, and memory stays the same without it.
    """
    gc.set_threshold(*THRESHOLDS)
    gc.freeze()


_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 131_072
"""The default of glibc, which raises it by itself up to 32 MiB unless somebody sets it."""


def give_large_blocks_back() -> None:
    """Return large bodies to the system, once they are answered; elsewhere than on glibc nothing.

    Kept among small blocks they were not: 200 clients that posted 640 KB at once left 230 MB.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
