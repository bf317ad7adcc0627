"""Requests as fast as they are answered, over connections that stay open; costs little itself."""

from __future__ import annotations

import asyncio
import functools
import re
import time
from collections.abc import Iterator, Sequence

PATH = "/v1/requests"
PACED_CONNECTIONS = 64
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_LENGTH = re.compile(rb"\r\nContent-Length: (\d+)\r\n", re.IGNORECASE)


class LoadError(Exception):
    """A request was answered with something else than it is to be."""


class Poster(asyncio.Protocol):
    """One connection: posts the next request as soon as the last one is answered."""

    def __init__(
        self, posts: Iterator[bytes], statuses: Sequence[int], done: asyncio.Future[None]
    ) -> None:
        self._posts = posts
        self._wanted = tuple(b"HTTP/1.1 %d" % each for each in statuses)
        self._done = done
        self._got = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - TCP gives no other
        self._transport = transport
        self._post()

    def data_received(self, data: bytes) -> None:
        """Go on once the answer is whole."""
        self._got += data
        head = self._got.find(b"\r\n\r\n")
        length = _LENGTH.search(self._got)
        if head < 0 or length is None or len(self._got) < head + 4 + int(length[1]):
            return
        if not self._got.startswith(self._wanted):
            self._end(LoadError(self._got[:300].decode("ascii", "replace")))
            return
        self._got = b""
        self._post()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell that it ended, also before its time."""
        self._end(exc or LoadError("the connection was closed"))

    def _post(self) -> None:
        assert self._transport is not None  # noqa: S101 - made before anything else
        post = next(self._posts, None)
        if post is None:
            self._end(None)
            self._transport.close()
        else:
            self._transport.write(post)

    def _end(self, error: Exception | None) -> None:
        if not self._done.done():
            if error:
                self._done.set_exception(error)
            else:
                self._done.set_result(None)


def post_of(body: bytes, path: str = PATH) -> bytes:
    """Write a whole HTTP request."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def posts_per_second(
    port: int, bodies: Sequence[bytes], connections: int, path: str = PATH
) -> float:
    """Post all bodies over so many connections; gives the rate. Raises LoadError."""
    return requests_per_second(port, [post_of(body, path) for body in bodies], connections)


def requests_per_second(
    port: int, requests: Sequence[bytes], connections: int, statuses: Sequence[int] = (200, 202)
) -> float:
    """Send all requests over so many connections; gives the rate. Raises LoadError."""
    return asyncio.run(_rate(port, requests, connections, statuses))


def latencies(port: int, request: bytes, per_second: int, seconds: float) -> list[float]:
    """Send a request so often; gives the seconds from when each was due to its answer.

    Raises LoadError.
    """
    return asyncio.run(_paced(port, request, per_second, round(per_second * seconds)))


async def _paced(port: int, request: bytes, per_second: int, count: int) -> list[float]:
    loop, idle, times = asyncio.get_running_loop(), asyncio.Queue[Connection](), list[float]()
    for _ in range(PACED_CONNECTIONS):
        idle.put_nowait(await asyncio.open_connection("127.0.0.1", port))

    async def send(due: float) -> None:
        reader, writer = connection = await idle.get()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 202"):
            raise LoadError(head[:300].decode("ascii", "replace"))
        length = _LENGTH.search(head)
        await reader.readexactly(int(length[1]) if length else 0)
        times.append(loop.time() - due)
        idle.put_nowait(connection)

    began = loop.time()
    async with asyncio.TaskGroup() as sending:
        for number in range(count):
            due = began + number / per_second
            await asyncio.sleep(due - loop.time())
            sending.create_task(send(due))
    while not idle.empty():
        idle.get_nowait()[1].close()
    return times


async def _rate(
    port: int, requests: Sequence[bytes], connections: int, statuses: Sequence[int]
) -> float:
    loop = asyncio.get_running_loop()
    posts = iter(requests)
    ends = [loop.create_future() for _ in range(connections)]
    began = time.perf_counter()
    for end in ends:
        await loop.create_connection(
            functools.partial(Poster, posts, statuses, end), "127.0.0.1", port
        )
    await asyncio.gather(*ends)
    return len(requests) / (time.perf_counter() - began)
