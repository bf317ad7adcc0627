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
BROKEN = (1.0, 3.0)
"""Seconds until what somebody broke is put right; a line rests for five."""

BREAKABLE = (
    *("wait_list", "wait_list_automatic", "wait_later", "wait_requests", "wait_inflight"),
    *("wait_order", "calls_leases"),
)

BREAK = """
local key, aside = KEYS[1], KEYS[1] .. ' aside'
if redis.call('EXISTS', key) == 1 then redis.call('RENAME', key, aside) end
redis.call('SADD', key, 'what does not belong there')
"""
MEND = """
local key, aside = KEYS[1], KEYS[1] .. ' aside'
redis.call('DEL', key)
if redis.call('EXISTS', aside) == 1 then redis.call('RENAME', aside, key) end
"""

CUT = """
for _, key in ipairs(KEYS) do
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    local record = string.sub(fields[i + 1], 1, 1) == '{' and cjson.decode(fields[i + 1])
    if record and not record.listed then
      redis.call('HSET', key, fields[i], '{')
      return { key, fields[i], fields[i + 1] }
    end
  end
end
return {}
"""
"""Cuts a record off; returns where it stands, and what it was. Ids in a list beside it would be
taken for those of the number's next record."""

CORRECT = """
local key, unreadable = unpack(KEYS)
local field, text = unpack(ARGV)
local aside = key .. ' ' .. field
if redis.call('HEXISTS', unreadable, aside) == 1 then
  redis.call('HSET', unreadable, aside, text)
elseif redis.call('HGET', key, field) == '{' then
  redis.call('HSET', key, field, text)
end
"""
"""Corrects it where it stands by now: nobody may have read it yet, and a Redis that lost its last
second may never have had it cut off."""


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
    slug, key = draw.choice(scale.present).slug, draw.choice(BREAKABLE)
    yield Card("key of another type by hand", needs | {slug}, BROKEN, _break(f"{key}:{slug}"))
    slug = draw.choice(busy).slug
    yield Card("record cut off by hand", needs | {slug}, BROKEN, _cut(slug))


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


def _break(key: str) -> Do:
    def do(arena: Arena, _: random.Random) -> Undo:
        with arena.redis() as client:
            client.eval(BREAK, 1, key)

        def undo() -> None:
            with arena.redis() as client:
                client.eval(MEND, 1, key)

        return undo

    return do


def _cut(slug: str) -> Do:
    def do(arena: Arena, draw: random.Random) -> Undo:
        waiting, inflight = f"wait_requests:{slug}", f"wait_inflight:{slug}"
        with arena.redis() as client:
            cut = client.eval(CUT, 2, *draw.sample([waiting, inflight], 2))
        if not cut:
            return nothing
        arena.reached("record cut off")
        key, field, text = cut

        def undo() -> None:
            with arena.redis() as client:
                client.eval(CORRECT, 2, key, f"wait_unreadable:{slug}", field, text)

        return undo

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
