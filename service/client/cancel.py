"""Cancelling what waits: a number, one of its requests, or all that waits for a courier."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from limits.cancelling import Cancelled, Canceller, Kept, Wanted, Which
from service.client.connections import redis_of
from service.config.handover import rules_for
from service.config.schema import Config

__all__ = ["Cancelled", "Canceller", "Kept", "Wanted", "Which", "canceller_of"]


@asynccontextmanager
async def canceller_of(config: Config) -> AsyncIterator[Canceller]:
    """Open what cancels. Its methods raise LimitsDown."""
    async with redis_of(config) as redis:
        yield Canceller(redis, functools.partial(rules_for, config))
