"""Gives ended operations to one archiver at a time (lua/archive.lua).

    lock 1   who is given work; each ask renews it
    lock 2   who may report; it outlives the first one, and in this grace nobody is given work

A process that vanishes leaves both to end by themselves; then the next one is given the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from redis.asyncio import Redis

from limits import keys
from limits.failure import redis_asked
from limits.pipeline import Pipeline, Value

WORKS_MS = 15_000
"""Three times what one write to MongoDB may take."""

REPORTS_MS = 30_000
"""An operation is archived within a minute, also when the one who archives has just vanished."""

DAY_MS, BRIEF_MS = 86_400_000, 900_000
"""How long the end of an operation is known in Redis. What has no id of its producer's can only
come back by a redelivery: it is known for minutes."""

MARK_BYTES = 512
"""What Redis holds of an operation until it is archived, about: status, and entry in the set."""


class Ended(NamedTuple):
    """An operation that ended at `at_ms`, as its key tells; `status` None: somebody deleted it."""

    id: str
    at_ms: int
    status: str | None


class Archived(NamedTuple):
    """One that MongoDB has; its status is known for `keep_ms` from its end on.

    `keep_ms` None: what stands there is not the end of an operation, and is left as it is.
    """

    ended: Ended
    keep_ms: int | None


class ToArchive:
    """The set of what is not archived. `who` asks: each process under a name of its own."""

    def __init__(self, pipeline: Pipeline, who: str) -> None:
        """`pipeline` is unconfirmed: a report that is lost with a failover is made once more."""
        self._redis = pipeline.redis
        self._pipeline = pipeline
        self._who = who

    async def ask(self, reported: Iterable[Archived], most: int) -> Sequence[Ended] | float:
        """Report what is archived, and take up to `most` more; seconds to wait when others do.

        Raises LimitsDown: repeat it as it is, then.
        """
        names = (keys.TO_ARCHIVE, *keys.ARCHIVE_LOCKS, keys.EVENTS)
        args: list[Value] = [self._who, most, WORKS_MS, REPORTS_MS]
        for (name, at_ms, _), keep_ms in reported:
            args += (name, at_ms, "" if keep_ms is None else at_ms + keep_ms)
        word, *rest = await self._pipeline.run("archive", names, args)
        if word == "wait":
            return int(rest[0]) / 1000
        given = rest[::2]
        # Read apart: a script would copy each text twice. One that changed since ended again, or is
        # another request's; its report then finds another time.
        with redis_asked():
            texts: list[Any] = await self._redis.mget(map(keys.status, given)) if given else []
        ended = zip(given, rest[1::2], texts, strict=True)
        return [Ended(name, int(at_ms), status) for name, at_ms, status in ended]


async def waiting_of(redis: Redis) -> tuple[int, float]:
    """How many operations wait to be archived, and seconds since the oldest ended (0: none waits).

    Raises LimitsDown.
    """
    with redis_asked():
        # No transaction: a full Redis may refuse all of one.
        pipeline = redis.pipeline(transaction=False)
        pipeline.zcard(keys.TO_ARCHIVE)
        pipeline.zrange(keys.TO_ARCHIVE, 0, 0, withscores=True)
        pipeline.time()
        count, oldest, (seconds, _) = await pipeline.execute()
    return count, max(0.0, seconds - oldest[0][1] / 1000) if oldest else 0.0
