"""When the site itself was kept from looking: a busy machine must not look like a broken limit."""

from __future__ import annotations

import selectors
import time
from collections import deque
from itertools import pairwise

LOOK_SECONDS = 0.005
LOOKS = 5
"""One more than the loop looks from a connection's arrival to its first byte."""

STALL_NS = round(2 * LOOK_SECONDS * 1_000_000_000)
"""From one look to the next it takes half of this when nothing keeps the loop from looking."""


class Attention(selectors.DefaultSelector):
    """A selector that looks at least every LOOK_SECONDS, and knows when it could not."""

    def __init__(self) -> None:
        super().__init__()
        self._looks = deque([time.monotonic_ns()] * LOOKS, LOOKS)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Look, for a moment only; the loop comes again."""
        self._looks.append(time.monotonic_ns())
        return super().select(LOOK_SECONDS if timeout is None else min(timeout, LOOK_SECONDS))

    def late_ns(self, arrived_ns: int) -> int:
        """How long before `arrived_ns` that may have arrived; 0 unless the loop stalled."""
        looks = [*self._looks, arrived_ns]
        stalled = any(later - earlier > STALL_NS for earlier, later in pairwise(looks))
        return arrived_ns - looks[0] if stalled else 0
