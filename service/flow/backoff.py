"""When a failed call is repeated. Pure."""

from __future__ import annotations

from collections.abc import Callable


def delay(attempts: int, first: float, cap: float, draw: Callable[[], float]) -> float:
    """Seconds until the next attempt after `attempts` failed ones (1 or more).

    Exponential with full jitter: anything between 0 and `first` * 2^(attempts-1), at most `cap`, so
    that requests which failed together do not come back together. `draw` gives [0, 1).
    Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.

    >>> delay(1, first=10, cap=3600, draw=lambda: 0.5)
    5.0
    >>> delay(20, first=10, cap=3600, draw=lambda: 0.5)
    1800.0
    """
    # 2^64 seconds is beyond any cap, and the power must not overflow.
    longest = min(cap, first * 2.0 ** min(attempts - 1, 64))
    return longest * draw()
