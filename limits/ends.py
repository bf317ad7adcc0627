"""Hearing of the ends of operations that somebody waits for.

Each end is published on the channel that has the name of the operation's key (lua/lib/state.lua).
Redis keeps no message for those who are not there, so an end is looked for

- once Redis has confirmed the subscription: subscribed first, read then, nothing is missed;
- hence also after each new connection, which subscribes to all that is awaited;
- every LOOK_SECONDS, whatever a connection may have swallowed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from limits import keys
from limits.admin.operations import iso
from limits.failure import redis_asked
from limits.server import REPLACE, RunInBackground
from tracking.network import stopped
from tracking.operation import ENDS

LOOK_SECONDS = 5.0
"""How often all that is awaited is read, and the connection tried."""

SILENCE_SECONDS = 3 * LOOK_SECONDS
"""A connection that says nothing for so long, although it is asked, is dead."""

AGAIN_SECONDS = 1.0
"""How long after a failure the next connection is tried."""

AT_ONCE = 500
"""Operations of one read: more would keep the event loop from the others for milliseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """Somebody who waits. `gone` tells whether nobody will read the answer."""

    told: asyncio.Future[bool]
    gone: Callable[[], bool]

    def tell(self, *, ended: bool) -> None:
        if not self.told.done():
            self.told.set_result(ended)


class Ends:
    """What is awaited in this process, on one connection; for one event loop."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._awaited: dict[str, set[_Waiting]] = {}
        self._changed: set[str] = set()
        """Keys that came to be awaited or are awaited no more, since the last SUBSCRIBE."""
        self._doubtful: set[str] = set()
        """Keys that may have changed before they were subscribed to."""
        self._to_tell, self._to_look = asyncio.Event(), asyncio.Event()

    async def ended(self, operation: str, seconds: float, gone: Callable[[], bool]) -> bool:
        """Wait until an operation ends, for so many seconds at most; it need not be known yet.

        False: it has not ended, its waiter has `gone`, or all were released.
        """
        key = keys.status(operation)
        waiting = _Waiting(asyncio.get_running_loop().create_future(), gone)
        others = self._awaited.setdefault(key, set())
        others.add(waiting)
        if len(others) == 1:
            self._change(key)
        try:
            async with asyncio.timeout(seconds):
                return await waiting.told
        except TimeoutError:
            return False
        finally:
            others.discard(waiting)
            if not others and self._awaited.get(key) is others:
                del self._awaited[key]
                self._change(key)

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
        for waiting in [each for some in self._awaited.values() for each in some]:
            waiting.tell(ended=False)

    async def run(self) -> None:
        """Listen, over one connection after the other; never returns."""
        while True:
            try:
                await self._listen()
            except (RedisError, OSError):
                # Who waits is answered by the next connection, or when the time is over.
                await asyncio.sleep(AGAIN_SECONDS)

    async def _listen(self) -> None:
        pool = self._redis.connection_pool
        connection = await pool.get_connection()  # type: ignore[no-untyped-call] # redis-py's
        try:
            self._changed = set(self._awaited)
            self._to_tell.set()
            await _until_one_fails(
                self._subscribe(connection), self._hear(connection), self._look()
            )
        finally:
            await connection.disconnect(nowait=True)
            await pool.release(connection)

    async def _subscribe(self, connection: AbstractConnection) -> None:
        """Tell Redis what is awaited: all changes of a turn of the loop at once."""
        while True:
            if not await _set_within(self._to_tell, LOOK_SECONDS):
                await connection.send_command("PING")
            self._to_tell.clear()
            changed, self._changed = self._changed, set()
            begun = [key for key in changed if key in self._awaited]
            if begun:
                await connection.send_command("SUBSCRIBE", *begun)
            if over := changed.difference(begun):
                await connection.send_command("UNSUBSCRIBE", *over)

    async def _hear(self, connection: AbstractConnection) -> None:
        while True:
            match await connection.read_response(timeout=SILENCE_SECONDS, push_request=True):
                case ["message", str(key), _]:
                    self._end(key)
                case ["subscribe", str(key), _]:
                    self._doubtful.add(key)
                    self._to_look.set()
                case None:
                    raise TimeoutError

    async def _look(self) -> None:
        """Read what is doubtful, and everything once in a while."""
        loop = asyncio.get_running_loop()
        all_at = loop.time() + LOOK_SECONDS
        while True:
            await _set_within(self._to_look, all_at - loop.time())
            self._to_look.clear()
            doubtful, self._doubtful = list(self._doubtful), set()
            if loop.time() >= all_at:
                self._let_go()
                doubtful, all_at = list(self._awaited), loop.time() + LOOK_SECONDS
            for begin in range(0, len(doubtful), AT_ONCE):
                some = doubtful[begin : begin + AT_ONCE]
                for key, text in zip(some, await self._redis.mget(some), strict=True):
                    if text and json.loads(text).get("status") in ENDS:
                        self._end(key)

    def _end(self, key: str) -> None:
        for waiting in self._awaited.pop(key, ()):
            waiting.tell(ended=True)
        self._change(key)

    def _let_go(self) -> None:
        for waiting in [each for some in self._awaited.values() for each in some]:
            if waiting.gone():
                waiting.tell(ended=False)

    def _change(self, key: str) -> None:
        self._changed.add(key)
        self._to_tell.set()


@asynccontextmanager
async def hearing(redis: Redis, beside: RunInBackground) -> AsyncIterator[Ends]:
    """Hear of ends within the `with` block."""
    ends = Ends(redis)
    async with beside("ends", ends.run):
        yield ends


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


async def _until_one_fails(*endless: Coroutine[Any, Any, None]) -> None:
    tasks = [asyncio.create_task(each) for each in endless]
    try:
        for failed in (await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED))[0]:
            failed.result()
    finally:
        await stopped(*tasks)
