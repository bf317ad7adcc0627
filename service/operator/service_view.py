"""The view of a service: what waits for it, since when it fails, and its figures day by day.

What waits is counted when somebody asks, as far as that is quick. Figures of days are counted by
workers every ten minutes, and kept for ever (deliveries/totals.py).
"""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

from service.operator.connections import Collections
from service.worker.deliveries.delivery import DeliveryState
from service.worker.deliveries.service import Service
from service.worker.deliveries.standing import FIGURES, beginning, days_of

COUNTED_MOST = 10_000
"""Of what waits: to count a million takes a second."""

DAYS = 30
"""Days that are shown, today's among them."""

DAY = dt.timedelta(days=1)


class DayFigures(NamedTuple):
    """What happened on a day (UTC): deliveries by their ends, attempts, and how many failed."""

    day: dt.datetime
    delivered: int
    dead: int
    cancelled: int
    attempts: int
    failed: int


class ServiceView(NamedTuple):
    """How a service does. `open` and `held` are COUNTED_MOST at most; days without any are missing.

    `failing_since`: when the first of the failures in a row was; None: its last attempt was well.
    """

    open: int
    held: int
    failing_since: dt.datetime | None
    days: list[DayFigures]


def view_of(stores: Collections, service: Service) -> ServiceView:
    """Tell how a service does. Raises PyMongoError."""
    today = beginning(dt.datetime.now(dt.UTC), DAY)
    days = [today - count * DAY for count in range(DAYS)]
    told = [
        DayFigures(day, **{name: figures[name] for name in FIGURES})
        for day, _, figures in days_of(stores.statistics, [service.id], days)
    ]
    kept = stores.services.find_one({"_id": service.id}, {"health": 1}) or {}
    return ServiceView(
        _waiting(stores, service, DeliveryState.OPEN),
        _waiting(stores, service, DeliveryState.HELD),
        (kept.get("health") or {}).get("failing_since"),
        told,
    )


def _waiting(stores: Collections, service: Service, state: DeliveryState) -> int:
    wanted = {"service": service.id, "state": state.value}
    return stores.deliveries.count_documents(wanted, limit=COUNTED_MOST)
