"""What the tests of sending share: a permit that writes down how it is used, and raw HTTP."""

from __future__ import annotations

import datetime as dt
import ipaddress
import socket
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable
from typing import Any

from service.worker.deliveries.foreign_request import ForeignRequest
from service.worker.deliveries.ingest_label import IngestLabel
from service.worker.deliveries.sender import Sent
from service.worker.deliveries.service import SealedSecret, Service
from tracking.errors import NotStarted
from tracking.request import Account

HERE = ipaddress.IPv4Network("127.0.0.0/8")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BODY = b'{"type":"parcel.changed","data":{"note":"\xc3\xbc"}}'
SERVICE = Service(
    id="a1b2c3d4e5f6g7h8",
    account=Account("shop"),
    name="hook",
    destination="",
    secrets=(SealedSecret("sealed"),),
    made_at=dt.datetime(2026, 5, 4, tzinfo=dt.UTC),
    timeout_seconds=5.0,
)
FOREIGN = ForeignRequest(
    id="0" * 32,
    label=IngestLabel(Account("shop"), "hook", "a" * 21),
    received_at=dt.datetime(2026, 11, 26, 3, 0, 0, 250_000, tzinfo=dt.UTC),
    method="POST",
    target="/",
    url="https://shop-hook-random.in.example/",
    headers=(("Content-Type", "application/json"),),
    body=BODY,
)

Serve = Callable[[StreamReader, StreamWriter], Awaitable[None]]
Wire = Callable[..., Awaitable[int]]
Send = Callable[..., Awaitable[Sent]]


class Permit:
    """Keeps the promises of tracking.call.Permit, and the order in which it was called."""

    def __init__(self) -> None:
        self.deadline = time.monotonic() + 20
        self.steps: list[str] = []
        self.stale = False
        self.when_sent: Callable[[], None] = lambda: None

    @property
    def started(self) -> bool:
        return "before_send" in self.steps

    async def again(self) -> None:
        self.steps.append("again")

    async def before_send(self) -> None:
        if self.stale:
            raise NotStarted("the grant is too old")
        self.steps.append("before_send")

    def after_send(self) -> None:
        self.steps.append("after_send")
        self.when_sent()

    def answered(self, ago: float) -> None:
        assert ago >= 0
        self.steps.append("answered")


async def request_of(reader: StreamReader) -> bytes:
    """Read one request as it came."""
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if b"length:" in line]
    return head + await reader.readexactly(int(lengths[0]) if lengths else 0)


def head_of(request: bytes) -> dict[str, str]:
    """The headers of a request, by names in lower case; each may come once."""
    lines = request.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    named = [tuple(line.split(": ", 1)) for line in lines]
    told = {name.lower(): value for name, value in named}
    assert len(told) == len(named)
    return told


def answering(answer: bytes, requests: list[bytes] | None = None) -> Serve:
    """Answer each request in the same way."""

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        while True:
            request = await request_of(reader)
            if requests is not None:
                requests.append(request)
            writer.write(answer)
            await writer.drain()

    return serve


def at_localhost(_: str, port: int, *__: Any) -> list[Any]:
    """Find every name here."""
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
