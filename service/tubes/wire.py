"""A socket that lets commands go out ahead of the replies which greenstalk then reads.

greenstalk asks and waits, one command at a time. A hundred deletes would be a hundred waits, each
of which can cost this thread its turn at the interpreter. On a `Wire` the hundred commands leave in
one write; greenstalk's own methods are then called one by one, find their command sent already,
and only read and judge its reply. Where all replies are the usual one, they are taken in one read.
"""

from __future__ import annotations

import select
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

AHEAD_MOST: Final = 128
"""Commands sent ahead at once. Some 4 KB: they always fit into the kernel's buffers, so that the
write ends even if beanstalkd is stuck with the first reply, which nobody reads before."""

TOGETHER_MS = 250
"""How long replies may take to be all there. A server that syncs each delete to a slow disk may
need longer: then they are read as they come."""


class Wire(socket.socket):
    """A connected TCP socket with a time-out; a time-out is the end of it."""

    __slots__ = ("_ahead", "_readable")

    def __init__(self, host: str, port: int, *, connect_seconds: float, seconds: float) -> None:
        """Connect. Raises OSError. `seconds` bounds every later read and write."""
        raw = socket.create_connection((host, port), connect_seconds)
        super().__init__(raw.family, raw.type, raw.proto, raw.detach())
        self.settimeout(seconds)
        self.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._ahead: deque[bytes] = deque()
        self._readable = select.poll()
        self._readable.register(self, select.POLLIN)

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

    def take_replies(self, reply: bytes) -> bool:
        """Wait for the replies to all that was sent ahead; whether each is `reply`. Raises OSError.

        True: they are taken, and nothing is left for greenstalk. False: all are left to it.
        """
        replies = reply * len(self._ahead)
        # beanstalkd writes each reply by itself: a thread that reads them as they come waits for
        # each of them, and each time for a turn at the interpreter.
        self.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, len(replies))
        self._readable.poll(TOGETHER_MS)
        self.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        if self.recv(len(replies), socket.MSG_PEEK) != replies:
            return False
        self.recv(len(replies))
        self._ahead.clear()
        return True

    def drop(self) -> None:
        """Close it although a client that failed at its start still has it open."""
        socket.close(self.detach())

    def abort(self) -> None:
        """Make a thread that waits for a reply go on; may be called by any thread."""
        with suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)
