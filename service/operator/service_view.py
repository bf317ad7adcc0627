"""The view of a service: what is set of it, what waits for it, and how it did day by day.

What waits is counted when somebody asks, as far as that is quick. Figures of days are counted by
workers every ten minutes, and kept for ever (deliveries/totals.py).
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from service.operator.connections import Collections
from service.operator.relays import addresses_of, ingest_members, usual_ingest
from service.operator.services import Services, ServiceType, usual_service
from service.worker.deliveries.delivery import DeliveryState, number_in
from service.worker.deliveries.health import Alert, alert_in
from service.worker.deliveries.health_notes import failing_since_in
from service.worker.deliveries.keeper import COUNTS
from service.worker.deliveries.service import Service, document_of
from service.worker.deliveries.standing import beginning, day_name, days_of
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

HOUR, HOURS = dt.timedelta(hours=1), 24

MAILS_MOST = 100


class Hour(NamedTuple):
    """What was tried in an hour, the one that runs included: how much of it failed."""

    at: dt.datetime
    attempts: int
    failed: int


class Row(NamedTuple):
    """A service in a list: its members, what waited when a worker counted, attempts of a day."""

    members: Document
    open: int | None
    held: int | None
    attempts: int
    failed: int


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
            "number": number_in(each["_id"]),
            "at": each["at"],
            "ms": round(each["ms"]),
            "status": each["status"],
            "failure": each["failure"],
        }
        for each in found
    ]


def usual_members(services: Services, account: Account, kind: ServiceType) -> Document:
    """Make the members of a service that is not made yet, and of which nothing is wished."""
    ingest = usual_ingest(kind)
    return members(services, usual_service(services.config, account, "", kind, ingest))


def rows_of(services: Services, account: Account) -> list[Row]:
    """List an account's services by name, each with how it does. Raises PyMongoError."""
    own, stores = services.of(account), services.stores
    ids = [each.id for each in own]
    kept = stores.alerts.find_one({"_id": COUNTS}, {f"services.{each}": 1 for each in ids}) or {}
    counted, hours = kept.get("services") or {}, hours_of(stores, ids, dt.datetime.now(dt.UTC))
    return [
        Row(
            members(services, each),
            counted.get(each.id, {}).get("open"),
            counted.get(each.id, {}).get("held"),
            sum(hour.attempts for hour in hours[each.id]),
            sum(hour.failed for hour in hours[each.id]),
        )
        for each in own
    ]


def hours_of(
    stores: Collections, services: Sequence[str], now: dt.datetime
) -> Mapping[str, list[Hour]]:
    """Read what was tried in each of the last HOURS hours, by the ids of services.

    Workers count every ten minutes. Raises PyMongoError.
    """
    first = beginning(now, HOUR) - (HOURS - 1) * HOUR
    found = {each: [Counter[str]() for _ in range(HOURS)] for each in services}
    days = {beginning(first, DAY), beginning(now, DAY)}
    names = [day_name(day, each) for day in days for each in services]
    for document in stores.statistics.find({"_id": {"$in": names}}):
        for name, part in (document.get("parts") or {}).items():
            index = (document["day"] + int(name[:2]) * HOUR - first) // HOUR
            if 0 <= index < HOURS:
                found[document["service"]][index].update(part)
    return {
        name: [
            Hour(first + index * HOUR, each["attempts"], each["failed"])
            for index, each in enumerate(counts)
        ]
        for name, counts in found.items()
    }


def alert_of(stores: Collections, service: str) -> Alert | None:
    """Find what people were alerted of about a service; None: it is well. Raises PyMongoError."""
    found = stores.alerts.find_one({"_id": f"service:{service}"})
    return None if found is None else alert_in(found)


def mails_of(
    stores: Collections, accounts: Sequence[str], service: str | None = None
) -> list[Document]:
    """List the alerts that were mailed to accounts ("": who operates), the newest first.

    `service`: those about the service of this id alone. Raises PyMongoError.
    """
    wanted: Document = {"account": {"$in": [*accounts]}}
    if service is not None:
        wanted["about"] = f"service:{service}"
    return list(stores.mails.find(wanted).sort("made_at", -1).limit(MAILS_MOST))
