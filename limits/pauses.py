"""What stops a line, for people to see: a pause, by hand or because its calls fail, or a probe."""

from __future__ import annotations

import json
from typing import NamedTuple

from redis.asyncio import Redis

from limits.keys import LineKeys

BY_HAND = "by_hand"


class Stop(NamedTuple):
    """`why` is BY_HAND, the code of an error, or "" where nothing stops the line.

    `seconds` None: no end was named. `note` is what the person wrote who paused it. `probes`: no
    pause is left, and one call alone tries whether the courier answers again.
    """

    why: str = ""
    seconds: float | None = None
    note: str = ""
    probes: bool = False


async def stop_of(redis: Redis, names: LineKeys) -> Stop:
    """Read what stops a line; of two pauses the one that lasts longer."""
    pipeline = redis.pipeline(transaction=False)
    for key in (names.calls_held, names.calls_paused):
        pipeline.get(key)
        pipeline.pttl(key)
    pipeline.get(names.calls_brake)
    held, held_ms, why, paused_ms, brake = await pipeline.execute()
    if held and not 0 <= held_ms < paused_ms:
        seconds = held_ms / 1000 if held_ms >= 0 else None
        return Stop(BY_HAND, seconds, json.loads(held)["why"])
    if why:
        return Stop(str(why), max(0, paused_ms) / 1000)
    state = json.loads(brake or "{}")
    return Stop(state["why"], probes=True) if "pauses" in state else Stop()
