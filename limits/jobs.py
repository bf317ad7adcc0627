"""Notes of jobs in Redis: that a door has put one, and how often a defect came up over it.

QUEUED is the status of what a door has put and no worker has taken yet, for those who ask
meanwhile: a key with an end of its own, written where there is none yet. Scripts take it for
nothing, so nobody waits for it, and it may be missing.

Defects are counted here, and not by beanstalkd: its `reserves` and `releases` count also what was
handed back in good order, when a worker stopped or had no room. A count in a worker's memory would
end with it.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterable
from contextlib import suppress

from redis.asyncio import Redis
from redis.exceptions import RedisError

from limits import keys
from limits.failure import redis_asked, redis_down
from tracking.errors import LimitsBroken, LimitsDown
from tracking.network import stopped
from tracking.operation import State

QUEUED_KEPT_MS = 86_400_000
"""A day, as the status of an operation that has ended."""

DEFECTS_KEPT_SECONDS = 86_400
"""A job that meets a defect comes back every second, and is given up within a minute."""

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
            pipeline.set(keys.status(identity), text, nx=True, px=QUEUED_KEPT_MS)
        await pipeline.execute(raise_on_error=False)


class Defects:
    """Implements `service.ports.Defects` on Redis."""

    def __init__(self, redis: Redis, most: int) -> None:
        """`most` defects hand a job back; the next one does no more."""
        self._redis = redis
        self._most = most

    async def add(self, job_key: str) -> bool:
        """Count one more; True: too many. Raises LimitsDown: it may have been counted then."""
        key = f"{keys.DEFECTS}{job_key}"
        pipeline = self._redis.pipeline(transaction=False)
        # In this order: whatever is cut off in between, no count is without its end.
        pipeline.set(key, 0, ex=DEFECTS_KEPT_SECONDS, nx=True)
        pipeline.incr(key)
        try:
            _, count = await pipeline.execute()
        except (TimeoutError, RedisError, OSError) as error:
            raise redis_down(error) from error
        return int(count) > self._most
