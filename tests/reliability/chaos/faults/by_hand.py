"""What operators do by hand: to Redis, and with `worker.py cancel`."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator

from chaos.arena import Arena
from chaos.faults.card import Card, Do, Undo, nothing
from chaos.producer import Outcome, Put
from chaos.scale import COURIERS, Scale
from chaos.wishes import Kind, Wish
from chaos.workers import REPOSITORY

PUSHED = 5
CANCELLED = 3


def cards(scale: Scale, draw: random.Random) -> Iterator[Card]:
    """Numbers pushed onto a list; a list deleted, where none was pushed onto; and cancelling."""
    by_hand = [courier.slug for courier in scale.couriers if courier.by_hand]
    # Where many wait, however many couriers are added.
    busy = scale.present[: len(COURIERS)]
    others = [courier.slug for courier in busy if not courier.by_hand]
    needs = frozenset({"redis"})
    yield Card("numbers pushed by hand", needs, (0.0, 0.0), _push(draw.choice(by_hand)))
    yield Card("wait list deleted by hand", needs, (0.0, 0.0), _delete(draw.choice(others)))
    slug = draw.choice(scale.present).slug
    yield Card("requests cancelled by hand", needs, (0.0, 0.0), _cancel(slug))


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


def _cancel(slug: str) -> Do:
    def do(arena: Arena, _: random.Random) -> Undo:
        newest = [put.wish for put in arena.producer.log[-200:] if put.wish.slug == slug]
        for wish in [wish for wish in newest if wish.id][-CANCELLED:]:
            arena.cancelled.add(wish.id or "")
            command = [sys.executable, str(REPOSITORY / "worker.py"), "cancel", slug, wish.number]
            done = subprocess.run(
                [*command, "--id", wish.id or ""],
                env={**os.environ, **arena.environment},
                capture_output=True,
                text=True,
                check=False,
            )
            # With nothing to complain of, the id is another parcel's: somebody borrowed it.
            if done.returncode not in (0, 1) and done.stderr:
                raise RuntimeError(f"cancel ended with {done.returncode}: {done.stderr}")
            if done.returncode == 0:
                arena.reached("cancelled by hand")
        return nothing

    return do
