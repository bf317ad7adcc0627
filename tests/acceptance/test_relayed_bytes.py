"""Foreign requests through a door, a tube and a worker: thousands arrive byte for byte.

How they come to the worker is a `Source`: whichever way, they end in the same bytes.
"""

from __future__ import annotations

import datetime as dt
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import NamedTuple

import pytest
from hooks import Api, Hooks
from plant import WORKER, Plant
from running_worker import BOOT_SECONDS, until

from devstack.foreign import Foreign, foreign_requests, wrong_arrivals
from devstack.raw_receiver import RawReceiver, raw_receiver
from devstack.servers import free_port
from service.worker.deliveries.delivery import Delivery, delivery_id
from service.worker.deliveries.delivery import document_of as delivery_document
from service.worker.deliveries.foreign_request import (
    WEBHOOKS_TUBE,
    ForeignRequest,
    encode_foreign,
    foreign_event,
    new_request_id,
)
from service.worker.deliveries.ingest_label import PATH, IngestLabel, new_label
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

PATIENCE_SECONDS = 120.0
SENDERS = 8
KEY = b"k" * 32


class Relay(NamedTuple):
    """A relay, the host of its door, and the path that its senders write before a target."""

    plant: Plant
    service: Service
    host: str
    path: str

    @property
    def address(self) -> str:
        return f"https://{self.host}{self.path}"


Source = Callable[[Relay, Sequence[Foreign]], None]


def stored(relay: Relay, requests: Sequence[Foreign]) -> None:
    """Store requests with their deliveries, which a worker finds."""
    service = relay.service
    for each in requests:
        taken = _taken(relay, each)
        event, at = foreign_event(taken, MAIN), taken.received_at
        name = delivery_id(taken.id, EventName.RELAY_REQUEST, service.id)
        about = (service.id, MAIN, event["_id"], EventName.RELAY_REQUEST, at, at)
        relay.plant.collection("events").insert_one(event)
        relay.plant.collection("deliveries").insert_one(delivery_document(Delivery(name, *about)))


def put(relay: Relay, requests: Sequence[Foreign]) -> None:
    """Put requests on the tube `webhooks`, as a door does."""
    with relay.plant.producer.client(WEBHOOKS_TUBE) as client:
        for each in requests:
            client.put(encode_foreign(_taken(relay, each)))


def post(relay: Relay, requests: Sequence[Foreign]) -> None:
    """Send requests to a door, as their senders do, over some connections."""
    relay.plant.hire(command=[*WORKER, "ingest"])
    door = Api(f"http://{relay.host}")
    until(lambda: _knows_labels(door), BOOT_SECONDS, "the door knows which labels are genuine")
    left = iter(requests)
    with ThreadPoolExecutor(SENDERS) as senders:
        for each in [senders.submit(_send, relay, left) for _ in range(SENDERS)]:
            each.result()


SOURCES: list[tuple[Source, int]] = [(stored, 1_000), (put, 1_000), (post, 5_000)]


@pytest.mark.prove
@pytest.mark.parametrize(("source", "count"), SOURCES)
def test_foreign_requests_arrive_byte_for_byte_through_a_worker(
    source: Source, count: int, plant: Plant
) -> None:
    plant.hasty_beanstalkd()
    with raw_receiver() as receiver:
        relay = relay_to(receiver, hooks := Hooks(plant))
        requests = list(foreign_requests(2, count, relay.address, int(time.time())))
        plant.hire().ready()
        source(relay, requests)
        hooks.all_delivered("erp", count, PATIENCE_SECONDS)

        assert list(wrong_arrivals(requests, receiver.arrived, int(time.time()))) == []


def relay_to(receiver: RawReceiver, hooks: Hooks) -> Relay:
    """Make a relay that delivers to a receiver, before any worker runs."""
    plant, host, name = hooks.plant, f"127.0.0.1:{free_port()}", new_service_id()
    plant.settings |= {
        "webhooks.allowed.main.ports": [receiver.port],
        "ingest.listen": host,
        "ingest.keys": str(plant.file("keys.json")),
        "ingest.spool": str(plant.file("spool.sqlite")),
    }
    label = new_label(MAIN, "erp", KEY)
    secret = SecretBox.of(str(plant.settings["webhooks.keys"])).closed(new_secret(), name)
    service = Service(
        id=name,
        account=MAIN,
        name="erp",
        destination=f"http://127.0.0.1:{receiver.port}",
        secrets=(SealedSecret(secret),),
        made_at=dt.datetime.now(dt.UTC),
        concurrent=50,
        per_second=1_000,
        type=ServiceType.RELAY,
        ingest=Ingest(label.random, per_second=10_000, bytes_per_second=1 << 30),
    )
    document = document_of(service) | {"live": True, "slot": 0}
    plant.collection("services").insert_one(document)
    plant.collection("keys").insert_one({"_id": "ingest", "key": KEY})  # of labels
    return Relay(plant, service, host, f"{PATH}{label}")


def _taken(relay: Relay, foreign: Foreign) -> ForeignRequest:
    """What a door makes of a request."""
    service, message = relay.service, foreign.message
    return ForeignRequest(
        id=new_request_id(),
        label=IngestLabel(service.account, service.name, service.ingest.random),
        received_at=stored_now(),
        method=message.method,
        target=message.target,
        url=relay.address + message.target,
        headers=message.headers,
        body=message.body,
    )


def _knows_labels(door: Api) -> bool:
    """Whether a forged label is unknown: a door without their key says that it is not ready."""
    try:
        return door.get(f"{PATH}{new_label(MAIN, 'erp', b'f' * 32)}")[0] == HTTPStatus.NOT_FOUND
    except OSError:
        return False


def _send(relay: Relay, requests: Iterator[Foreign]) -> None:
    """Send requests over one connection, as long as there are any."""
    host, _, port = relay.host.partition(":")
    with (
        socket.create_connection((host, int(port)), timeout=20.0) as connection,
        connection.makefile("rb") as answers,
    ):
        for each in requests:
            message = each.message
            lines = [f"{message.method} {relay.path}{message.target} HTTP/1.1"]
            lines += [f"Host: {relay.host}", f"Content-Length: {len(message.body)}"]
            lines += [f"{name}: {value}" for name, value in message.headers]
            connection.sendall("\r\n".join([*lines, "\r\n"]).encode("latin-1") + message.body)
            head = list(iter(answers.readline, b"\r\n"))
            assert head[0].startswith(b"HTTP/1.1 202 "), (lines, head)
            if message.method != "HEAD":
                answers.read(next(int(line[15:]) for line in head if b"Content-Length" in line))
