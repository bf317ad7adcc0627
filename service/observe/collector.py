"""Python's collector of cyclic garbage, which a busy process pays for with every job."""

from __future__ import annotations

import gc

THRESHOLDS = (100_000, 50, 100)


def calm_the_collector() -> None:
    """Look for cyclic garbage seldom, and never among what was made at the start.

    Nearly all garbage here goes by its reference count; the collector's defaults cost a quarter of
    the CPU of a job (`make bench`), and memory stays the same without it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
