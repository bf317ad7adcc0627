"""The connections to one server: opened when wanted, replaced when they end."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from service.observe.events import Event
from service.observe.log import emit
from service.tubes.client import HELD_MOST, Client, Settled
from service.tubes.connection import Patience
from tracking.errors import TubesDown

BACKOFF_FIRST, BACKOFF_MOST = 0.05, 5.0
"""Seconds before connecting again: doubled each time, and half of it by chance."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where jobs come from. `server` is "host:port", `connections` the most that are opened."""

    server: str
    tube: str
    connections: int = 4
    patience: Patience = field(default_factory=Patience)


class Pool:
    """Up to `source.connections` connections.

    `error` is None while there is a connection, else says what is wrong. `open_at` is the instant
    (`time.monotonic()`) before which no new connection is tried.
    """

    def __init__(self, source: Source, settled: Settled, ended: Callable[[], None]) -> None:
        """`ended` is called when a connection has ended; then call `drop_ended`."""
        self.error: str | None = "not connected yet"
        self.open_at = 0.0
        self._source = source
        self._settled = settled
        self._ended = ended
        self._open: list[Client] = []
        self._failures = 0
        self._was_away = False

    def __len__(self) -> int:
        return len(self._open)

    async def idle(self) -> Client | None:
        """One that holds nothing, a new one if need be; None: there is none to be had now."""
        for client in self._open:
            if not client.held:
                return client
        return await self._another()

    async def fullest(self) -> Client | None:
        """The one that holds most and may hold more, so that the others become idle."""
        with_room = [each for each in self._open if len(each.held) < HELD_MOST]
        fullest = max(with_room, key=lambda each: len(each.held), default=None)
        return fullest or await self._another()

    def answered(self) -> None:
        """The server did what it is there for: the next failure is the first again."""
        self._failures = 0

    async def all_answered(self) -> None:
        """Return when all connections have the answers to what was asked so far."""
        if asked := [each for client in self._open for each in client.unanswered]:
            await asyncio.wait(asked)

    def drop(self, client: Client) -> None:
        """Close a connection that we want no more; not a failure."""
        self._open.remove(client)
        client.close()

    def drop_ended(self) -> bool:
        """Take out the connections that have ended; whether there were any."""
        ended = [each for each in self._open if each.down]
        self._open = [each for each in self._open if not each.down]
        for client in ended:
            if client.down and client.abandoned:
                why = client.down.message
                emit(Event.JOBS_LOST, server=client.server, jobs=client.abandoned, why=why)
        if ended and ended[0].down:
            self._failed(ended[0].down)
        return bool(ended)

    def drop_all(self) -> None:
        """Close all connections."""
        for client in tuple(self._open):
            self.drop(client)

    async def _another(self) -> Client | None:
        source = self._source
        if len(self._open) >= source.connections or time.monotonic() < self.open_at:
            return None
        try:
            client = await Client.open(source.server, source.tube, source.patience, self._settled)
        except TubesDown as down:
            self._failed(down)
            return None
        if self.error is not None:
            if self._was_away:
                emit(Event.BACK, server=source.server)
            self.error = None
            self._was_away = False
        client.ended = self._ended
        self._open.append(client)
        return client

    def _failed(self, down: TubesDown) -> None:
        backoff = min(BACKOFF_FIRST * 2**self._failures, BACKOFF_MOST)
        self._failures = min(self._failures + 1, 16)
        self.open_at = time.monotonic() + backoff * random.uniform(0.5, 1)
        if not self._open:
            if not self._was_away:
                emit(Event.AWAY, server=self._source.server, error=down.message, fix=down.fix)
            self._was_away = True
            self.error = down.message
