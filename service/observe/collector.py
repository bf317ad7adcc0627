"""Python's collector of cyclic garbage, which a busy process pays for with every job."""

from __future__ import annotations

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
