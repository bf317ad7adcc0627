"""Whether this Redis still knows what it knew.

A worker remembers the epoch it found at its start. When Redis comes back with another one, or with
none, it has lost its state: leases, starts, and the requests that waited. Then nobody starts for
one call time-out, because calls may run that nobody counts any more.

Each time Redis counts that it was asked. A worker that was answered a higher count than it finds is
at an older copy of the data: a backup, a disk of before.

Where there are replicas the same holds when another server takes over, because it may lack the last
writes. So every new connection asks first whose it is, before any step goes over it: with its old
connection a worker cannot reach another server. The one that finds a change begins a new epoch, in
Redis, and all others find their name refused.

With the epoch comes the newest revision of the rules: who calls nothing hears of it nowhere else.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any

from redis.asyncio.connection import AbstractConnection

from limits import keys
from limits.pipeline import Pipeline

REFUSED_SECONDS = 0.1
"""Where Redis refuses a connection, the next one would come at once."""


class Loss(StrEnum):
    """Why nobody starts for a while."""

    NEW = "new"
    """Redis is new to its own state."""
    REPLACED = "replaced"
    LEAPT = "leapt"
    """Its clock did, forward: calls may run that it counts no longer."""


Vet = Callable[[str], Awaitable[int]]
"""Gets the run_id of every server, tells how many replicas are to confirm what is done there.

Raises LimitsDown where nothing may be asked of it.
"""


async def take_any(_: str) -> int:
    """Vet no server."""
    return 0


class Epoch:
    """The name that every script gets, so that a Redis that forgot refuses it."""

    def __init__(
        self,
        pipeline: Pipeline,
        quiet_seconds: float,
        lost: Callable[[Loss], None] = lambda _: None,
        *,
        watched: bool = False,
        vet: Vet = take_any,
    ) -> None:
        """`lost` hears of it when Redis forgot what it knew. `watched`: by Sentinels."""
        self._pipeline = pipeline
        self._lost = lost
        self._vet = vet
        self._quiet_seconds = quiet_seconds
        self.outlast: Callable[[], float] = lambda: 0.0
        """How long a call may take on lines that come and go; the wiring sets it."""
        self._watched = int(watched)
        self._least = self._count = 0
        self._counts = False
        self.name = ""
        self.revision = 0
        self.losses = 0
        pipeline.greet_with(self._greet)

    async def agree(self) -> None:
        """Learn the epoch, or begin one. Raises LimitsDown.

        The count means nothing before the first time: until then a worker of a version before may
        run, which asks and does not count.
        """
        known = self.name
        reply = await self._pipeline.run("epoch", _KEYS, self._asked(known))
        self._counts = True
        self._note(known, reply)

    async def _greet(self, connection: AbstractConnection) -> None:
        """Begin a connection: nothing goes over it before this is known."""
        known = self.name
        try:
            await connection.on_connect()
            asked = (self._pipeline.text("epoch"), len(_KEYS), *_KEYS, *self._asked(known))
            await connection.send_command("EVAL", *asked)
            reply = await connection.read_response()
            self._least = await self._vet(reply[4])
        except BaseException as error:
            await connection.disconnect(nowait=True)
            if isinstance(error, Exception):
                await asyncio.sleep(REFUSED_SECONDS)
            raise
        self._note(known, reply)

    def _asked(self, known: str) -> tuple[str | int, ...]:
        quiet_us = round(max(self._quiet_seconds, self.outlast()) * 1_000_000)
        return (known, secrets.token_hex(6), quiet_us, self._watched, self._count)

    def _note(self, known: str, reply: list[Any]) -> None:
        _, name, _, why, _, confirms, count, self.revision = reply
        if self._counts:
            self._count = max(self._count, count)
        self._pipeline.confirmed = confirms and max(confirms, self._least)
        # Many may find the loss at once; the first to come back tells it.
        if name != self.name and known:
            self.losses += 1
            self._lost(Loss(why))
        self.name = name


_KEYS = [keys.EPOCH, keys.SERVER, keys.REVISION]
