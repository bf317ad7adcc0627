"""A socket that lets commands go out ahead of the replies which greenstalk then reads.

greenstalk asks and waits, one command at a time: a hundred puts would be a hundred waits. On a
`Wire` the hundred commands leave in one write; greenstalk's own methods are then called one by one,
find their command sent already, and only read and judge its reply.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

AHEAD_MOST: Final = 128
"""Commands sent ahead at once. Some 4 KB: they always fit into the kernel's buffers, so that the
write ends even if beanstalkd is stuck with the first reply, which nobody reads before."""


class Wire(socket.socket):
    """A connected TCP socket with a time-out; a time-out is the end of it."""

    __slots__ = ("_ahead",)

    def __init__(self, host: str, port: int, *, connect_seconds: float, seconds: float) -> None:
        """Connect. Raises OSError. `seconds` bounds every later read and write."""
        raw = socket.create_connection((host, port), connect_seconds)
        super().__init__(raw.family, raw.type, raw.proto, raw.detach())
        self.settimeout(seconds)
        self.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._ahead: deque[bytes] = deque()

    def send_ahead(self, commands: Sequence[bytes]) -> None:
        """Write commands, at most AHEAD_MOST, each with its line end; raises OSError.

        The same commands must then be given to greenstalk, in this order.
        """
        super().sendall(b"".join(commands))
        self._ahead.extend(commands)

    def sendall(self, data: ReadableBuffer, flags: int = 0, /) -> None:
        """Write `data`, unless it is the next of the commands that were sent ahead."""
        if not self._ahead:
            super().sendall(data, flags)
        elif self._ahead.popleft() != data:
            # From here on every reply would be read as the answer to another command.
            raise ConnectionError(f"{bytes(data)[:40]!r} is not what was sent ahead")

    def drop(self) -> None:
        """Close it although a client that failed at its start still has it open."""
        socket.close(self.detach())
