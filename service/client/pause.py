"""Pausing a courier by hand, and letting it go on whatever stopped it."""

from __future__ import annotations

import functools

from limits.admin.pause import Pauses, Resumed
from service.client.connections import redis_of
from service.config.handover import rules_for
from service.config.schema import Config
from tracking.line import courier_line
from tracking.request import Slug

__all__ = ["Resumed", "pause", "resume"]


async def pause(config: Config, slug: Slug, seconds: float | None, why: str) -> None:
    """Let nobody call a courier, for so many seconds or until `resume`. Raises LimitsDown."""
    async with redis_of(config) as redis:
        brakes = Pauses(redis, functools.partial(rules_for, config))
        await brakes.pause(courier_line(slug), seconds, why)


async def resume(config: Config, slug: Slug) -> Resumed:
    """Let a courier be called again. Raises LimitsDown."""
    async with redis_of(config) as redis:
        return await Pauses(redis, functools.partial(rules_for, config)).resume(courier_line(slug))
