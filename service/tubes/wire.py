"""A socket that lets commands go out ahead of the replies which greenstalk then reads.

greenstalk asks and waits, one command at a time: a hundred puts would be a hundred waits. On a
`Wire` the hundred commands leave in one write; greenstalk's own methods are then called one by one,
find their command sent already, and only read and judge its reply. Where all were taken, the
replies are read at once.
"""

from __future__ import annotations

import re
import select
import socket
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

AHEAD_MOST: Final = 128
"""Commands sent ahead at once. Some 4 KB: they always fit into the kernel's buffers, so that the
write ends even if beanstalkd is stuck with the first reply, which nobody reads before."""

TOGETHER_MS = 250
"""How long replies may take to be all there. A server that syncs each put to a slow disk may need
longer: then they are read as they come."""

INSERTED_MOST: Final = 32
"""Bytes of the reply to a put that was taken, at most."""

_INSERTED = re.compile(rb"INSERTED (\d+)\r\n")


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
        """Write commands, each with its line end; raises OSError.

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

    def take_inserted(self, oldest: int) -> list[int]:
        """Wait for the replies to all puts that were sent ahead; gives the ids of the jobs.

        They are above `oldest`. Where a reply is not INSERTED, or not here soon, all are left to
        greenstalk, and there are no ids. Raises OSError.
        """
        count = len(self._ahead)
        # beanstalkd writes each reply by itself: a thread that reads them as they come waits for
        # each of them, and each time for a turn at the interpreter.
        least = count * len(b"INSERTED %d\r\n" % oldest)
        self.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least)
        self._readable.poll(TOGETHER_MS)
        self.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        replies = _INSERTED.findall(self.recv(count * INSERTED_MOST, socket.MSG_PEEK))
        taken = b"".join(b"INSERTED %b\r\n" % each for each in replies)
        if len(replies) != count or self.recv(len(taken), socket.MSG_PEEK) != taken:
            return []
        self.recv(len(taken))
        self._ahead.clear()
        return [int(each) for each in replies]

    def drop(self) -> None:
        """Close it although a client that failed at its start still has it open."""
        socket.close(self.detach())
