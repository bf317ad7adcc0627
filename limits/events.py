"""Reads the stream of ended operations from an entry on (lua/lib/state.lua adds to it).

What comes behind an entry is complete as long as that entry is there: Redis drops the oldest ones
first, and no Redis that lost its state has one with the same id.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from redis.asyncio import Redis

from limits import keys
from limits.connect import shared_secret
from limits.failure import redis_asked
from tracking.operation import State

BLOCK_SECONDS = 2.0
"""How long one question waits for an end: shorter than a reply may take (limits/connect.py)."""

_ID = re.compile(r"(\d{1,19})-(\d{1,19})")


class EventId(NamedTuple):
    """The id of an entry: Unix ms, and its place among those of that ms, from 0."""

    ms: int
    place: int

    def __str__(self) -> str:
        return f"{self.ms}-{self.place}"


NO_EVENT = EventId(0, 0)
"""Stands before the first entry of a stream that was empty."""


class End(NamedTuple):
    """An operation ended in a state."""

    at: EventId
    operation: str
    state: State


def parse_event_id(text: str) -> EventId:
    """Read what an id says of itself. Raises ValueError."""
    if not (found := _ID.fullmatch(text)):
        raise ValueError(f"{text[:40]!r} is no id of an event")
    return EventId(int(found[1]), int(found[2]))


class EndStream:
    """Reads the stream. Every method raises LimitsDown."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def secret(self) -> str:
        """Tell the secret that all share who ask this Redis."""
        return await shared_secret(self._redis, keys.SECRET, secrets.token_hex(32))

    async def newest(self) -> EventId:
        """Tell the id of the newest end; NO_EVENT of an empty stream."""
        with redis_asked():
            found = await self._redis.xrevrange(keys.EVENTS, count=1)
        return parse_event_id(str(found[0][0])) if found else NO_EVENT

    async def after(self, at: EventId, most: int) -> Sequence[End] | None:
        """Read up to `most` ends behind an entry, oldest first; None: some may be lost.

        Behind NO_EVENT it reads whatever there is; nobody knows whether that is all.
        """
        with redis_asked():
            found = await self._redis.xrange(keys.EVENTS, min=str(at), count=most + 1)
        ends = [_end(*each) for each in found or ()]
        if at == NO_EVENT:
            return ends[:most]
        return ends[1:] if ends and ends[0].at == at else None

    async def wait(self, at: EventId) -> EventId:
        """Wait for an end behind an entry, BLOCK_SECONDS at most; tells from where to read on.

        From NO_EVENT when the stream expired, because nothing ended for an hour.
        """
        block = round(BLOCK_SECONDS * 1000)
        with redis_asked():
            if await self._redis.xread({keys.EVENTS: str(at)}, count=1, block=block):
                return at
            return at if await self._redis.exists(keys.EVENTS) else NO_EVENT


def _end(at: object, fields: Mapping[Any, Any] | None) -> End:
    [(state, operation)] = (fields or {}).items()
    return End(parse_event_id(str(at)), operation, State(state))
