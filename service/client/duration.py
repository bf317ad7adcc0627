"""Lengths of time as people write them. Imports nothing of weight: `--help` is instant."""

from __future__ import annotations

import math
import re

SHORTEST_SECONDS = 0.001
LONGEST_SECONDS = 3_650 * 86_400.0

_LASTS = re.compile(r"([0-9]*\.?[0-9]+)([smhd]?)")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def read_duration(text: str) -> float:
    """Read `90s` or `2h` in seconds; a bare number is seconds. Raises ValueError, for a person."""
    read = _LASTS.fullmatch(text)
    seconds = float(read[1]) * _UNITS[read[2] or "s"] if read else math.nan
    if not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
        raise ValueError(
            f"{text!r} is not a length of time: write 90s, 15m, 2h or 3d, at most ten years"
        )
    return seconds
