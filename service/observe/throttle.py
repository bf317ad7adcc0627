"""Identical warnings thinned out: a server that is away for an hour must not fill a disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

WINDOW_SECONDS = 60.0
BURST = 10
KEYS_MOST = 1_000


@dataclass(slots=True)
class _Window:
    ends: float
    seen: int = 0


@dataclass(slots=True)
class Throttle:
    """Lets `BURST` equal lines pass per `WINDOW_SECONDS`; the next to pass counts the others.

    Lines are equal when event, slug, server and error are: the number makes no difference.
    """

    clock: Callable[[], float] = time.monotonic
    _windows: dict[tuple[object, ...], _Window] = field(default_factory=dict)

    def __len__(self) -> int:
        """Count the different lines that are remembered; at most KEYS_MOST."""
        return len(self._windows)

    def passes(self, fields: Mapping[str, Any]) -> int | None:
        """Tell how many equal lines were left out before this one; None: leave this one out too."""
        key = (
            fields.get("event"), fields.get("slug"), fields.get("server"), str(fields.get("error")),
        )  # fmt: skip
        now = self.clock()
        window = self._windows.get(key)
        if window is None or now >= window.ends:
            left_out = max(0, window.seen - BURST) if window else 0
            self._make_room(now)
            self._windows[key] = _Window(now + WINDOW_SECONDS, 1)
            return left_out
        window.seen += 1
        return 0 if window.seen <= BURST else None

    def _make_room(self, now: float) -> None:
        if len(self._windows) < KEYS_MOST:
            return
        self._windows = {key: each for key, each in self._windows.items() if each.ends > now}
        if len(self._windows) >= KEYS_MOST:
            # So many different errors at once are no repetition; better too many lines than none.
            self._windows.clear()
