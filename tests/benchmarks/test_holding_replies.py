"""Replies that are held are counted by their connections: none is left over for the next count."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis

from benchmarks.held_replies import ENDED, STATUS, end_all, holding
from benchmarks.http_load import LoadError

MANY = 20
PATIENCE = 10.0


class Waiting:
    """A server that answers once Redis tells of the end, and refuses more than `most` at once."""

    def __init__(self, redis: Redis, most: int) -> None:
        self.open = 0
        self._redis = redis
        self._most = most

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        _, path, _ = (await reader.readuntil(b"\r\n\r\n")).decode().split(" ", 2)
        gone = asyncio.create_task(reader.read())  # as long as it is kept alive
        if self.open > self._most:
            writer.write(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
        else:
            ended = asyncio.create_task(self._ended(path.rpartition("/")[2].partition("?")[0]))
            await asyncio.wait((gone, ended), return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
            writer.write(f"HTTP/1.1 200 OK\r\n\r\n{ENDED}".encode())
        await gone
        writer.close()
        self.open -= 1

    async def _ended(self, operation: str) -> None:
        async with self._redis.pubsub() as heard:
            await heard.subscribe(f"{STATUS}{operation}")
            async for message in heard.listen():
                if message["type"] == "message":
                    return

    async def have_left(self, count: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.open != count:
            assert time.monotonic() < deadline, f"{self.open} connections are open"
            await asyncio.sleep(0.01)


@asynccontextmanager
async def waiting(redis: Redis, most: int) -> AsyncIterator[tuple[Waiting, int]]:
    made = Waiting(redis, most)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    async with server:
        yield made, server.sockets[0].getsockname()[1]


async def test_no_connection_of_a_reply_that_was_held_is_left_open(redis_url: str) -> None:
    async with (
        Redis.from_url(redis_url, decode_responses=True) as redis,
        waiting(redis, MANY) as (server, port),
    ):
        async with holding(port, redis, MANY) as held:
            spans = await end_all(held, redis, 1_000.0)
            assert server.open == MANY

        await server.have_left(0)

    assert len(spans) == MANY
    assert min(spans) > 0


async def test_a_reply_that_is_refused_is_told_in_the_servers_words(redis_url: str) -> None:
    async with (
        Redis.from_url(redis_url, decode_responses=True) as redis,
        waiting(redis, MANY - 1) as (server, port),
    ):
        with pytest.raises(LoadError, match="503 Service Unavailable"):
            async with holding(port, redis, MANY):
                pytest.fail("one of them is not held")

        await server.have_left(0)
