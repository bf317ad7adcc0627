"""Cancelling waiting requests: of a number, one of them, or all that wait for a courier.

`CancelFilter` chooses of what waits, and `NotCancelled` says why a request was not cancelled.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from limits.admin.cancel import CancelFilter, Cancelled, Canceller, CancelTarget, NotCancelled
from service.config.domain import rules_for
from service.config.schema import Config
from service.operator.connections import redis_of
from service.operator.look import operation_of
from tracking.request import Number, Slug

__all__ = ["CancelFilter", "CancelTarget", "Cancelled", "Canceller", "NotCancelled"]

EVERYTHING = CancelFilter()


@dataclass(slots=True)
class Tally:
    """What was cancelled so far, also when the rest is interrupted."""

    requests: int = 0
    numbers: int = 0

    def add(self, came: Cancelled) -> None:
        """Count what came of one number."""
        self.requests += came.operations
        self.numbers += came.operations > 0


class NotWaiting(Exception):
    """No request with the id waits; the text says why and what to do."""


@asynccontextmanager
async def canceller_of(config: Config) -> AsyncIterator[Canceller]:
    """Open what cancels. Its methods raise LimitsDown."""
    async with redis_of(config) as redis:
        yield Canceller(redis, functools.partial(rules_for, config))


async def target_of(config: Config, identity: str) -> CancelTarget:
    """Find the request of an id and its parcel. Raises NotWaiting, StoreError."""
    found = await operation_of(config, identity)
    if found.dead:
        raise NotWaiting(f"{identity} waits no more: {found.dead['detail']}")
    parcel = (found.operation or {}).get("tracking")
    if not parcel:
        raise NotWaiting(
            f"no request with the id {identity} is known; check the id, or cancel again once a "
            "worker has taken the job from the tube"
        )
    slug, _, number = parcel.partition(":")
    return CancelTarget(Slug(slug), Number(number), identity)


def cancel_line(
    canceller: Canceller, slug: Slug, which: CancelFilter
) -> AsyncIterator[tuple[CancelTarget, Cancelled]]:
    """Cancel all that waits for a courier, or what the filter chooses of it."""
    if which == EVERYTHING:
        return canceller.cancel_courier(slug)
    return canceller.cancel_where(slug, which)
