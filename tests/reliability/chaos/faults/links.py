"""Links between workers and servers that get slow, silent, cut, or lose answers."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence

from chaos.arena import PRODUCER, Arena
from chaos.faults.card import Card, Do, Undo, nothing
from chaos.network import Link
from chaos.proxy import BLACK_HOLE, DOWN, DROP_REPLIES, FINE, Condition
from chaos.scale import Scale

CONDITIONS: tuple[tuple[str, Condition, tuple[float, float]], ...] = (
    ("down", DOWN, (0.5, 3.0)),
    ("slow to answer", Condition(latency=0.08, jitter=0.25), (2.0, 5.0)),
    ("a black hole", BLACK_HOLE, (1.0, 8.0)),
    ("at 4 KiB/s", Condition(bytes_per_second=4096), (1.0, 4.0)),
    ("in pieces of 7 bytes", Condition(piece_bytes=7), (2.0, 5.0)),
    ("losing answers", DROP_REPLIES, (0.5, 2.0)),
)

FLAPS = (0.15, 0.9)
"""Seconds between two resets of a link that flaps: calls take half a second, more or less."""


def cards(scale: Scale, draw: random.Random) -> Iterator[Card]:
    """Every condition for the links to every server, of one worker or of all."""
    # Sentinels name the servers themselves, past these links.
    redis = () if scale.sentinels else ("redis",)
    for server in ("beanstalkd", *redis, "mongodb"):
        for kind, condition, lasts in CONDITIONS:
            links = _links(scale, server, draw)
            yield Card(f"link to {server} {kind}", _needs(links), lasts, _become(links, condition))
        links = _links(scale, server, draw)
        yield Card(f"link to {server} reset", _needs(links), (0.0, 0.0), _reset(links))
    links = [Link(name, "beanstalkd") for name in scale.names]
    yield Card("link to beanstalkd flapping", _needs(links), (5.0, 9.0), _flap(links))


def _links(scale: Scale, server: str, draw: random.Random) -> Sequence[Link]:
    """The links of one worker or of all; the producer's goes with all."""
    every = [Link(name, server) for name in scale.names]
    if draw.random() < 0.5:
        return [draw.choice(every)]
    return [*every, Link(PRODUCER, server)] if server == "beanstalkd" else every


def _needs(links: Sequence[Link]) -> frozenset[str]:
    return frozenset(f"{link.client} to {link.server}" for link in links)


def _become(links: Sequence[Link], condition: Condition) -> Do:
    def do(arena: Arena, _: random.Random) -> Undo:
        dropped = arena.network.replies_dropped
        arena.network.become(links, condition)

        def undo() -> None:
            arena.network.become(links, FINE)
            if arena.network.replies_dropped > dropped:
                arena.reached("answer lost")

        return undo

    return do


def _reset(links: Sequence[Link]) -> Do:
    def do(arena: Arena, _: random.Random) -> Undo:
        arena.network.reset(links)
        return nothing

    return do


def _flap(links: Sequence[Link]) -> Do:
    """Reset again and again: jobs of running calls come back, their workers live."""

    def do(arena: Arena, draw: random.Random) -> Undo:
        over = threading.Event()

        def flap() -> None:
            while not over.wait(draw.uniform(*FLAPS)):
                arena.network.reset(links)

        thread = threading.Thread(target=flap, name="flapping links", daemon=True)
        thread.start()

        def undo() -> None:
            over.set()
            thread.join()

        return undo

    return do
