"""A disk that is full: the second beanstalkd's data lies on a small one of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress

import greenstalk

from chaos.arena import SECOND, Arena
from chaos.disk import BALLAST
from chaos.faults.card import Card, Undo

DISK_FULL = "disk full"


def cards() -> Iterator[Card]:
    """The one card; nothing else is done to this server meanwhile."""
    yield Card(DISK_FULL, frozenset({SECOND}), (3.0, 6.0), _fill)


def _fill(arena: Arena, _: random.Random) -> Undo:
    arena.disk.fill()
    server = arena.servers[SECOND]
    with greenstalk.Client((server.host, server.port), use=BALLAST) as client:
        try:
            while True:
                client.put(BALLAST * 500)
        except (greenstalk.Error, OSError):
            arena.reached(DISK_FULL)

    def empty() -> None:
        arena.disk.empty()
        # What could not be buried or released meanwhile is held by nobody until a restart.
        server.kill()
        server.start()
        client = greenstalk.Client((server.host, server.port), watch=BALLAST)
        with client, suppress(greenstalk.TimedOutError):
            while True:
                client.delete(client.reserve(timeout=0))

    return empty
