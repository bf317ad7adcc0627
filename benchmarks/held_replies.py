"""Many requests whose replies are held, the ends of what they wait for, and when each came."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from redis.asyncio import Redis

from benchmarks.http_load import LoadError, get_of

OPENED_AT_ONCE = 200
HEARD_SECONDS = 30.0
STATUS = "tracking:status:"
ENDED = (
    '{"status":"SUCCESS","tracking":"usps:9405903699300184125060","at":1777881600000,'
    '"startedAt":"2026-05-04T08:00:01.250Z","finishedAt":"2026-05-04T08:00:01.700Z",'
    '"output":{"tag":"InTransit","subtag":"InTransit_001","delivered":false,"checkpoints":4}}'
)


class Held(asyncio.Protocol):
    """One connection that waits for one operation."""

    def __init__(self, operation: str) -> None:
        loop = asyncio.get_running_loop()
        self.operation = operation
        self.replied: asyncio.Future[float] = loop.create_future()
        self._lost: asyncio.Future[None] = loop.create_future()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - TCP gives no other
        self._transport = transport
        transport.write(get_of(f"/v1/operations/{self.operation}?wait=60"))

    def data_received(self, data: bytes) -> None:
        """Note when the reply came."""
        if not self.replied.done() and data.startswith(b"HTTP/1.1 200") and b'"SUCCESS"' in data:
            self.replied.set_result(time.perf_counter())
        elif not self.replied.done():
            self.replied.set_exception(LoadError(data[:300].decode("ascii", "replace")))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell that it ended, also before its time."""
        self._lost.set_result(None)
        if not self.replied.done():
            self.replied.set_exception(exc or LoadError("the connection was closed"))

    def insist(self) -> None:
        """Raise what came instead of the reply, if it has come. Raises LoadError, OSError."""
        if self.replied.done():
            self.replied.result()

    async def close(self) -> None:
        """End the connection, whether it was replied to or not."""
        if not self.replied.cancel() and not self.replied.cancelled():
            self.replied.exception()  # asyncio would log each that nobody has asked for
        if self._transport:
            self._transport.close()
            await self._lost


@asynccontextmanager
async def holding(port: int, redis: Redis, count: int) -> AsyncIterator[Sequence[Held]]:
    """Have so many replies held; begins once the server listens for all, and closes all at its end.

    Raises LoadError, OSError.
    """
    held: list[Held] = []
    try:
        await _open(held, port, count)
        await _wait_until_heard(held, redis, count)
        yield held
    finally:
        # Nobody else does, and they would count among the next ones: a transport refers to itself,
        # so it stays open until the collector looks among what is old, in a long run hardly ever.
        await asyncio.gather(*(each.close() for each in held))


async def _open(held: list[Held], port: int, count: int) -> None:
    loop = asyncio.get_running_loop()
    for begin in range(0, count, OPENED_AT_ONCE):
        for index in range(begin, min(count, begin + OPENED_AT_ONCE)):
            name = f"held-{count}-{index}"  # those of another count have ended
            made = await loop.create_connection(lambda each=name: Held(each), "127.0.0.1", port)  # type: ignore[misc]
            held.append(made[1])


async def _wait_until_heard(held: Sequence[Held], redis: Redis, count: int) -> None:
    deadline = time.monotonic() + HEARD_SECONDS
    while len(await redis.pubsub_channels(f"{STATUS}held-{count}-*")) < count:
        for each in held:
            each.insist()
        if time.monotonic() > deadline:
            raise LoadError("the server does not listen for all")
        await asyncio.sleep(0.05)


async def end_all(held: Sequence[Held], redis: Redis, per_second: float) -> list[float]:
    """End one operation after the other at a rate; gives the seconds from each end to its reply."""
    began, spans = time.perf_counter(), []
    ended: list[float] = []
    for index, each in enumerate(held):
        await asyncio.sleep(max(0.0, began + index / per_second - time.perf_counter()))
        pipeline = redis.pipeline(transaction=True)
        pipeline.set(f"{STATUS}{each.operation}", ENDED)
        pipeline.publish(f"{STATUS}{each.operation}", "")
        ended.append(time.perf_counter())
        await pipeline.execute()
    for at, each in zip(ended, held, strict=True):
        spans.append(await each.replied - at)
    return spans
