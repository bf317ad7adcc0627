"""The ends of operations: a stream in Redis, and one reader of it for all of a process.

Every end is added to the stream `tracking:events` (lua/lib/state.lua). What comes behind an entry
is complete as long as that entry is there: Redis drops the oldest ones first, and no Redis that
lost its state has one with the same id.

==================== =============================================================================
somebody             hears
==================== =============================================================================
waits (`ended`)      of the end of one operation, from the entry of the stream; from its key where
                     it ended before the reader stood somewhere, or the stream swallowed it: keys
                     are read when somebody begins to wait, and all of them every LOOK_SECONDS
listens (`listen`)   of all ends behind an entry, or that some may be lost
==================== =============================================================================

While nobody waits or listens, nothing is read.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from redis.asyncio import Redis

from limits import keys
from limits.admin.operations import iso
from limits.connect import shared_secret
from limits.failure import redis_asked
from limits.server import REPLACE, RunInBackground
from tracking.errors import LimitsBroken, LimitsDown, StoreError
from tracking.operation import ENDS, State

BLOCK_SECONDS = 2.0
"""How long one question waits for an end: shorter than a reply may take (limits/connect.py)."""

LOOK_SECONDS = 5.0
"""How often the keys of all awaited operations are read."""

AGAIN_SECONDS = 1.0
"""How long after a failure Redis is asked again."""

AT_ONCE = 500
"""Ends or keys of one read: more would keep the event loop from the others for milliseconds."""

READS_PER_SECOND, BURST_SECONDS = 200.0, 0.25
"""How often the stream is read while much ends: more reads at 2,000 ends a second would take half
a core, and nobody would hear sooner by more than 5 ms."""

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


class Read(NamedTuple):
    """What was read behind an entry; `at` is where to read on, `lost`: some may be missing."""

    ends: Sequence[End]
    at: EventId
    lost: bool = False


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
        """Give the secret that all share who ask this Redis."""
        return await shared_secret(self._redis, keys.SECRET, secrets.token_hex(32))

    async def newest(self) -> EventId:
        """Give the id of the newest end; NO_EVENT of an empty stream."""
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

    async def next(self, at: EventId, most: int) -> Read:
        """Wait for ends behind an entry, BLOCK_SECONDS at most.

        Goes on from NO_EVENT when the stream expired, because nothing ended for an hour.
        """
        with redis_asked():
            asked = self._redis.pipeline(transaction=False)
            asked.xread({keys.EVENTS: str(at)}, count=most, block=round(BLOCK_SECONDS * 1000))
            asked.xrange(keys.EVENTS, min=str(at), max=str(at))
            asked.exists(keys.EVENTS)
            found, there, exists = await asked.execute()
        ends = [_end(*each) for _, entries in found or () for each in entries]
        lost = not there and at != NO_EVENT
        if ends:
            return Read(ends, ends[-1].at, lost)
        if lost and exists:
            return Read((), await self.newest(), lost)
        return Read((), at if exists else NO_EVENT)


def _end(at: object, fields: Mapping[Any, Any] | None) -> End:
    [(state, operation)] = (fields or {}).items()
    return End(parse_event_id(str(at)), operation, State(state))


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    """Somebody who waits. `gone` says whether nobody will read the answer."""

    resolved: asyncio.Future[bool]
    gone: Callable[[], bool]

    def resolve(self, *, ended: bool) -> None:
        if not self.resolved.done():
            self.resolved.set_result(ended)


class Ends:
    """The reader of a process, for one event loop."""

    def __init__(
        self, redis: Redis, blocking: Redis, broken: Callable[[LimitsBroken], None] = lambda _: None
    ) -> None:
        """`blocking` is kept by the question for the next end; `broken` hears of broken keys."""
        self.stream = EndStream(blocking)
        self._redis = redis
        self._broken = broken
        self._waiters: dict[str, set[_Waiter]] = {}
        self._doubtful: set[str] = set()
        """Operations that may have ended before the reader stood somewhere."""
        self._hear: Callable[[Read], None] | None = None
        self._at: EventId | None = None
        """All that stands behind it is still to be read; None while nothing is read."""
        self._wanted, self._to_look = asyncio.Event(), asyncio.Event()
        self._look_all_at = self._read_at = 0.0

    async def ended(self, operation: str, seconds: float, gone: Callable[[], bool]) -> bool:
        """Wait until an operation ends, for so many seconds at most; it need not be known yet.

        False: it has not ended, its waiter has `gone`, or all were released.
        """
        waiter = _Waiter(asyncio.get_running_loop().create_future(), gone)
        others = self._waiters.setdefault(operation, set())
        others.add(waiter)
        self._wanted.set()
        if self._at is not None and len(others) == 1:
            self._doubt(operation)
        try:
            async with asyncio.timeout(seconds):
                return await waiter.resolved
        except TimeoutError:
            return False
        finally:
            others.discard(waiter)
            if not others and self._waiters.get(operation) is others:
                del self._waiters[operation]

    def listen(self, at: EventId, hear: Callable[[Read], None]) -> EventId:
        """Have `hear` called with all that ends behind the entry that this gives.

        It is `at`, or a later one where the reader is past that. Only the last `hear` is called.
        """
        self._hear = hear
        self._begin(at)
        self._wanted.set()
        return max(at, self._at or at)

    def stop_listening(self) -> None:
        """Call nobody any more."""
        self._hear = None

    async def status_of(self, operation: str) -> str | None:
        """Read the status of an operation; None where Redis does not know it. Raises LimitsDown."""
        with redis_asked():
            text = await self._redis.get(keys.status(operation))
        return str(text) if text else None

    async def note_reply(self, operation: str) -> None:
        """Note with an operation that its end was answered just now, unless that is noted.

        One that has not ended, or that Redis does not know any more, stays as it is.
        """
        key = keys.status(operation)
        with redis_asked():
            seconds, micros = await self._redis.time()
            noted = iso(int(seconds) * 1000 + int(micros) // 1000)
            text = str(await self._redis.get(key) or "{}")
            read = json.loads(text)
            if read.get("status") in ENDS and "repliedAt" not in read:
                told = f'{text[:-1]},"repliedAt":"{noted}"}}'
                # Not where it was archived or forgotten meanwhile.
                await self._redis.eval(REPLACE, 1, key, text, told)

    def release(self) -> None:
        """Let all go who wait now, because the process ends."""
        for waiter in [each for some in self._waiters.values() for each in some]:
            waiter.resolve(ended=False)

    async def read(self) -> None:
        """Read the stream while somebody waits or listens; never returns."""
        await self._again_and_again(self._read)

    async def look(self) -> None:
        """Read the keys of operations that somebody waits for; never returns."""
        await self._again_and_again(self._look)

    async def _again_and_again(self, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await step()
            except LimitsBroken as error:
                self._broken(error)
                await asyncio.sleep(AGAIN_SECONDS)
            except LimitsDown:
                # Waiters are answered by the next question, or when their time is over.
                await asyncio.sleep(AGAIN_SECONDS)

    async def _read(self) -> None:
        if not (self._waiters or self._hear):
            self._at = None
            self._wanted.clear()
        await self._wanted.wait()
        if self._at is None:
            self._begin(await self.stream.newest())
        assert self._at is not None  # noqa: S101 - it has begun
        read = await self.stream.next(self._at, AT_ONCE)
        self._at = read.at
        for each in read.ends:
            self._resolve(each.operation)
        if read.lost:
            self._doubt(*self._waiters)
        if self._hear:
            self._hear(read)
        if read.ends:
            await self._keep_pace()

    async def _keep_pace(self) -> None:
        now = asyncio.get_running_loop().time()
        self._read_at = max(self._read_at, now - BURST_SECONDS) + 1 / READS_PER_SECOND
        if self._read_at > now:
            await asyncio.sleep(self._read_at - now)

    async def _look(self) -> None:
        """Read what is doubtful, and everything once in a while."""
        loop = asyncio.get_running_loop()
        if not await _set_within(self._to_look, self._look_all_at - loop.time()):
            self._let_go()
            self._doubt(*self._waiters)
            self._look_all_at = loop.time() + LOOK_SECONDS
        self._to_look.clear()
        doubtful, self._doubtful = list(self._doubtful & self._waiters.keys()), set()
        try:
            for begin in range(0, len(doubtful), AT_ONCE):
                await self._look_for(doubtful[begin : begin + AT_ONCE])
        except StoreError:
            self._doubt(*doubtful)
            raise

    async def _look_for(self, operations: Sequence[str]) -> None:
        with redis_asked():
            found = await self._redis.mget([keys.status(each) for each in operations])
        for operation, text in zip(operations, found, strict=True):
            if text and json.loads(text).get("status") in ENDS:
                self._resolve(operation)

    def _begin(self, at: EventId) -> None:
        """Read from here on, unless something is read already."""
        if self._at is None:
            self._at = at
            self._doubt(*self._waiters)

    def _doubt(self, *operations: str) -> None:
        if operations:
            self._doubtful.update(operations)
            self._to_look.set()

    def _resolve(self, operation: str) -> None:
        for waiter in self._waiters.pop(operation, ()):
            waiter.resolve(ended=True)

    def _let_go(self) -> None:
        for waiter in [each for some in self._waiters.values() for each in some]:
            if waiter.gone():
                waiter.resolve(ended=False)


@asynccontextmanager
async def hearing(
    redis: Redis,
    blocking: Redis,
    beside: RunInBackground,
    broken: Callable[[LimitsBroken], None] = lambda _: None,
) -> AsyncIterator[Ends]:
    """Hear of ends within the `with` block."""
    ends = Ends(redis, blocking, broken)
    async with beside("ends", ends.read), beside("looks", ends.look):
        yield ends


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
