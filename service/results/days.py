"""The collection `statistics`: what happened, day by day, kept for ever.

============ ===================================================================================
member       is
============ ===================================================================================
`_id`        `"2026-11-22:usps"`; without a slug of all couriers
day, slug    the day (a date, 00:00 UTC) and the courier; `slug` is absent of all
counts       how often: SUCCESS, ERROR, CANCELLED, and what limits/lua/lib/tallies.lua names
waited, took operations, and calls, by the bound in ms that their time did not exceed
============ ===================================================================================

Figures only grow, so a process that writes a day again, also late, makes it no worse.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pymongo.collection import Collection

from service.results.connection import Document
from service.results.refused import Refusal, upsert_each
from tracking.tally import Day, Histogram, Tally

HISTOGRAMS = ("waited", "took")


def save_days(statistics: Collection[Document], days: Sequence[Day]) -> list[Refusal]:
    """Store the figures of days; a figure that is stored already only grows.

    Tells which MongoDB refuses; the others are stored.
    """
    changes = {
        _name(day.at, day.slug): {"$max": figures, "$setOnInsert": _members(day)}
        for day in days
        if (figures := dict(_figures(day.tally)))
    }
    return upsert_each(statistics, changes)


def read_days(statistics: Collection[Document], slug: str, days: Sequence[int]) -> dict[int, Tally]:
    """What happened on those of `days` (Unix seconds) of which something is known."""
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
