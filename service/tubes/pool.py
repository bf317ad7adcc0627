"""The connections of one thread to one server: opened when wanted, replaced when they end."""

from __future__ import annotations

import random
import selectors
import time
from dataclasses import dataclass, field

from service.observe.events import Event
from service.observe.log import emit
from service.tubes.connection import HELD_MOST, Connection, Patience
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
    """Up to `source.connections` connections, each watched by `selector` with itself as data.

    `error` is None while there is a connection, else says what is wrong. `open_at` is the instant
    (`time.monotonic()`) before which no new connection is tried.
    """

    def __init__(self, source: Source, selector: selectors.BaseSelector) -> None:
        self.error: str | None = "not connected yet"
        self.open_at = 0.0
        self._source = source
        self._selector = selector
        self._open: list[Connection] = []
        self._failures = 0
        self._was_away = False

    def __len__(self) -> int:
        return len(self._open)

    def idle(self) -> Connection | None:
        """One that holds nothing, a new one if need be; None: there is none to be had now."""
        for connection in self._open:
            if not connection.held:
                return connection
        return self._another()

    def fullest(self) -> Connection | None:
        """The one that holds most and may hold more, so that the others become idle."""
        with_room = [each for each in self._open if len(each.held) < HELD_MOST]
        return max(with_room, key=lambda each: len(each.held), default=None) or self._another()

    def answered(self) -> None:
        """The server did what it is there for: the next failure is the first again."""
        self._failures = 0

    def drop(self, connection: Connection) -> None:
        """Close a connection that we want no more; not a failure."""
        self._forget(connection)
        connection.close()

    def drop_ended(self) -> bool:
        """Take out the connections that have ended; whether there were any."""
        ended = [each for each in self._open if not each.alive]
        for connection in ended:
            self._forget(connection)
        abandoned = sum(each.abandoned for each in ended)
        if abandoned:
            emit(Event.JOBS_LOST, server=self._source.server, jobs=abandoned, why=ended[0].error)
        if ended:
            self._failed(ended[0].error)
        return bool(ended)

    def drop_all(self) -> None:
        """Close all connections."""
        for connection in tuple(self._open):
            self.drop(connection)

    def abort(self) -> None:
        """Break off what the thread waits for; may be called by any thread."""
        for connection in tuple(self._open):
            connection.wire.abort()

    def _another(self) -> Connection | None:
        source = self._source
        if len(self._open) >= source.connections or time.monotonic() < self.open_at:
            return None
        try:
            connection = Connection.open(source.server, source.tube, source.patience)
        except TubesDown as error:
            self._failed(error.message, error.fix)
            return None
        if self.error is not None:
            if self._was_away:
                emit(Event.BACK, server=source.server)
            self.error = None
            self._was_away = False
        self._open.append(connection)
        self._selector.register(connection.wire, selectors.EVENT_READ, connection)
        return connection

    def _failed(self, error: str, fix: str = "") -> None:
        backoff = min(BACKOFF_FIRST * 2**self._failures, BACKOFF_MOST)
        self._failures = min(self._failures + 1, 16)
        self.open_at = time.monotonic() + backoff * random.uniform(0.5, 1)
        if not self._open:
            if not self._was_away:
                emit(Event.AWAY, server=self._source.server, error=error, fix=fix)
            self._was_away = True
            self.error = error

    def _forget(self, connection: Connection) -> None:
        self._open.remove(connection)
        self._selector.unregister(connection.wire)
