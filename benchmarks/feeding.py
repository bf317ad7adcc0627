"""Filling the wait lists through the tube, while nobody may be called.

A backlog that must last is put before the clock starts, and it comes the way every request comes:
reserved, admitted, parked. So that the first calls are not over before the last request is parked,
all couriers are paused meanwhile, as a courier's own 429 would do it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from redis import Redis

from benchmarks.rig import Rig
from benchmarks.tube import REQUESTS, TubeError
from limits import keys
from tracking.line import Line

PAUSE_MS = 3_000
REFRESH_SECONDS = 1.0
LOOK_SECONDS = 0.05
PATIENCE = 300.0


def feed(rig: Rig, names: Sequence[str], bodies: Iterable[bytes]) -> float:
    """Put `bodies` and return when all are parked, with the seconds that took.

    The calls begin within PAUSE_MS. The worker must run and the tube be paused.
    """
    rig.tubes.put(REQUESTS, bodies)
    pause(rig.redis, names)
    began = refreshed = time.monotonic()
    rig.tubes.pause(REQUESTS, 0)
    while left := rig.tubes.left():
        now = time.monotonic()
        if now - began > PATIENCE:
            raise TubeError(f"{left} requests are not parked after {PATIENCE:g} s")
        if now - refreshed > REFRESH_SECONDS:
            pause(rig.redis, names)
            refreshed = now
        time.sleep(LOOK_SECONDS)
    return time.monotonic() - began


def pause(redis: Redis, names: Iterable[str]) -> None:
    """Let nobody call these couriers for PAUSE_MS from now."""
    with redis.pipeline(transaction=False) as pipeline:
        for name in names:
            pipeline.set(keys.of_line(Line(name)).calls_paused, "benchmark", px=PAUSE_MS)
        pipeline.execute()
