"""Many requests whose replies are held, the ends of what they wait for, and when each came."""

from __future__ import annotations

import asyncio
import time

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
        self.operation = operation
        self.replied: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - TCP gives no other
        transport.write(get_of(f"/v1/operations/{self.operation}?wait=60"))

    def data_received(self, data: bytes) -> None:
        """Note when the reply came."""
        if not self.replied.done() and data.startswith(b"HTTP/1.1 200") and b'"SUCCESS"' in data:
            self.replied.set_result(time.perf_counter())
        elif not self.replied.done():
            self.replied.set_exception(LoadError(data[:300].decode("ascii", "replace")))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell that it ended before its time."""
        if not self.replied.done():
            self.replied.set_exception(exc or LoadError("the connection was closed"))


async def hold(port: int, redis: Redis, count: int) -> list[Held]:
    """Have so many replies held; gives them once the server listens for all."""
    loop = asyncio.get_running_loop()
    held: list[Held] = []
    for begin in range(0, count, OPENED_AT_ONCE):
        for index in range(begin, min(count, begin + OPENED_AT_ONCE)):
            name = f"held-{count}-{index}"  # those of another count have ended
            made = await loop.create_connection(lambda each=name: Held(each), "127.0.0.1", port)  # type: ignore[misc]
            held.append(made[1])
    deadline = time.monotonic() + HEARD_SECONDS
    while len(await redis.pubsub_channels(f"{STATUS}held-{count}-*")) < count:
        if time.monotonic() > deadline:
            raise LoadError("the server does not listen for all")
        await asyncio.sleep(0.05)
    return held


async def end_all(held: list[Held], redis: Redis, per_second: float) -> list[float]:
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
