"""What runs beside other work of an event loop, and ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

CANCEL_SECONDS = 0.1

Beside = Callable[[str, Callable[[], Awaitable[None]]], AbstractAsyncContextManager[None]]
"""Runs what never returns, under a name for people, within the `with` block.

Its giver sees to it that what ends all the same is noticed, and begun again.
"""


async def stopped(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks until they have ended.

    Once is not enough: with Python 3.11 `asyncio.wait_for`, which redis-py sends with, swallows a
    cancellation that comes when it is done.
    """
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=CANCEL_SECONDS)
