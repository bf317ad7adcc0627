"""What runs beside other work of an event loop, and ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

CANCEL_SECONDS = 0.1


@asynccontextmanager
async def beside(endless: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run what never returns within the `with` block."""
    task = asyncio.create_task(endless)
    try:
        yield
    finally:
        await stopped(task)


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
