"""Deliveries for pages to show: of a service that hears of events, and of a relay that forwards."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable

from service.worker.deliveries.delivery import (
    Delivery,
    DeliveryState,
    attempt_id,
    delivery_id,
    event_id,
)
from service.worker.deliveries.delivery import document_of as delivery_document
from service.worker.deliveries.foreign_request import ForeignRequest, foreign_event
from service.worker.deliveries.ingest_label import new_label
from service.worker.deliveries.service import Service, ServiceType, document_of, new_service_id
from service.worker.deliveries.words import words_of
from service.worker.results.change import EventName
from service.worker.results.database import Collections, Document, Names, indexes_for, make_indexes
from tracking.request import MAIN

SERVICES = 20
RELAYED = 0.3
"""The share of deliveries that are relayed requests."""

STATES = (
    *[DeliveryState.DELIVERED] * 900,
    *[DeliveryState.DEAD] * 60,
    *[DeliveryState.OPEN] * 30,
    *[DeliveryState.HELD] * 10,
)
SHOWN = 500
BATCH = 2_000
WORDS = ("orders", "paid", "refund", "stock", "customer", "parcel")


def fill(
    stores: Collections, count: int, now: dt.datetime, say: Callable[[str], None]
) -> list[Delivery]:
    """Store them, the newest now; gives some, each with its attempts."""
    wanted, drawn = indexes_for(Names("")), random.Random(3)
    for name in ("services", "events", "deliveries", "attempts", "mails"):
        make_indexes(stores.named(name), wanted[name])
    services = [_service(n, now) for n in range(SERVICES)]
    stores.services.insert_many(map(document_of, services))
    some: list[Delivery] = []
    for begin in range(0, count, BATCH):
        if begin % (BATCH * 50) == 0:
            say(f"{begin:,} deliveries are stored")
        made, events = list[Document](), list[Document]()
        for n in range(begin, begin + BATCH):
            at = now - dt.timedelta(seconds=(count - n) * 2.5)
            kind = ServiceType.RELAY if drawn.random() < RELAYED else ServiceType.WEBHOOK
            service = drawn.choice([each for each in services if each.type is kind])
            delivery, event, words = _delivery(drawn, service, at)
            made.append(delivery_document(delivery) | words)
            events.append(event)
            some += [delivery] if n % (count // SHOWN or 1) == 0 else []
        stores.events.insert_many(events, ordered=False)
        stores.deliveries.insert_many(made, ordered=False)
    stores.attempts.insert_many(each for delivery in some for each in _attempts(delivery))
    return some


def _service(n: int, now: dt.datetime) -> Service:
    kind = ServiceType.RELAY if n % 2 else ServiceType.WEBHOOK
    url = f"https://shop{n}.example/hooks"
    return Service(new_service_id(), MAIN, f"shop{n}", url, (), made_at=now, type=kind)


def _delivery(
    drawn: random.Random, service: Service, at: dt.datetime
) -> tuple[Delivery, Document, Document]:
    change, state = f"{drawn.randrange(16**32):032x}", drawn.choice(STATES)
    is_relay = service.type is ServiceType.RELAY
    kind = EventName.RELAY_REQUEST if is_relay else EventName.PARCEL_CHANGED
    failed = state is not DeliveryState.DELIVERED
    delivery = Delivery(
        id=delivery_id(change, kind, service.id),
        service=service.id,
        account=MAIN,
        event=event_id(change, kind),
        type=kind,
        made_at=at,
        next_at=at,
        parcel="" if is_relay else f"ups:{drawn.randrange(10**12):012}",
        state=state,
        made=3 if failed else 1,
        why="server_error" if failed else "",
        ended_at=at if state in {DeliveryState.DELIVERED, DeliveryState.DEAD} else None,
        status=500 if failed else 200,
    )
    if not is_relay:
        body = b'{"type":"parcel.changed","data":{"tag":"InTransit"}}'
        until = at + dt.timedelta(days=60)
        event = {"_id": delivery.event, "at": at, "bodies": {"standard": body}, "until": until}
        return delivery, event, {}
    topic = f"{drawn.choice(WORDS)}/{drawn.choice(WORDS)}"
    request = ForeignRequest(
        id=change,
        label=new_label(MAIN, service.name, b"k" * 32),
        received_at=at,
        method="POST",
        target=f"/{topic}",
        url=f"https://{service.name}.in.example/{topic}",
        headers=(("Content-Type", "application/json"), ("X-Topic", topic)),
        body=b'{"id": %d, "note": "%s"}' % (drawn.randrange(10**9), b"x" * 200),
    )
    return delivery, foreign_event(request, MAIN), {"words": words_of(request)}


def _attempts(delivery: Delivery) -> list[Document]:
    return [
        {
            "_id": attempt_id(delivery.id, number),
            "delivery": delivery.id,
            "service": delivery.service,
            "account": delivery.account,
            "at": delivery.made_at + dt.timedelta(seconds=number),
            "ms": 41.6,
            "status": delivery.status,
            "failure": "server_error" if delivery.why else None,
            "headers": {"content-type": "text/plain"},
            "body": b"out of order",
        }
        for number in range(1, delivery.made + 1)
    ]
