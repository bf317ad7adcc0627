"""Memory that nobody needs any more: Python's collector of garbage, and the C library's blocks.

A busy process pays for the collector with every job.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc

THRESHOLDS = (300_000, 50, 100)
"""More objects than come and go with the jobs of a full process: with 100,000 a look that found
nothing held the event loop for 85 ms, every fourth second of a full tube. Calls that fail leave
cycles, 69 objects and 9 KB each: so those take 36 MB at most."""


def calm_the_collector() -> None:
    """Look for cyclic garbage seldom, and never among what was made at the start.

    Nearly all garbage here goes by its reference count; the collector's defaults cost a quarter of
    the CPU of a job (`make bench`), and memory stays the same without it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 131_072
"""The default of glibc, which raises it by itself up to 32 MiB unless somebody sets it."""


def give_large_blocks_back() -> None:
    """Return large bodies to the system, once they are answered; elsewhere than on glibc nothing.

    Kept among small blocks they were not: 200 clients that posted 640 KB at once left 230 MB.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
