"""Foreign requests on their way to a door: as bytes, since no client writes them as senders do.

A storm also has requests that a door must refuse, each with what is wrong about it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from storms import POST_SECONDS

from devstack.foreign import Foreign, foreign_requests
from service.worker.deliveries.foreign_request import BODY_MOST

WRONG_EACH = 25
HEADLESS = (204, 304)

NO_ANSWER = 0
"""In the place of a status: nobody knows whether the request was taken."""

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Post:
    """A request to a door, by its own address unless a `host` is named.

    `refused`: the status that it must get, 0 where it must be taken.
    """

    request: Foreign
    path: str
    refused: int = 0
    host: str = ""

    def written(self, host: str) -> bytes:
        """Write it as its sender does."""
        message = self.request.message
        lines = [
            f"{message.method} {self.path}{message.target} HTTP/1.1",
            f"Host: {self.host or host}",
        ]
        lines += [f"{name}: {value}" for name, value in message.headers]
        if message.body or message.method not in {"GET", "HEAD"}:
            lines.append(f"Content-Length: {len(message.body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + message.body


def posts(seed: int, count: int, address: str, now: int) -> list[Post]:
    """Draw posts to the address of a relay, signed at `now`; some must be refused."""
    draw = random.Random(f"wrong:{seed}")
    path = urlsplit(address).path
    made = foreign_requests(seed, count, address, now)
    return [_wrong(draw, each, path) if _is_wrong(each) else Post(each, path) for each in made]


def _is_wrong(request: Foreign) -> bool:
    return request.number % WRONG_EACH == 0


def _wrong(draw: random.Random, request: Foreign, path: str) -> Post:
    status = draw.choice([404, 400, 413])
    if status == 404:
        return Post(request, forged(path, draw), status)
    message = request.message
    if status == 400:
        dots = draw.choice(["/a/../b", "/./a", "/%2e%2E/a", "/a/.."])
        return Post(replace(request, message=replace(message, target=dots)), path, status)
    large = replace(message, method="POST", body=bytes(BODY_MOST + 1))
    return Post(replace(request, message=large), path, status)


def forged(path: str, draw: random.Random) -> str:
    """Change the last letters of a label, which are of its MAC."""
    made = path
    while made == path:
        made = path[:-8] + "".join(draw.choices("abcdefghijklmnopqrstuvwxyz234567", k=8))
    return made


class Sender:
    """Posts to a door over connections that are kept, each for one request at a time."""

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc
        self._kept: list[Connection] = []

    async def post(self, post: Post) -> int:
        """Post once, as soon as the door listens; the status of the answer, or NO_ANSWER."""
        try:
            async with asyncio.timeout(POST_SECONDS), self._connection() as (reader, writer):
                writer.write(post.written(self._host))
                head = await reader.readuntil(b"\r\n\r\n")
                status = int(head.split(b" ", 2)[1])
                await reader.readexactly(_length(head, post.request.message.method, status))
                if status < 400 and b"connection: close" not in head.lower():
                    self._kept.append((reader, writer))
                return status
        except (OSError, EOFError, TimeoutError):
            return NO_ANSWER

    def close(self) -> None:
        """Close what is kept."""
        for _, writer in self._kept:
            writer.close()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        """Use one that is kept, or a new one; closed behind the block unless it is kept then."""
        connection = await self._opened()
        try:
            yield connection
        finally:
            if connection not in self._kept:
                connection[1].transport.abort()

    async def _opened(self) -> Connection:
        """Open a connection, unless one is kept; where nobody listens, wait: nothing was sent."""
        while self._kept:
            connection = self._kept.pop()
            if not connection[1].is_closing():
                return connection
        host, _, port = self._host.partition(":")
        while True:
            try:
                return await asyncio.open_connection(host, int(port))
            except ConnectionRefusedError:
                await asyncio.sleep(0.1)


def _length(head: bytes, method: str, status: int) -> int:
    if method == "HEAD" or status in HEADLESS:
        return 0
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length":
            return int(value)
    return 0
