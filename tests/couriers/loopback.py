"""What the tests of couriers share: a permit that writes down how it is used, and raw HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from aiohttp import web

from couriers.http.fetch import Fetch
from tracking.errors import NotStarted

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

Connected = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Wire = Callable[[Connected], Awaitable[str]]
Asked = Callable[[web.Request], Awaitable[web.StreamResponse]]


Courier = Callable[[Asked], Awaitable[str]]
FetchFor = Callable[..., Fetch]


class RecordingPermit:
    """Keeps the promises of tracking.call.Permit, and the order in which it was called."""

    def __init__(self, seconds: float = 5.0) -> None:
        self.deadline = time.monotonic() + seconds
        self.steps: list[str] = []
        self.stale = False
        self.hold: asyncio.Event | None = None
        self.at_the_gate = asyncio.Event()
        self.silent: list[float] = []
        self.when_sent: Callable[[], None] = lambda: None
        self._spent = False

    @property
    def started(self) -> bool:
        return "before_send" in self.steps

    async def again(self) -> None:
        self.steps.append("again")
        self._spent = False

    async def before_send(self) -> None:
        self.steps.append("before_send")
        self.at_the_gate.set()
        if self.hold is not None:
            await self.hold.wait()
        if self.stale or self._spent:
            raise NotStarted("the grant is too old, or used")
        self._spent = True

    def after_send(self) -> None:
        self.steps.append("after_send")
        self.when_sent()

    def answered(self, ago: float) -> None:
        self.silent.append(ago)


async def request_of(reader: asyncio.StreamReader) -> bytes:
    """Read one request as it came: its head, and as much body as it names."""
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if b"length:" in line]
    return head + await reader.readexactly(int(lengths[0]) if lengths else 0)
