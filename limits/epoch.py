"""Whether this Redis still knows what it knew.

A worker remembers the epoch it found at its start. When Redis comes back with another one, or with
none, it has lost its state: leases, starts, and what waited. Then nobody starts for one call
time-out, because calls may run that nobody counts any more.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from limits import keys
from limits.pipeline import Pipeline


class Epoch:
    """The name that every script is told, so that a Redis that forgot refuses it."""

    def __init__(
        self,
        pipeline: Pipeline,
        quiet_seconds: float,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        """`lost` hears of it when Redis forgot what it knew."""
        self._pipeline = pipeline
        self._lost = lost
        self._quiet_us = round(quiet_seconds * 1_000_000)
        self.name = ""
        self.losses = 0

    async def agree(self) -> bool:
        """Learn the epoch, or begin one. Returns True when the name changed. Raises LimitsDown."""
        known = self.name
        _, name, _ = await self._pipeline.run(
            "epoch", [keys.EPOCH], [known, secrets.token_hex(6), self._quiet_us]
        )
        before, self.name = self.name, str(name)
        changed = before != self.name
        # Many steps may find the loss at once; the first to come back tells it.
        if changed and known:
            self.losses += 1
            self._lost()
        return changed
