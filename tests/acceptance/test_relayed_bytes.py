"""Foreign requests through a worker to the network: thousands arrive byte for byte.

How requests come to the worker is a `Source`: any way of it ends in the same bytes.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec

import greenstalk
import pytest
from hooks import Hooks
from plant import Plant
from running_worker import until

from devstack.foreign import Foreign, foreign_requests, wrong_arrivals
from devstack.raw_receiver import RawReceiver, raw_receiver
from service.worker.deliveries.delivery import Delivery, delivery_id
from service.worker.deliveries.delivery import document_of as delivery_document
from service.worker.deliveries.foreign_request import (
    WEBHOOKS_TUBE,
    ForeignRequest,
    encode_foreign,
    foreign_event,
    new_request_id,
)
from service.worker.deliveries.ingest_label import IngestLabel, new_label
from service.worker.deliveries.secret_box import SecretBox
from service.worker.deliveries.service import (
    Ingest,
    SealedSecret,
    Service,
    ServiceType,
    document_of,
    new_service_id,
)
from service.worker.deliveries.signing import new_secret
from service.worker.results.change import EventName
from service.worker.results.document import stored_now
from tracking.request import MAIN

Source = Callable[[Plant, Service, Sequence[Foreign]], None]

REQUESTS = 5_000
PATIENCE_SECONDS = 120.0


def address_of(service: Service) -> str:
    return f"https://in.example/{_label_of(service)}"


def stored(plant: Plant, service: Service, requests: Sequence[Foreign]) -> None:
    """Store requests with their deliveries, which a worker finds."""
    for each in requests:
        taken = _taken(service, each)
        event, at = foreign_event(taken, MAIN), taken.received_at
        name = delivery_id(taken.id, EventName.RELAY_REQUEST, service.id)
        delivery = Delivery(
            name, service.id, MAIN, event["_id"], EventName.RELAY_REQUEST, made_at=at, next_at=at
        )
        plant.collection("events").insert_one(event)
        plant.collection("deliveries").insert_one(delivery_document(delivery))


def put(plant: Plant, service: Service, requests: Sequence[Foreign]) -> None:
    """Put requests on the tube `webhooks`, as a door does."""
    address = (plant.beanstalkd.host, plant.beanstalkd.port)
    with greenstalk.Client(address, encoding=None, use=WEBHOOKS_TUBE) as client:  # type: ignore[arg-type]
        for each in requests:
            client.put(encode_foreign(_taken(service, each)))


SOURCES: list[Source] = [stored]
if find_spec("service.worker.deliveries.relay_intake"):  # a worker takes jobs of that tube
    SOURCES.append(put)


def _label_of(service: Service) -> IngestLabel:
    return IngestLabel(service.account, service.name, service.ingest.random)


def _taken(service: Service, foreign: Foreign) -> ForeignRequest:
    """What a door makes of a request."""
    message = foreign.message
    return ForeignRequest(
        id=new_request_id(),
        label=_label_of(service),
        received_at=stored_now(),
        method=message.method,
        target=message.target,
        url=address_of(service) + message.target,
        headers=message.headers,
        body=message.body,
    )


def relay_to(receiver: RawReceiver, hooks: Hooks) -> Service:
    """Make a relay that delivers to a receiver, before any worker runs."""
    settings = hooks.plant.settings
    settings["webhooks.allowed.main.ports"] = [receiver.port]
    name, box = new_service_id(), SecretBox.of(str(settings["webhooks.keys"]))
    service = Service(
        id=name,
        account=MAIN,
        name="erp",
        destination=f"http://127.0.0.1:{receiver.port}",
        secrets=(SealedSecret(box.closed(new_secret(), name)),),
        made_at=dt.datetime.now(dt.UTC),
        concurrent=50,
        per_second=1_000,
        type=ServiceType.RELAY,
        ingest=Ingest(random=new_label(MAIN, "erp", b"k" * 32).random),
    )
    document = document_of(service) | {"live": True, "slot": 0}
    hooks.plant.collection("services").insert_one(document)
    return service


@pytest.mark.prove
@pytest.mark.parametrize("source", SOURCES)
def test_foreign_requests_arrive_byte_for_byte_through_a_worker(
    source: Source, plant: Plant
) -> None:
    plant.hasty_beanstalkd()
    with raw_receiver() as receiver:
        service = relay_to(receiver, hooks := Hooks(plant))
        requests = list(foreign_requests(2, REQUESTS, address_of(service), int(time.time())))
        source(plant, service, requests)
        plant.hire().ready()
        hooks.all_delivered("erp", REQUESTS, PATIENCE_SECONDS)

        assert list(wrong_arrivals(requests, receiver.arrived, int(time.time()))) == []
        until(lambda: not hooks.plant.producer.held(), 10.0, "no job is left")
