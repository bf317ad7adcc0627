"""The collection `unknown_codes`: how often a courier gave a status code that has no meaning here.

============ ===================================================================================
member       is
============ ===================================================================================
`_id`        `"ups:ZZ"`
slug, code   whose code, and the code as the courier gave it, its first 64 bytes
count        answers that held it, over all workers
first_seen   when it was first told, and `last_seen`; it is forgotten 90 days after the latter
============ ===================================================================================

No number is kept: the log names one. Counts are for people: those of the last seconds before a kill
are lost, and a write that MongoDB did not confirm may be counted twice.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import Mapping

from pymongo import DESCENDING
from pymongo.collection import Collection

from service.observe.events import Event
from service.observe.log import emit
from service.results.connection import Document, Store
from service.results.document import clean, stored
from service.results.names import UNKNOWN_CODES
from service.results.refused import Refusal, upsert_each
from tracking.errors import ResultsDown

PERIOD_SECONDS = 5.0
CODE_MOST = 64
LISTED_MOST = 1_000
_MEMBERS = {"_id": 0, "slug": 1, "code": 1, "count": 1, "first_seen": 1, "last_seen": 1}

Code = tuple[str, str]
"""A slug and a status code."""


class CodeCounts:
    """Implements `service.ports.CodeCounts`: counts in memory, writes every few seconds."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: Counter[Code] = Counter()

    def count(self, slug: str, code: str) -> None:
        """Count one code of one answer. Costs nothing, and never fails."""
        self._waiting[slug, clean(code, CODE_MOST)] += 1

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            await self.write()

    async def write(self) -> None:
        """Write what was counted; while MongoDB is away it goes on waiting."""
        counted, self._waiting = self._waiting, Counter()
        if not counted:
            return
        try:
            now = dt.datetime.now(dt.UTC)
            refused = await self._store.run(add, self._store.unknown_codes, counted, now)
            for name, why in refused:
                emit(Event.REFUSED_DOCUMENT, collection=UNKNOWN_CODES, document=name, error=why)
        except ResultsDown:
            self._waiting.update(counted)


def add(
    unknown_codes: Collection[Document], counted: Mapping[Code, int], now: dt.datetime
) -> list[Refusal]:
    """Add to the counts of codes that were given `now` or shortly before.

    Tells which MongoDB refuses; the others are counted.
    """
    at = stored(now)
    changes = {
        f"{slug}:{code}": {
            "$inc": {"count": times},
            "$set": {"slug": slug, "code": code},
            "$min": {"first_seen": at},
            "$max": {"last_seen": at},
        }
        for (slug, code), times in counted.items()
    }
    return upsert_each(unknown_codes, changes)


def listed(unknown_codes: Collection[Document]) -> list[Document]:
    """The counted codes, the most frequent first."""
    found = unknown_codes.find({}, _MEMBERS).sort("count", DESCENDING).limit(LISTED_MOST)
    return list(found)
