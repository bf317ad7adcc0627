"""Active parcels are looked at again: what is due goes onto the tube as an AUTOMATIC request.

Put first, put off afterwards: a worker that vanishes in between leaves the check due, and the
request's id, made of parcel and due time, keeps a second put from being a second operation.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import random
from collections.abc import Callable, Collection
from typing import Any

from service.results.connection import Store
from service.results.queries import due_for_check, put_off_check
from service.tubes.putter import Putter
from tracking.errors import StoreError
from tracking.request import Number, Origin, Slug, TrackingRequest

PERIOD_SECONDS = 30.0
MOST_AT_ONCE = 500

PUT_OFF = dt.timedelta(hours=1)
"""When a check is due again whose request found no answer; an answer sets its own time."""

EXPIRES_AFTER = dt.timedelta(hours=6)
"""A re-check that still waits then is pointless: the next one is due as well."""


class Recheck:
    """Looks every half a minute for parcels whose next check is due."""

    def __init__(self, store: Store, putter: Putter, slugs: Collection[Slug]) -> None:
        self._store = store
        self._putter = putter
        self._slugs = slugs

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_SECONDS * random.uniform(0.8, 1.2))
            try:
                await self.look()
            except StoreError:
                continue  # said elsewhere; what is due stays due

    async def look(self, now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)) -> int:
        """Put every check that is due. Returns how many. Raises TubesDown, ResultsDown."""
        moment = now()
        tracking = self._store.tracking
        due = await self._store.run(due_for_check, tracking, moment, MOST_AT_ONCE)
        known = [document for document in due if document["slug"] in self._slugs]
        for document in known:
            await self._putter.put_request(_request(document, moment))
            await self._store.run(
                put_off_check,
                tracking,
                document["_id"],
                document["next_check_at"],
                moment + PUT_OFF,
            )
        return len(known)


def _request(document: dict[str, Any], moment: dt.datetime) -> TrackingRequest:
    name = f"{document['_id']}@{document['next_check_at'].isoformat()}"
    return TrackingRequest(
        slug=Slug(document["slug"]),
        number=Number(document["tracking_number"]),
        given=document["tracking_number"],
        id=f"recheck-{hashlib.sha256(name.encode()).hexdigest()[:32]}",
        origin=Origin.AUTOMATIC,
        expires_at=(moment + EXPIRES_AFTER).timestamp(),
    )
