"""Cancelling what waits: a number, one of its requests, or all that waits for a courier."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from limits.admin.cancel import CancelFilter, Cancelled, Canceller, CancelTarget, NotCancelled
from service.client.connections import redis_of
from service.config.handover import rules_for
from service.config.schema import Config

__all__ = ["CancelFilter", "CancelTarget", "Cancelled", "Canceller", "NotCancelled", "canceller_of"]


@asynccontextmanager
async def canceller_of(config: Config) -> AsyncIterator[Canceller]:
    """Open what cancels. Its methods raise LimitsDown."""
    async with redis_of(config) as redis:
        yield Canceller(redis, functools.partial(rules_for, config))
