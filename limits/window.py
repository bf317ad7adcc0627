"""What Redis holds of lines that are windows: some thousand at most, and a store has the rest.

`Windows.counts` tells in one round trip which lines have room, and `Windows.trying` which of them
try whether they work again; `Windows.look` tells which numbers a line has, so that what is brought
in is new.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from redis.asyncio import Redis

from limits import keys
from limits.admin.pause import brake_in
from limits.failure import redis_asked
from tracking.line import Line


class Window(NamedTuple):
    """A line at one moment. `numbers`: all that wait, are repeated later or run.

    `probes`: the line failed and rests no more, so that one call alone tries whether it works.
    """

    numbers: frozenset[str]
    probes: bool = False


class Windows:
    """Reads them; changes nothing. All raise LimitsDown."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def counts(self, lines: Sequence[Line]) -> list[int]:
        """Count what each line has."""
        asked = self._redis.pipeline(transaction=False)
        for line in lines:
            names = keys.of_line(line)
            asked.hlen(names.wait_requests)
            asked.hlen(names.wait_inflight)
        with redis_asked():
            told = await asked.execute()
        # A call in flight has two fields: its record, and its number's call.
        return [waits + runs // 2 for waits, runs in zip(told[::2], told[1::2], strict=True)]

    async def trying(self, lines: Sequence[Line]) -> list[Line]:
        """List those of these lines that failed, and of which no call was answered since then."""
        if not lines:
            return []
        with redis_asked():
            brakes = await self._redis.mget([keys.of_line(line).calls_brake for line in lines])
        return [
            line for line, brake in zip(lines, brakes, strict=True) if "pauses" in brake_in(brake)
        ]

    async def look(self, line: Line) -> Window:
        """Look at one line."""
        names, asked = keys.of_line(line), self._redis.pipeline(transaction=False)
        asked.hkeys(names.wait_requests)
        asked.hkeys(names.wait_inflight)
        asked.exists(names.calls_paused, names.calls_held)
        asked.get(names.calls_brake)
        with redis_asked():
            waiting, running, stopped, brake = await asked.execute()
        runs = (field[1:] for field in running if field.startswith("="))
        return Window(frozenset(waiting).union(runs), not stopped and "pauses" in brake_in(brake))
