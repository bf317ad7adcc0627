"""Statistics for people: the figures of each day, and counts of unknown status codes.

The collection `statistics` is kept for ever:

============ ===================================================================================
member       is
============ ===================================================================================
`_id`        `"2026-11-22:usps"`; without a slug of all couriers
day, slug    the day (a date, 00:00 UTC) and the courier; `slug` is absent of all
counts       how often: SUCCESS, ERROR, CANCELLED, and what limits/lua/lib/state.lua names
waited, took operations, and calls, by the bound in ms that their time did not exceed
============ ===================================================================================

Figures only grow, so a process that writes a day again, also late, makes it no worse.

The collection `unknown_codes`:

============ ===================================================================================
member       is
============ ===================================================================================
`_id`        `"ups:ZZ"`
slug, code   whose code, and the code as the courier gave it, its first 64 bytes
count        answers that held it, over all workers
first_seen   when it was first given, and `last_seen`; it is forgotten 90 days after the latter
============ ===================================================================================

No number is kept: the log names one. Counts of the last seconds before a kill are lost, and a write
that MongoDB did not confirm may be counted twice.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pymongo import DESCENDING
from pymongo.collection import Collection

from service.worker.results.connection import Store
from service.worker.results.database import Document, Refusal, log_refused, upsert_each
from service.worker.results.document import clean, stored
from tracking.errors import ResultsDown
from tracking.tally import Day, Histogram, Tally

HISTOGRAMS = ("waited", "took")

PERIOD_SECONDS = 5.0
MAX_CODE_BYTES = 64
MAX_LISTED = 1_000
_MEMBERS = {"_id": 0, "slug": 1, "code": 1, "count": 1, "first_seen": 1, "last_seen": 1}

Code = tuple[str, str]
"""A slug and a status code."""


class CodeCounts:
    """Counts unknown codes in memory, and writes the counts every few seconds.

    Implements `service.ports.CodeCounts`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: Counter[Code] = Counter()
        self._counted = asyncio.Event()

    def count(self, slug: str, code: str) -> None:
        """Count a code of an answer. Costs nothing, and never fails."""
        self._waiting[slug, clean(code, MAX_CODE_BYTES)] += 1
        self._counted.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while await self._counted.wait():
            await asyncio.sleep(PERIOD_SECONDS)
            await self.write()

    async def write(self) -> None:
        """Write what was counted; while MongoDB is away it goes on waiting."""
        counted, self._waiting = self._waiting, Counter()
        self._counted.clear()
        if not counted:
            return
        try:
            now = dt.datetime.now(dt.UTC)
            codes = self._store.unknown_codes
            log_refused(codes, await self._store.on_writer(add_codes, codes, counted, now))
        except ResultsDown:
            self._waiting.update(counted)
            self._counted.set()


def add_codes(
    unknown_codes: Collection[Document], counted: Mapping[Code, int], now: dt.datetime
) -> list[Refusal]:
    """Add to the counts of codes that were given `now` or shortly before.

    Returns what MongoDB refuses; the others are counted.
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


def listed_codes(unknown_codes: Collection[Document]) -> list[Document]:
    """List the counted codes, the most frequent first."""
    found = unknown_codes.find({}, _MEMBERS).sort("count", DESCENDING).limit(MAX_LISTED)
    return list(found)


def save_days(statistics: Collection[Document], days: Sequence[Day]) -> list[Refusal]:
    """Store the figures of days; a figure that is stored already only grows.

    Returns what MongoDB refuses; the others are stored.
    """
    changes = {
        _name(day.at, day.slug): {"$max": figures, "$setOnInsert": _members(day)}
        for day in days
        if (figures := dict(_figures(day.tally)))
    }
    return upsert_each(statistics, changes)


def read_days(statistics: Collection[Document], slug: str, days: Sequence[int]) -> dict[int, Tally]:
    """Read the tallies of those of `days` (Unix seconds) that have one."""
    names = {_name(day, slug): day for day in days}
    found = statistics.find({"_id": {"$in": list(names)}})
    return {names[each["_id"]]: _tally(each) for each in found}


def _name(day: int, slug: str) -> str:
    return f"{_date(day):%Y-%m-%d}{slug and f':{slug}'}"


def _date(day: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(day, dt.UTC)


def _members(day: Day) -> dict[str, Any]:
    return {"day": _date(day.at)} | ({"slug": day.slug} if day.slug else {})


def _figures(tally: Tally) -> Mapping[str, int]:
    named = {"counts": tally.counts, "waited": tally.waited.counts, "took": tally.took.counts}
    return {f"{of}.{name}": n for of, counts in named.items() for name, n in counts.items()}


def _tally(document: Document) -> Tally:
    counts = (Counter(document.get(of) or {}) for of in ("counts", *HISTOGRAMS))
    happened, waited, took = counts
    return Tally(happened, Histogram(waited), Histogram(took))
