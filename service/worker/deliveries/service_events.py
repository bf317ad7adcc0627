"""Events of services: an account's other services hear that one was disabled, or has recovered.

============= =====================================================================================
in `data`     is
============= =====================================================================================
`service`     the name of the service that it is about
`destination` where it delivers to, without the path: that may be a secret
`why`         `gone`, `failing`: why it was disabled
`at`          when that was, or since when it is well
============= =====================================================================================
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from functools import partial

from service.worker.deliveries import body
from service.worker.deliveries.alert_texts import site_of
from service.worker.deliveries.delivery import event_id
from service.worker.deliveries.health import takes_new
from service.worker.deliveries.outbox import Inserted, Told, delivery_of, insert
from service.worker.deliveries.service import NOT_DELETED, Format, Service, ServiceType
from service.worker.deliveries.subscriptions import readable
from service.worker.results.change import EventName
from service.worker.results.connection import Store
from service.worker.results.database import Collections, Document, log_refused
from tracking.request import Account

ALWAYS_US = float("inf")
"""It is about no parcel, so nobody forgets it."""


class ServiceEvents:
    """Makes events of services; implements `alerts.TellServices`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(
        self, event: EventName, service: Document, change: str, at: dt.datetime
    ) -> None:
        """Make one, once for each `change`; the filler brings it in. Raises ResultsDown."""
        make = partial(make_event, self._store, event, service, change=change, at=at)
        inserted = await self._store.in_background(make)
        log_refused(self._store.events, inserted.kept.values())


def make_event(
    stores: Collections, event: EventName, service: Document, *, change: str, at: dt.datetime
) -> Inserted:
    """Insert an event about a service, with its deliveries. Raises PyMongoError: repeat it."""
    others = [
        each
        for each in services_of(stores, service["account"])
        if each.id != service["_id"] and wants(each, event) and takes_new(each, at)
    ]
    if not others:
        return insert(stores, [])
    data = {
        "service": service["name"],
        "destination": site_of(service["destination"]),
        "why": service.get("disabled_why") or None,
        "at": at,
    }
    document = body.event_document(
        name=event_id(change, event),
        account=Account(service["account"]),
        event=event,
        at=at,
        bodies={Format.STANDARD: body.standard(event, at, data)},
    )
    deliveries = [delivery_of(change, document, each) for each in others]
    return insert(stores, [Told(change, document, deliveries, ALWAYS_US)])


def wants(service: Service, event: EventName) -> bool:
    """Whether a service wants to hear of an event that is about no parcel."""
    wanted = service.wanted.events
    return service.type is ServiceType.WEBHOOK and (not wanted or event in wanted)


def services_of(stores: Collections, account: str) -> Iterator[Service]:
    """Read the services of an account that are not deleted. Raises PyMongoError."""
    return readable(stores.services.find({**NOT_DELETED, "account": account}))
