"""A TCP proxy that spoils a connection on request.

============ =====================================================================================
condition    both sides of the link
============ =====================================================================================
down         connections are reset, new ones refused
latency      every piece of data is held back by `latency`, and by up to `jitter` more
black_hole   nothing arrives any more, and nothing ends; what was under way arrives when it is over
slow         at most `bytes_per_second`
sliced       data arrives in pieces of `piece_bytes`
drop_replies what is asked is done, but the answer is lost and the connection reset
============ =====================================================================================

A condition holds for connections that are open and for new ones, until the next `become`.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

CHUNK_BYTES = 65_536
HEARD_EVERY = 0.1
HOST = "127.0.0.1"
RESET_AT_ONCE = struct.pack("ii", 1, 0)  # linger, for zero seconds: RST instead of FIN

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Condition:
    """What a link is like. `latency` and `jitter` in seconds; None: not limited."""

    down: bool = False
    latency: float = 0.0
    jitter: float = 0.0
    black_hole: bool = False
    bytes_per_second: int | None = None
    piece_bytes: int | None = None
    drop_replies: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """A connection that its client `left`, and that its server has let go of at `ended`.

    Both are seconds of `time.monotonic()`. A beanstalkd that ends a connection has put its jobs
    back before.
    """

    left: float
    ended: float


FINE = Condition()
DOWN = Condition(down=True)
BLACK_HOLE = Condition(black_hole=True)
DROP_REPLIES = Condition(drop_replies=True)


class Proxy:
    """One link: listens on `port`, passes everything on to `target`. Lives in one event loop."""

    def __init__(self, port: int, target: Address, draw: random.Random | None = None) -> None:
        """`port` must be free; `draw` gives the jitter."""
        self.port = port
        self.replies_dropped = 0
        self.heard: list[float] = []
        """When answers passed, in seconds of `time.monotonic()`; one for each tenth of a second."""
        self.releases: list[Release] = []
        self._target = target
        self._draw = draw or random.Random(port)
        self._condition = FINE
        self._changed = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._lines: set[_Line] = set()

    async def start(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._serve, HOST, self.port)

    async def stop(self) -> None:
        """Reset everything and listen no more."""
        await self.become(DOWN)

    async def become(self, condition: Condition) -> None:
        """Change what the link is like, also for data that is under way."""
        self._condition = condition
        self._changed.set()
        self._changed = asyncio.Event()
        for line in self._lines:
            line.asked = False
        if condition.down:
            await self._shut()
            self.reset()
        elif self._server is None:
            await self.start()

    def reset(self) -> None:
        """Cut all connections, as a router does that forgot them."""
        for line in tuple(self._lines):
            line.reset()

    async def _shut(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection(*self._target)
        except BaseException as error:
            _reset(writer)
            if isinstance(error, OSError):  # the server is away: as if its own port had refused
                return
            raise
        line = _Line((reader, writer), there)
        self._lines.add(line)
        try:
            if not self._condition.down:
                await asyncio.gather(self._requests(line), self._replies(line))
        except OSError:
            pass  # one side is gone; the other learns it below
        finally:
            line.reset()
            self._lines.discard(line)

    async def _requests(self, line: _Line) -> None:
        reader, writer = line.client[0], line.server[1]
        while data := await reader.read(CHUNK_BYTES):
            await self._deliver(data, writer)
            line.asked = True
        line.left = time.monotonic()
        await self._passable()
        with suppress(OSError):
            writer.write_eof()

    async def _replies(self, line: _Line) -> None:
        reader, writer = line.server[0], line.client[1]
        while data := await reader.read(CHUNK_BYTES):
            if self._condition.drop_replies and line.asked:
                self.replies_dropped += 1
                line.reset()
                return
            await self._deliver(data, writer)
            now = time.monotonic()
            if not self.heard or now - self.heard[-1] >= HEARD_EVERY:
                self.heard.append(now)
        if line.left is not None:
            self.releases.append(Release(line.left, time.monotonic()))
        await self._passable()
        # A server that ends a connection ends it for both directions.
        line.close()

    async def _deliver(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        await self._passable()
        condition = self._condition
        if condition.latency or condition.jitter:
            await asyncio.sleep(condition.latency + condition.jitter * self._draw.random())
        for piece in _pieces(data, condition):
            if condition.bytes_per_second:
                await asyncio.sleep(len(piece) / condition.bytes_per_second)
            elif condition.piece_bytes:
                await asyncio.sleep(0)  # so that the other side can read the last one by itself
            writer.write(piece)
            await writer.drain()

    async def _passable(self) -> None:
        while self._condition.black_hole:
            await self._changed.wait()


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True, eq=False)
class _Line:
    """One connection through the proxy.

    `asked`: something was asked since the last change; `left`: when the client ended it.
    """

    client: Stream
    server: Stream
    asked: bool = False
    left: float | None = None

    def __post_init__(self) -> None:
        for _, writer in (self.client, self.server):
            raw = writer.get_extra_info("socket")
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def reset(self) -> None:
        for _, writer in (self.client, self.server):
            _reset(writer)

    def close(self) -> None:
        for _, writer in (self.client, self.server):
            writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    if raw is not None and raw.fileno() >= 0:
        with suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_ONCE)
    writer.transport.abort()


def _pieces(data: bytes, condition: Condition) -> Iterator[bytes]:
    size = condition.piece_bytes or len(data)
    if condition.bytes_per_second:
        size = min(size, max(1, condition.bytes_per_second // 20))
    for begin in range(0, len(data), size):
        yield data[begin : begin + size]
