"""Keeping subscriptions: read again now and then, and what deleted services left is noted as gone.

A process hears of a change by its revision. It reads by itself all the same, because who changes a
service may die before the revision is raised, or before Redis hears of it; so a change holds within
PERIOD_SECONDS in any case.

What is left of a deleted service goes in this order, and each step may be repeated by anybody:

1. its deliveries that are open or held become cancelled, a batch at a time (keeper.py)
2. Redis holds nothing of its line any more: the sweeper clears it (service.ports.Lines)
3. its document says so (`cleared_at`): nobody reads it again
"""

from __future__ import annotations

import asyncio
import datetime as dt
import random
from collections.abc import Awaitable, Callable

from pymongo.collection import Collection

from service.worker.deliveries.delivery import DeliveryState
from service.worker.deliveries.keeper import SERVICE_DELETED, end
from service.worker.deliveries.subscriptions import Leftovers
from service.worker.results.connection import Store
from service.worker.results.database import Collections, Document
from tracking.errors import AWAY
from tracking.line import service_of

PERIOD_SECONDS = 30.0

BATCH = 2_000
"""Deliveries that are cancelled in one go: about 50 ms."""


class Keeping:
    """Keeps the subscriptions of one process."""

    def __init__(
        self, store: Store, leftovers: Leftovers, learn: Callable[[], Awaitable[None]]
    ) -> None:
        """`learn` reads the services again, and what else goes by their revision."""
        self._store = store
        self._leftovers = leftovers
        self._learn = learn

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_SECONDS * random.uniform(0.8, 1.2))
            try:
                await self.look()
            except AWAY:
                continue  # said elsewhere; the next look comes soon enough

    async def look(self) -> None:
        """Look once. Raises StoreError."""
        await self._learn()
        for line in self._leftovers.cleared():
            await self._store.in_background(note_cleared, self._store, service_of(line))


def cancel_some(deliveries: Collection[Document], service: str) -> int:
    """Cancel some open or held deliveries of a deleted service; how many. Raises PyMongoError."""
    left = _left(service)
    names = [each["_id"] for each in deliveries.find(left, {"_id": 1}).limit(BATCH)]
    if names:
        change = {"$set": end(DeliveryState.CANCELLED, SERVICE_DELETED, dt.datetime.now(dt.UTC))}
        # An attempt may have ended some meanwhile: their state stays.
        deliveries.update_many({**left, "_id": {"$in": names}}, change)
    return len(names)


def note_cleared(stores: Collections, service: str) -> None:
    """Note that nothing is left of a deleted service, where that is so. Raises PyMongoError."""
    if stores.deliveries.find_one(_left(service), {"_id": 1}) is None:
        cleared = {"$set": {"cleared_at": dt.datetime.now(dt.UTC)}}
        stores.services.update_one({"_id": service}, cleared)


def _left(service: str) -> Document:
    return {"service": service, "state": {"$in": [DeliveryState.OPEN, DeliveryState.HELD]}}
