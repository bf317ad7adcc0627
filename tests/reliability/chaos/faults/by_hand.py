"""What operators do to Redis by hand."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from chaos.arena import Arena
from chaos.faults.card import Card, Do, Undo, nothing
from chaos.producer import Outcome, Put
from chaos.scale import Scale
from chaos.wishes import Kind, Wish

PUSHED = 5


def cards(scale: Scale, draw: random.Random) -> Iterator[Card]:
    """Numbers pushed onto a list; and a list deleted, where none was pushed onto."""
    by_hand = [courier.slug for courier in scale.couriers if courier.by_hand]
    others = [courier.slug for courier in scale.couriers if not courier.by_hand]
    needs = frozenset({"redis"})
    yield Card("numbers pushed by hand", needs, (0.0, 0.0), _push(draw.choice(by_hand)))
    yield Card("wait list deleted by hand", needs, (0.0, 0.0), _delete(draw.choice(others)))


def _push(slug: str) -> Do:
    def do(arena: Arena, draw: random.Random) -> Undo:
        numbers = [f"HAND{draw.randrange(10**12):012d}" for _ in range(PUSHED)]
        at = time.time()
        with arena.redis() as client:
            client.rpush(f"wait_list:{slug}", *numbers)
        for number in numbers:
            wish = Wish(Kind.PLAIN, slug, number)
            arena.pushed.append(Put(wish, at, Outcome.ACKNOWLEDGED, tries=1))
        return nothing

    return do


def _delete(slug: str) -> Do:
    def do(arena: Arena, _: random.Random) -> Undo:
        with arena.redis() as client:
            if client.delete(f"wait_list:{slug}", f"wait_list_automatic:{slug}"):
                arena.reached("somebody was on the deleted list")
        return nothing

    return do
