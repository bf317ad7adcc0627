"""The view of a service: what is set of it, what waits for it, and how it did day by day.

What waits is counted when somebody asks, as far as that is quick. Figures of days are counted by
workers every ten minutes, and kept for ever (deliveries/totals.py).
"""

from __future__ import annotations

import datetime as dt

from service.operator.connections import Collections
from service.operator.deliveries import number_in
from service.operator.relays import addresses_of, ingest_members
from service.operator.services import Services
from service.worker.deliveries.delivery import DeliveryState
from service.worker.deliveries.health_notes import failing_since_in
from service.worker.deliveries.service import Service, document_of
from service.worker.deliveries.standing import beginning, days_of
from service.worker.results.database import FAILED, Document
from tracking.request import Account

COUNTED_MOST = 10_000
"""Of what waits: to count a million takes a second."""

DAYS = 30
"""Days that are shown, today's among them."""

DAY = dt.timedelta(days=1)
DAY_FIGURES = (
    *("requests", "delivered", "dead", "cancelled", "completed", "attempts", "failed", "retried"),
)

ERRORS_MOST = 5
"""The last failed attempts that are shown of a service."""


def members(services: Services, service: Service) -> Document:
    """Make the members that an account sees of its service: no secret, and no header's value.

    `disabled_at` and `disabled_why` are beside them where it was switched off. `addresses`: where
    it takes requests.
    """
    document = document_of(service)
    hidden = ("_id", "account", "secrets", "headers", "ingest")
    return {
        "name": service.name,
        "type": service.type.value,
        "line": service.line,
        "addresses": addresses_of(services.config, service),
        **{name: each for name, each in document.items() if name not in hidden},
        "headers": sorted(document["headers"]),
        "ingest": ingest_members(service),
    }


def whole_members(services: Services, account: Account, name: str) -> Document:
    """Make the members that an account sees of one service, and of how it does.

    `open` and `held` are COUNTED_MOST at most. `failing_since`: when the first of the failures in a
    row was; None: its last attempt was well. `days`: what happened on a day (UTC), deliveries by
    their ends, attempts, and how many failed; days without any are missing. `errors`: the last
    attempts that failed, the newest first. Raises UnknownService, PyMongoError.
    """
    service, stores = services.named(account, name), services.stores
    today = beginning(dt.datetime.now(dt.UTC), DAY)
    days = days_of(stores.statistics, [service.id], [today - count * DAY for count in range(DAYS)])
    kept = stores.services.find_one({"_id": service.id}, {"health": 1}) or {}
    return members(services, service) | {
        "open": _waiting(stores, service, DeliveryState.OPEN),
        "held": _waiting(stores, service, DeliveryState.HELD),
        "failing_since": failing_since_in(kept),
        "errors": _errors(stores, service),
        "days": [
            {"day": day} | {name: figures[name] for name in DAY_FIGURES} for day, _, figures in days
        ],
    }


def _waiting(stores: Collections, service: Service, state: DeliveryState) -> int:
    wanted = {"service": service.id, "state": state.value}
    return stores.deliveries.count_documents(wanted, limit=COUNTED_MOST)


def _errors(stores: Collections, service: Service) -> list[Document]:
    wanted = {"service": service.id, **FAILED}
    found = stores.attempts.find(wanted).sort("at", -1).limit(ERRORS_MOST)
    return [
        {
            "delivery": each["delivery"],
            "number": number_in(each),
            "at": each["at"],
            "ms": round(each["ms"]),
            "status": each["status"],
            "failure": each["failure"],
        }
        for each in found
    ]
