"""Attempts of relayed requests, from MongoDB to the bytes that a receiver gets."""

from __future__ import annotations

import datetime as dt
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

import pytest
from receiving import BODY, FOREIGN, HERE, OK, SERVICE, Permit, Wire, answering, at_localhost
from standardwebhooks import Webhook

from service.ports import Outcome
from service.worker.deliveries.delivery import Delivery, DeliveryState, delivery_id, delivery_in
from service.worker.deliveries.delivery import document_of as delivery_document
from service.worker.deliveries.destination import Allowed
from service.worker.deliveries.foreign_request import ForeignRequest, foreign_event
from service.worker.deliveries.secret_box import SecretBox, new_key
from service.worker.deliveries.sender import Sender
from service.worker.deliveries.service import SealedSecret, ServiceType
from service.worker.deliveries.signing import Signer, new_secret
from service.worker.deliveries.store import Deliveries
from service.worker.deliveries.work import AttemptFailed, DeliveryWork
from service.worker.results.change import EventName
from service.worker.results.connection import Store
from tracking.call import Attempt, Call

BOX = SecretBox.of(new_key("a"))
LIVE = new_secret(), new_secret()
SEALED = tuple(SealedSecret(BOX.closed(each, SERVICE.id)) for each in LIVE)
RELAY = replace(SERVICE, secrets=SEALED, type=ServiceType.RELAY)


@dataclass
class Relay:
    """A relay whose destination answers OK; `requests` are the bytes that came there."""

    store: Store
    sender: Sender
    port: int
    requests: list[bytes]

    def takes(self, foreign: ForeignRequest, **members: Any) -> Delivery:
        """Store a request as the intake does, and its delivery with these members."""
        event, at = foreign_event(foreign, RELAY.account), foreign.received_at
        self.store.events.insert_one(event)
        name = delivery_id(foreign.id, EventName.RELAY_REQUEST, RELAY.id)
        about = (RELAY.id, RELAY.account, event["_id"], EventName.RELAY_REQUEST, at, at)
        delivery = replace(Delivery(name, *about), **members)
        self.store.deliveries.insert_one(delivery_document(delivery))
        return delivery

    async def attempt(self, delivery: Delivery, **members: Any) -> Outcome:
        """Make an attempt of a delivery, and store what comes of it; `members` of the service."""
        there = f"http://shop.example:{self.port}/hooks"
        service = replace(RELAY, destination=there, **members)
        work = DeliveryWork(Deliveries(self.store), lambda _: service, self.sender, Signer(BOX))
        call = Call("c1", service.line, delivery.request(), Permit(), 0, 0.0)
        (outcome,) = await work.perform([call])
        if outcome.content:  # type: ignore[union-attr]
            await work.store(call, outcome, Attempt(dt.datetime.now(dt.UTC), "any", 1))  # type: ignore[arg-type]
        return outcome

    def now(self) -> Delivery:
        return delivery_in(self.store.deliveries.find_one() or {})


@pytest.fixture
async def relay(store: Store, wire: Wire, closing: AsyncExitStack) -> Relay:
    requests: list[bytes] = []
    port = await wire(answering(OK, requests))
    allowed = Allowed((HERE,), http=True, ports=frozenset({port}))
    sender = Sender(lambda _: allowed, addresses=at_localhost)
    closing.push_async_callback(sender.close)
    return Relay(store, sender, port, requests)


async def test_a_relayed_request_arrives_with_what_is_added_behind_it(relay: Relay) -> None:
    headers = (("X-B", "caf\xe9"), ("x-a", "1"), ("X-B", "2"), ("CDN-Loop", "other; v=1"))
    foreign = replace(FOREIGN, method="put", target="/a%2Fb?x=%C3%A9", headers=headers)
    delivery = relay.takes(foreign, made=2)
    await relay.attempt(delivery, headers={"x-a": "ours", "X-Shop": "7"})

    (request,) = relay.requests
    head, _, body = request.decode("latin-1").partition("\r\n\r\n")
    lines = head.split("\r\n")
    assert body.encode("latin-1") == BODY
    assert lines[:5] == [
        "put /hooks/a%2Fb?x=%C3%A9 HTTP/1.1",
        f"Host: shop.example:{relay.port}",
        "X-B: caf\xe9",
        "X-B: 2",
        f"Content-Length: {len(BODY)}",
    ]
    added = dict(each.split(": ", 1) for each in lines[5:])
    signature, at = added.pop("relay-signature"), int(added.pop("relay-timestamp"))
    assert added == {
        "x-a": "ours",
        "X-Shop": "7",
        "relay-attempt": "3",
        "relay-received-at": "2026-11-26T03:00:00.250Z",
        "relay-original-url": foreign.url,
        "relay-id": delivery.id,
        "cdn-loop": "other; v=1, courier-tracking-worker",
    }
    sent_at = dt.datetime.fromtimestamp(at, dt.UTC)
    assert abs(dt.datetime.now(dt.UTC) - sent_at) < dt.timedelta(seconds=60)
    signed = [Webhook(each).sign(delivery.id, sent_at, BODY.decode()) for each in LIVE]
    assert signature.split(" ") == signed
    assert (relay.now().state, relay.now().made) == (DeliveryState.DELIVERED, 3)


async def test_what_came_through_here_twice_goes_nowhere(relay: Relay) -> None:
    twice = (("CDN-Loop", "courier-tracking-worker"), ("cdn-loop", "Courier-Tracking-Worker"))
    delivery = relay.takes(replace(FOREIGN, headers=twice))

    with pytest.raises(AttemptFailed, match="forbidden_address"):
        await relay.attempt(delivery)
    assert relay.requests == []


@pytest.mark.parametrize("left", [{"bodies": {}}, None])
async def test_a_request_of_which_the_body_is_not_kept_any_more_is_dead(
    left: dict[str, Any] | None, relay: Relay
) -> None:
    delivery = relay.takes(FOREIGN)
    if left is None:
        relay.store.events.delete_many({})
    else:
        relay.store.events.update_many({}, {"$set": left})
    await relay.attempt(delivery)

    assert (relay.now().state, relay.now().why) == (DeliveryState.DEAD, "no_body")
    assert relay.requests == []


async def test_an_empty_body_is_a_body(relay: Relay) -> None:
    await relay.attempt(relay.takes(replace(FOREIGN, body=b"")))

    (request,) = relay.requests
    assert b"\r\nContent-Length: 0\r\n" in request
    assert relay.now().state is DeliveryState.DELIVERED


async def test_an_answer_to_head_has_no_body_and_leaves_the_connection_in_order(
    relay: Relay, wire: Wire
) -> None:
    connections = list[Any]()
    once = answering(OK.removesuffix(b"ok"))

    async def serve(*streams: Any) -> None:
        connections.append(streams)
        await once(*streams)

    relay.port = await wire(serve)
    allowed = Allowed((HERE,), http=True, ports=frozenset({relay.port}))
    relay.sender = Sender(lambda _: allowed, addresses=at_localhost)
    for number in range(2):
        foreign = replace(FOREIGN, id=f"{number:032x}", method="HEAD", body=b"")
        await relay.attempt(relay.takes(foreign))
    await relay.sender.close()

    states = [each["state"] for each in relay.store.deliveries.find()]
    assert (states, len(connections)) == (["delivered"] * 2, 1)
