"""Services, deliveries and attempts of a test's own, as workers store them."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from service.worker.deliveries import delivery as deliveries
from service.worker.deliveries import service as services
from service.worker.deliveries.delivery import Delivery, attempt_id, delivery_id, event_id
from service.worker.deliveries.foreign_request import (
    ForeignRequest,
    foreign_event,
    new_request_id,
)
from service.worker.deliveries.ingest_label import new_label
from service.worker.deliveries.service import (
    SealedSecret,
    Service,
    ServiceState,
    ServiceType,
    new_service_id,
)
from service.worker.results.change import EventName
from tracking.request import MAIN, Account

NOTED_AT = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)
BODY = {"type": "parcel.changed", "timestamp": "2026-11-20T12:00:00Z", "data": {"tag": "InTransit"}}
KEY = "test:" + "A" * 43 + "="
"""A key of [webhooks] keys."""


def store_service(collections: Any, name: str = "orders", **members: Any) -> Service:
    """A service that is there, of `main` unless another account is given."""
    service = Service(
        id=new_service_id(),
        account=members.pop("account", MAIN),
        name=name,
        destination=f"https://{name}.example/hooks",
        secrets=(SealedSecret("test:c2VhbGVk"),),
        made_at=NOTED_AT,
        **members,
    )
    collections.services.insert_one(services.document_of(service))
    return service


def set_state(collections: Any, service: Service, state: ServiceState) -> None:
    collections.services.update_one({"_id": service.id}, {"$set": {"state": state.value}})


def store_delivery(
    collections: Any, service: Service, minutes: int = 0, *, body: bool = True, **members: Any
) -> Delivery:
    """A delivery of an event that was noted so many minutes after NOTED_AT, with its body."""
    kind = members.pop("type", EventName.PARCEL_CHANGED)
    change = f"{collections.deliveries.count_documents({})}"
    at = NOTED_AT + dt.timedelta(minutes=minutes)
    given = {
        "id": delivery_id(change, kind, service.id),
        "parcel": "usps:9405903699300184125060",
        **members,
    }
    made = Delivery(
        service=service.id,
        account=Account(service.account),
        event=event_id(change, kind),
        type=kind,
        made_at=at,
        next_at=at,
        **given,
    )
    collections.deliveries.insert_one(deliveries.document_of(made))
    if body:
        bodies = {"standard": json.dumps(BODY).encode()}
        until = at + dt.timedelta(days=60)
        collections.events.insert_one({"_id": made.event, "bodies": bodies, "until": until})
    return made


def store_attempt(collections: Any, delivery: Delivery, number: int, **members: Any) -> None:
    """An attempt that was made, and answered 500 unless something else is given."""
    row = {
        "_id": attempt_id(delivery.id, number),
        "delivery": delivery.id,
        "service": delivery.service,
        "account": delivery.account,
        "at": delivery.made_at + dt.timedelta(seconds=number),
        "ms": 41.6,
        "status": 500,
        "failure": "server_error",
        "headers": {"content-type": "text/plain"},
        "body": b"out of order\xff",
    }
    collections.attempts.insert_one(row | members)


def store_relay(collections: Any, name: str = "shopify", **members: Any) -> Service:
    """A relay that is there, of `main` unless another account is given."""
    return store_service(collections, name, type=ServiceType.RELAY, **members)


def foreign(service: Service, **members: Any) -> ForeignRequest:
    """A request that another system sent to a relay: an order, unless something else is given."""
    label = new_label(service.account, service.name, b"k" * 32)
    target = members.get("target", "/orders/create?shop=1")
    given = {
        "id": new_request_id(),
        "received_at": NOTED_AT,
        "method": "POST",
        "target": target,
        "url": f"https://{label}.in.example{target}",
        "headers": (("Content-Type", "application/json"), ("X-Shopify-Topic", "orders/paid")),
        "body": b'{"id": 4711, "name": "Gr\\u00fcn"}',
        **members,
    }
    return ForeignRequest(label=label, **given)


def store_relayed(
    collections: Any, service: Service, request: ForeignRequest | None = None, **members: Any
) -> Delivery:
    """The delivery of a request that a relay took, with its event."""
    request = request or foreign(service)
    event = foreign_event(request, service.account)
    given = {"made_at": request.received_at, "next_at": request.received_at, **members}
    made = Delivery(
        id=delivery_id(request.id, EventName.RELAY_REQUEST, service.id),
        service=service.id,
        account=service.account,
        event=event["_id"],
        type=EventName.RELAY_REQUEST,
        **given,
    )
    collections.events.insert_one(event)
    collections.deliveries.insert_one(deliveries.document_of(made))
    return made


def stored(collections: Any, delivery: Delivery) -> Delivery:
    """The delivery as it is stored now."""
    [found] = collections.deliveries.find({"_id": delivery.id})
    return deliveries.delivery_in(found)
