"""How webhooks stand, and how they did on each day: what people and Prometheus read.

The days are written by totals.py, the count of what is open and held by keeper.py.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pymongo.collection import Collection
from pymongo.cursor import Cursor

from service.worker.deliveries.delivery import FINAL
from service.worker.deliveries.keeper import COUNTS, HOLDS, OPEN
from service.worker.deliveries.service import NOT_DELETED
from service.worker.results.database import Collections, Document

DAY = dt.timedelta(days=1)

FIGURES = (*sorted(state.value for state in FINAL), "attempts", "failed", "requests", "retried")
"""Of a service on a day: deliveries by their end, attempts, how many of those failed, and how many
were not the first of their delivery; and requests that a relay took."""

Pipeline = list[Mapping[str, Any]]


class Standing(NamedTuple):
    """How webhooks stand: deliveries by their states, those of today that are over, services."""

    deliveries: Counter[str]
    services: Counter[str]
    mails: int


def standing_of(store: Collections, now: dt.datetime) -> Standing:
    """Read how webhooks stand. Raises PyMongoError."""
    deliveries = Counter[str]()
    for each in days_on(store.statistics, beginning(now, DAY)):
        deliveries.update(figures_of(each))
    counted = store.alerts.find_one({"_id": COUNTS}) or {}
    for each in (counted.get("services") or {}).values():
        deliveries.update({state: each[state] for state in (OPEN, HOLDS)})
    grouped: Pipeline = [
        {"$match": NOT_DELETED},
        {"$group": {"_id": "$state", "n": {"$sum": 1}}},
    ]
    services = Counter({each["_id"]: each["n"] for each in store.services.aggregate(grouped)})
    return Standing(deliveries, services, store.mails.count_documents({"ended_at": None}))


def days_of(
    statistics: Collection[Document], services: Sequence[str], days: Sequence[dt.datetime]
) -> list[tuple[dt.datetime, str, Counter[str]]]:
    """Read the figures of services on days: the day, the service's id, its figures by FIGURES.

    Raises PyMongoError.
    """
    names = [day_name(day, service) for day in days for service in services]
    found = statistics.find({"_id": {"$in": names}}).sort("_id")
    return [(each["day"], each["service"], figures_of(each)) for each in found]


def figures_of(day: Document) -> Counter[str]:
    """Add up the figures of a day."""
    figures = Counter[str](day.get("counts") or {})
    for part in (day.get("parts") or {}).values():
        figures.update(part)
    return figures


def days_on(statistics: Collection[Document], day: dt.datetime) -> Cursor[Document]:
    """Find the day of every service. Raises PyMongoError."""
    first = day_name(day, "")
    return statistics.find({"_id": {"$gte": first, "$lt": f"{first}\x7f"}})


def day_name(day: dt.datetime, service: str) -> str:
    """Name a service's day in `statistics`."""
    return f"{day:%Y-%m-%d}:~{service}"


def beginning(at: dt.datetime, span: dt.timedelta) -> dt.datetime:
    """Find when the span of time began in which a moment is."""
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return epoch + (at - epoch) // span * span
