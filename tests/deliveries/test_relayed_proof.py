"""Thousands of foreign requests arrive byte for byte, and their senders' signatures verify."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace

import pytest
from portion import daily
from receiving import FOREIGN, HERE, SERVICE, Permit, at_localhost
from standardwebhooks import Webhook

from devstack.foreign import NUMBER, Foreign, foreign_requests, wrong_arrivals
from devstack.raw_receiver import RawReceiver, raw_receiver
from devstack.senders import VERIFIES, Message
from service.worker.deliveries.destination import Allowed
from service.worker.deliveries.foreign_request import ForeignRequest
from service.worker.deliveries.relayed import headers_about
from service.worker.deliveries.sender import Sender
from service.worker.deliveries.signing import new_secret, standard

ADDRESS = "https://shop-hook-random.in.example"
AT_ONCE = 20


def taken(foreign: Foreign) -> ForeignRequest:
    """What a door makes of a request."""
    message = foreign.message
    return replace(
        FOREIGN,
        id=f"{foreign.number:032x}",
        method=message.method,
        target=message.target,
        url=ADDRESS + message.target,
        headers=message.headers,
        body=message.body,
    )


async def relay(requests: Iterable[Foreign], sender: Sender, port: int, secret: str) -> None:
    """Send requests through a sender as attempts do, so many at once."""
    service = replace(SERVICE, destination=f"http://shop.example:{port}", timeout_seconds=20.0)
    left = iter(requests)

    async def send_some() -> None:
        for each in left:
            foreign, now = taken(each), int(dt.datetime.now(dt.UTC).timestamp())
            signed = standard([secret], f"D{each.number}", now, foreign.body)
            headers = headers_about(foreign, signed, 1)
            sent = await sender.send(service, headers, foreign.body, Permit(), foreign)
            assert sent.ending.failure is None

    await asyncio.gather(*(send_some() for _ in range(AT_ONCE)))


@pytest.fixture
def receiver() -> Iterable[RawReceiver]:
    with ExitStack() as stack:
        yield stack.enter_context(raw_receiver())


def verified(secret: str, message: Message) -> bool:
    """Whether the official verifier takes what the relay signed, under the names it knows."""
    headers = {
        name.replace("relay-", "webhook-"): value
        for name, value in message.headers
        if name.startswith("relay-")
    }
    # Its `verify` reads JSON, and here are forms too.
    given = Webhook(secret).sign(
        headers["webhook-id"],
        dt.datetime.fromtimestamp(int(headers["webhook-timestamp"]), dt.UTC),
        message.body.decode(),
    )
    return given == headers["webhook-signature"]


@pytest.mark.parametrize("count", daily([200], 200, 5_000))
async def test_foreign_requests_arrive_byte_for_byte_and_their_signatures_verify(
    count: int, receiver: RawReceiver, closing: AsyncExitStack
) -> None:
    allowed = Allowed((HERE,), http=True, ports=frozenset({receiver.port}))
    sender = Sender(lambda _: allowed, addresses=at_localhost)
    closing.push_async_callback(sender.close)
    requests = list(foreign_requests(1, count, ADDRESS, int(time.time())))
    secret = new_secret()

    await relay(requests, sender, receiver.port, secret)

    assert len(receiver.arrived) == count
    assert list(wrong_arrivals(requests, receiver.arrived, int(time.time()))) == []
    textual = {each.number for each in requests if each.system in VERIFIES}
    signed = [each for each in receiver.arrived if int(each.value(NUMBER)) in textual]
    assert all(verified(secret, each) for each in signed)
