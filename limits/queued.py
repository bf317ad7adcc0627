"""QUEUED: what a door has put and no worker has taken yet, for those who ask meanwhile.

A status key with an end of its own, written where there is none yet. Scripts take it for nothing,
so nobody waits for it, and it may be missing.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterable
from contextlib import suppress

from redis.asyncio import Redis

from limits import keys
from limits.beside import stopped
from limits.failure import redis_asked
from tracking.errors import LimitsBroken, LimitsDown
from tracking.operation import State

KEPT_MS = 86_400_000
"""A day, as the status of an operation that has ended."""

TOGETHER_MOST = 500
PENDING_MOST = 10_000
"""While Redis is slow or away, more are not noted at all."""


class Queued:
    """Notes requests, for one event loop, behind the back of those who put them."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._pending: deque[tuple[str, str]] = deque(maxlen=PENDING_MOST)
        self._task: asyncio.Task[None] | None = None

    def note(self, put: Iterable[tuple[str, str]]) -> None:
        """Note requests that are durable, each by its id and its parcel, `<slug>:<number>`."""
        self._pending.extend(put)
        if self._task is None:
            # It begins after this turn of the loop, so that all of the turn share a round trip.
            self._task = asyncio.create_task(self._write())

    async def aclose(self) -> None:
        """Leave the rest unnoted."""
        self._pending.clear()
        if self._task:
            await stopped(self._task)

    async def _write(self) -> None:
        try:
            while self._pending:
                some = [self._pending.popleft() for _ in self._some()]
                with suppress(LimitsBroken, LimitsDown), redis_asked():
                    await self._set(some)
        finally:
            self._task = None

    def _some(self) -> range:
        return range(min(len(self._pending), TOGETHER_MOST))

    async def _set(self, some: list[tuple[str, str]]) -> None:
        pipeline = self._redis.pipeline(transaction=False)
        for identity, parcel in some:
            text = json.dumps({"status": State.QUEUED.value, "tracking": parcel})
            pipeline.set(keys.status(identity), text, nx=True, px=KEPT_MS)
        await pipeline.execute(raise_on_error=False)
