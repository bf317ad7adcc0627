"""How often a defect came up over a job, whichever worker it was: so that such a job ends.

Counted here, and not by beanstalkd: its `reserves` and `releases` count also what was handed back
in good order, when a worker stopped or had no room. A count in a worker's memory would end with it.
"""

from __future__ import annotations

from redis.asyncio import Redis
from redis.exceptions import RedisError

from limits import keys
from limits.failure import redis_down

KEEP_SECONDS = 86_400
"""A job that meets a defect comes back every second, and is given up within a minute."""


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
        pipeline.set(key, 0, ex=KEEP_SECONDS, nx=True)
        pipeline.incr(key)
        try:
            _, count = await pipeline.execute()
        except (TimeoutError, RedisError, OSError) as error:
            raise redis_down(error) from error
        return int(count) > self._most
