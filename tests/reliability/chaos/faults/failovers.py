"""What a Redis under Sentinels goes through: planned, sudden and lossy promotions."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

from chaos.arena import Arena
from chaos.faults.card import Card, Do, Undo
from devstack.sentinels import Watched

NEED = frozenset({"redis"})
LATE = 0.7
"""Seconds for which nothing reaches the replica that is promoted then."""

Treat = Callable[[Watched], None]


def cards() -> Iterator[Card]:
    """Each way for the primary to change, or to lose its replica. All end with both well."""
    yield Card("redis failover", NEED, (0.5, 1.0), _do(Watched.fail_over))
    yield Card("redis primary killed", NEED, (2.0, 4.0), _do(lambda pair: pair.primary().kill()))
    yield Card("redis primary frozen", NEED, (2.0, 5.0), _do(lambda pair: pair.primary().pause()))
    yield Card("redis replica cut off", NEED, (0.5, 4.0), _do(_cut))
    yield Card("redis late replica promoted", NEED, (2.5, 4.0), _do(_promote_late))


def _do(treat: Treat) -> Do:
    def do(arena: Arena, _: random.Random) -> Undo:
        assert arena.watched is not None
        treat(arena.watched)
        return arena.watched.mend

    return do


def _cut(pair: Watched) -> None:
    pair.cut_replication()


def _promote_late(pair: Watched) -> None:
    primary, replica = pair.primary(), pair.cut_replication()
    time.sleep(LATE)  # the loss: what is written meanwhile
    primary.kill()
    replica.resume()
