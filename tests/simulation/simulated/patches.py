"""The names that are replaced while a world runs, all of them, and put back afterwards.

================================== ==============================================================
name                               is then
================================== ==============================================================
time.time, time.time_ns            the world's clock; each process is a little off
time.monotonic, monotonic_ns       the world's clock
datetime.datetime.now              the same (a subclass: those made before stay what they are)
secrets.token_urlsafe, token_hex   drawn from the seed
random (its state)                 seeded: jitter of the flow and of redis-py
wake_at, in those who rest by it   drawn: the processes of a world have no rounds in common
service.observe.log._process       the trace
service.worker.wiring.worker.Intake     simulated.intake
service.worker.wiring.worker.Trackings  simulated.mongodb
service.worker.wiring.worker.Webhooks   simulated.worker, in a world without services
service.worker.deliveries.attempt       attempts follow each other within two minutes, not a day
 .DELAYS_SECONDS
service.worker.wiring.connect._vetting  any Redis is taken that takes over
service.worker.wiring.worker.Dead       simulated.mongodb
service.worker.wiring.worker.Tracker    simulated.courier
service.worker.wiring.worker.FailPoints counts the fail points that were reached, and kills there
service.worker.wiring.worker.request_in simulated.stumbling
service.worker.wiring.worker.Sweeper    simulated.stumbling
service.worker.wiring.worker.Drainer    simulated.stumbling
service.worker.wiring.worker.Tallying   simulated.stumbling
================================== ==============================================================
"""

from __future__ import annotations

import datetime as dt
import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest import mock

from limits.epoch import take_any
from service.observe import background, log
from service.worker.deliveries import attempt, filler
from service.worker.upkeep import archiver
from service.worker.wiring import connect, worker

DELAYS_SECONDS = (1, 3, 10, 65, 5, 5, 5, 5, 5)
"""From each attempt to the next one; what is due within a minute waits in Redis."""

BEGAN = 1_800_000_000.0
"""Unix time at which every world begins."""


@contextmanager
def replaced(
    clock: Callable[[], float],
    wall: Callable[[], float],
    seed: int,
    parts: Mapping[str, Any],
    logger: Any,
) -> Iterator[None]:
    """Replace all names of the table. `parts` are those of `service.worker.wiring.worker`."""
    draw, state = Random(f"names {seed}"), random.getstate()
    names: list[tuple[Any, str, Any]] = [
        (time, "monotonic", clock),
        (time, "monotonic_ns", lambda: round(clock() * 1e9)),
        (time, "time", wall),
        (time, "time_ns", lambda: round(wall() * 1e9)),
        (dt, "datetime", _datetime(wall)),
        (secrets, "token_urlsafe", lambda count=32: draw.randbytes(count).hex()),
        (secrets, "token_hex", lambda count=32: draw.randbytes(count).hex()),
        (log, "_process", logger),
        *((module, "wake_at", _drawn) for module in (background, filler, archiver)),
        (connect, "_vetting", lambda _: take_any),
        (attempt, "DELAYS_SECONDS", DELAYS_SECONDS),
        *((worker, name, part) for name, part in parts.items()),
    ]
    random.seed(f"jitter {seed}")
    patches = [mock.patch.object(owner, name, to) for owner, name, to in names]
    try:
        for patch in patches:
            patch.start()
        yield
    finally:
        for patch in reversed(patches):
            patch.stop()
        random.setstate(state)


def _drawn(now: float, seconds: float) -> float:
    return now + seconds * random.uniform(0.8, 1.2)


def _datetime(wall: Callable[[], float]) -> type[dt.datetime]:
    real = dt.datetime

    class Everyone(type(real)):  # type: ignore[misc]
        def __instancecheck__(cls, each: object) -> bool:
            return isinstance(each, real)

    class Simulated(real, metaclass=Everyone):  # type: ignore[misc, valid-type]
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:
            return real.fromtimestamp(wall(), tz)

    return Simulated
