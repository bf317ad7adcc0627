"""Runs the Lua scripts: what accumulates during one round trip goes out as one pipeline.

A caller awaits one script and reads as one step; many callers share the way to Redis and back.
Scripts travel by hash. When Redis has forgotten them (restart, SCRIPT FLUSH) they are loaded and
the ones it refused are sent again: a refused script has done nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError

from limits.clock import Clock
from tracking.errors import LimitsDown

LIBRARY = ("slug", "record", "operations", "lanes", "waiting", "flight", "turns")
"""The parts that scripts of one slug share, in the order in which they need each other."""

ALONE = ("epoch", "survey")
"""Scripts that belong to no slug and use no part of the library."""

OF_SLUG = (
    "abort",
    "admit",
    "again",
    "cancel",
    "finish",
    "requeue",
    "retry",
    "started",
    "sweep",
    "take",
)

MOST_AT_ONCE = 200
"""Scripts in one pipeline; more would make Redis deaf for others for several milliseconds."""


Notice = Callable[[Exception | None], None]


@dataclass(frozen=True, slots=True)
class Script:
    """One operation: its whole text and the hash by which Redis knows it."""

    name: str
    text: str
    sha: str


@dataclass(slots=True)
class _Waiting:
    script: Script
    keys: Sequence[str]
    args: Sequence[str | bytes | int]
    reply: asyncio.Future[Any]


def load() -> dict[str, Script]:
    """Read all scripts from the package; the shared parts are put in front of each."""
    folder = files("limits") / "lua"
    library = "".join((folder / "lib" / f"{name}.lua").read_text() for name in LIBRARY)
    scripts = {}
    for name in (*OF_SLUG, *ALONE):
        text = (folder / f"{name}.lua").read_text()
        whole = text if name in ALONE else library + text
        sha = hashlib.sha1(whole.encode(), usedforsecurity=False).hexdigest()
        scripts[name] = Script(name, whole, sha)
    return scripts


class Scripts:
    """The way to Redis and back. One pipeline is under way at a time; the next one fills up."""

    def __init__(
        self,
        redis: Redis,
        clock: Clock,
        notice: Callable[[Exception | None], None] = lambda _: None,
    ) -> None:
        """`notice` hears of it when Redis goes away (the error) and when it is back (None)."""
        self._redis = redis
        self._clock = clock
        self._notice = notice
        self._away = False
        self._scripts = load()
        self._waiting: list[_Waiting] = []
        self._sender: asyncio.Task[None] | None = None

    async def run(
        self, name: str, keys: Sequence[str], args: Sequence[str | bytes | int]
    ) -> Any:  # each script has replies of its own; limiter.py reads them
        """Run one script. Raises LimitsDown; it may have run then, so repeat it as it is."""
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(self._scripts[name], keys, args, reply))
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_all())
        return await reply

    async def close(self) -> None:
        """Wait for what is under way; nothing may be asked afterwards."""
        if self._sender is not None:
            await self._sender

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = (
                    self._waiting[:MOST_AT_ONCE],
                    self._waiting[MOST_AT_ONCE:],
                )
                await self._send(batch)
        finally:
            self._sender = None

    async def _send(self, batch: list[_Waiting]) -> None:
        try:
            replies = await self._exchange(batch)
            if any(isinstance(reply, NoScriptError) for reply in replies):
                replies = await self._load_and_repeat(batch, replies)
        except (TimeoutError, RedisError, OSError) as error:
            self._tell(error)
            for waiting in batch:
                _fail(waiting, error)
            return
        except BaseException:
            for waiting in batch:
                waiting.reply.cancel()
            raise
        self._tell(None)
        for waiting, reply in zip(batch, replies, strict=True):
            if isinstance(reply, Exception):
                _fail(waiting, reply)
            elif not waiting.reply.done():
                waiting.reply.set_result(reply)

    def _tell(self, error: Exception | None) -> None:
        if self._away != (error is not None):
            self._away = error is not None
            self._notice(error)

    async def _exchange(self, batch: Sequence[_Waiting]) -> list[Any]:
        pipeline = self._redis.pipeline(transaction=False)
        for waiting in batch:
            pipeline.execute_command(
                "EVALSHA", waiting.script.sha, len(waiting.keys), *waiting.keys, *waiting.args
            )
        before = time.monotonic()
        replies: list[Any] = await pipeline.execute(raise_on_error=False)
        after = time.monotonic()
        for reply in replies:
            if isinstance(reply, list) and reply and isinstance(reply[0], int):
                self._clock.observe(before, reply[0], after)
        return replies

    async def _load_and_repeat(self, batch: list[_Waiting], replies: list[Any]) -> list[Any]:
        refused = [index for index, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        for script in {batch[index].script for index in refused}:
            await self._redis.script_load(script.text)
        again = await self._exchange([batch[index] for index in refused])
        for index, reply in zip(refused, again, strict=True):
            replies[index] = reply
        return replies


def _fail(waiting: _Waiting, error: Exception) -> None:
    if waiting.reply.done():
        return
    down = LimitsDown(f"Redis did not do {waiting.script.name}: {error}")
    down.__cause__ = error
    waiting.reply.set_exception(down)
