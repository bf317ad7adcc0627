"""What a run must ask for by name, because less is promised then (docs/reliability.md)."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from chaos.arena import Arena
from chaos.faults.card import Card, Do, Undo, nothing
from chaos.scale import REFUSED_ENDS, STEP_SECONDS, Scale

NEED = frozenset({"redis"})
STEP_LASTS = (10.0, 15.0)

EMPTY = """
local names = {}
for _, slug in ipairs(ARGV) do
  local places = redis.call('HKEYS', 'wait_requests:' .. slug)
  for _, key in ipairs({ 'wait_list:', 'wait_list_automatic:' }) do
    for _, number in ipairs(redis.call('LRANGE', key .. slug, 0, -1)) do
      table.insert(places, number)
    end
  end
  for _, field in ipairs(redis.call('HKEYS', 'wait_inflight:' .. slug)) do
    if string.sub(field, 1, 1) == '=' then table.insert(places, string.sub(field, 2)) end
  end
  for _, place in ipairs(places) do
    if string.sub(place, 1, 1) == '#' then
      table.insert(names, string.sub(place, 2))
    else
      table.insert(names, slug .. ':' .. place)
    end
  end
end
for _, key in ipairs(redis.call('KEYS', 'tracking:status:*')) do
  if string.find(redis.call('GET', key), 'CANCELLED', 1, true) then
    table.insert(names, string.sub(key, #'tracking:status:' + 1))
  end
end
redis.call('FLUSHALL')
return names
"""
"""Names what waits, what runs and what was cancelled, and empties Redis in the same step."""

MIRRORED = re.compile(rf"^[a-z-]+:(?!.*{REFUSED_ENDS})")
"""The names of numbers of which MongoDB takes the requests that wait: these are put again."""


def cards(scale: Scale) -> Iterator[Card]:
    """The cards that this run asks for, in the order in which they come."""
    if scale.forget_redis:
        yield Card("redis emptied", NEED, (0.0, 0.0), _empty)
    if scale.step_clock:
        yield Card("redis' clock ahead, then back", NEED, STEP_LASTS, _step(STEP_SECONDS))
        yield Card("redis' clock behind, then right", NEED, STEP_LASTS, _step(-STEP_SECONDS))


def _empty(arena: Arena, _: random.Random) -> Undo:
    slugs = [courier.slug for courier in arena.scale.couriers]
    with arena.redis() as client:
        lost = client.eval(EMPTY, 0, *slugs)
    arena.forgotten.update(str(name) for name in lost if not MIRRORED.match(str(name)))
    return nothing


def _step(seconds: float) -> Do:
    def do(arena: Arena, _: random.Random) -> Undo:
        clock = arena.clock
        if clock is None:
            raise RuntimeError("this run has no clock to step")
        clock.step(seconds)
        return lambda: clock.step(0.0)

    return do
