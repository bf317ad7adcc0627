"""Pausing a courier by hand for a length of time, and letting it go on whatever stopped it.

An act is recorded in `audit` by who does it, under its name and target; its step does it once.
"""

from __future__ import annotations

import asyncio
import functools
import math
import re
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from limits.admin.pause import Pauses, Resumed
from service.config.domain import rules_for
from service.config.schema import Config
from service.operator.connections import redis_of
from service.worker.results.database import Document
from tracking.line import courier_line
from tracking.request import Slug

__all__ = ["Resumed"]

SHORTEST_SECONDS = 0.001
LONGEST_SECONDS = 3_650 * 86_400.0

_DURATION = re.compile(r"([0-9]*\.?[0-9]+)([smhd]?)")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}

T = TypeVar("T")
Act: TypeAlias = tuple[str, Document, Callable[[Document], T]]
"""The name of an act, its target, and its step, which adds to what is recorded as its outcome."""


def read_duration(text: str) -> float:
    """Read `90s` or `2h` in seconds; a bare number is seconds. Raises ValueError, for a person."""
    read = _DURATION.fullmatch(text)
    seconds = float(read[1]) * _UNITS[read[2] or "s"] if read else math.nan
    if not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
        raise ValueError(
            f"{text!r} is not a length of time: write 90s, 15m, 2h or 3d, at most ten years"
        )
    return seconds


def pausing(config: Config, slug: Slug, seconds: float | None, why: str) -> Act[None]:
    """Let nobody call a courier, for so many seconds or until `resume`. Raises LimitsDown."""

    async def pause() -> None:
        async with redis_of(config) as redis:
            brakes = Pauses(redis, functools.partial(rules_for, config))
            await brakes.pause(courier_line(slug), seconds, why)

    target: Document = {"slug": slug, "seconds": seconds, "reason": why}
    return "pause", target, lambda _: asyncio.run(pause())


def resuming(config: Config, slug: Slug) -> Act[Resumed]:
    """Let a courier be called again. Raises LimitsDown."""

    async def resume() -> Resumed:
        async with redis_of(config) as redis:
            brakes = Pauses(redis, functools.partial(rules_for, config))
            return await brakes.resume(courier_line(slug))

    def step(outcome: Document) -> Resumed:
        ended = asyncio.run(resume())
        outcome |= {"by_hand": ended.by_hand, "why": ended.why}
        return ended

    return "resume", {"slug": slug}, step
