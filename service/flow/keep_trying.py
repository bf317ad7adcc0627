"""Retries a step until its store is back: what is in hand must not be lost meanwhile."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tracking.errors import AWAY

T = TypeVar("T")

FIRST_WAIT_SECONDS = 0.05
LONGEST_WAIT_SECONDS = 2.0
"""After a server's return traffic goes on within this time."""


async def keep_trying(step: Callable[[], Awaitable[T]], until: float = float("inf")) -> T:
    """Repeat `step` while a server is away. Every step of the flow may be repeated.

    `until` is on the clock of `time.monotonic()`; after it the last error is raised. Any other
    error, as that of a script, is a defect: it is raised at once.
    """
    wait = FIRST_WAIT_SECONDS
    while True:
        try:
            return await step()
        except AWAY:
            if time.monotonic() + wait > until:
                raise
        await asyncio.sleep(wait * (0.5 + random.random() / 2))
        wait = min(wait * 2, LONGEST_WAIT_SECONDS)
