"""The answer correction: how much later than it was sent a request may have arrived.

A courier that stands still for a moment finds what was sent meanwhile all at once. No sender
foresees that; but the answers then come late, before the lanes are asked for again. So what an
answer takes longer than the quickest one of late counts as time on the way.
"""

from __future__ import annotations

MINUTE = 60.0

IGNORED_SECONDS = 0.008
"""Less than this is any answer's own unevenness, and is covered by the guard."""


class Correction:
    """Judges the answers of one courier; a correction is `most_seconds` at most."""

    __slots__ = ("_before", "_began", "_most", "_quickest")

    def __init__(self, most_seconds: float) -> None:
        self._most = most_seconds
        self._began = 0.0
        self._quickest = self._before = float("inf")

    def of(self, sent: float, answered: float) -> float:
        """Seconds to count the request as sent later; both instants monotonic, of one request."""
        took = answered - sent
        # A courier may get slower for good: what was quick more than two minutes ago says nothing.
        if answered - self._began >= MINUTE:
            lasting = answered - self._began < 2 * MINUTE
            self._before = self._quickest if lasting else float("inf")
            self._began, self._quickest = answered, took
        self._quickest = min(self._quickest, took)
        excess = took - min(self._quickest, self._before)
        return min(excess, self._most) if excess > IGNORED_SECONDS else 0.0
