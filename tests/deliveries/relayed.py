"""Relays, and what other systems send to them, for tests of what becomes of it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import Any

from service.worker.deliveries.foreign_request import (
    ForeignRequest,
    encode_foreign,
    new_request_id,
)
from service.worker.deliveries.ingest_label import IngestLabel, new_label
from service.worker.deliveries.pushes import Pushes
from service.worker.deliveries.service import (
    Ingest,
    Service,
    ServiceState,
    ServiceType,
    document_of,
    new_service_id,
)
from service.worker.results.database import Collections
from service.worker.results.document import stored_now
from tracking.request import MAIN, Account

KEY = b"k" * 32


async def put_nothing(_: object) -> None:
    raise AssertionError("nothing was to be put")


NO_PUSHES = Pushes(None, put_nothing)
RECEIVED = dt.datetime(2026, 11, 26, 12, 0, 0, 250_000, dt.UTC)


def relay(name: str = "erp", account: Account = MAIN, **members: Any) -> Service:
    """Make a relay; members of `ingest` are given as `ingest`."""
    random = new_label(account, name, KEY).random
    ingest = Ingest(random=random, **members.pop("ingest", {}))
    made = Service(
        new_service_id(), account, name, "https://shop.example/in", (), made_at=stored_now()
    )
    return replace(made, **{"type": ServiceType.RELAY, "ingest": ingest, **members})


def stored(stores: Collections, service: Service) -> Service:
    """Store a service as it is made."""
    is_live = {} if service.state is ServiceState.DELETED else {"live": True}
    stores.services.insert_one(document_of(service) | is_live | {"slot": service.id})
    return service


def label_of(service: Service) -> IngestLabel:
    return IngestLabel(service.account, service.name, service.ingest.random)


def request_to(service: Service, **members: Any) -> ForeignRequest:
    """What another system sends to a relay."""
    made = ForeignRequest(
        id=new_request_id(),
        label=label_of(service),
        received_at=RECEIVED,
        method="POST",
        target="/hooks?a=1",
        url=f"https://in.example/{label_of(service)}/hooks?a=1",
        headers=(("Content-Type", "application/json"), ("X-Event", "e1")),
        body=b'{"order": 1}',
    )
    return replace(made, **members)


@dataclass
class Job:
    """A job of the tube `webhooks`, as far as the intake looks at it."""

    body: bytes

    @classmethod
    def of(cls, request: ForeignRequest) -> Job:
        return cls(encode_foreign(request))
