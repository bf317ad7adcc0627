"""How long replies of a beanstalkd are waited for, and how many of them are read in one go."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

TOGETHER_SECONDS = 0.002
"""How long replies may take to be all there; then they are read as they come. A server sends ten
and some small packets, and the next ones when those are acknowledged: which the kernel does at once
when they are read, but 40 ms later when they are not."""


class ReplyWait:
    """For one connection. beanstalkd writes each reply by itself: each would be a turn of the loop.

    So the kernel is asked to wait until there are as many bytes as there will be at least.
    """

    def __init__(self, transport: asyncio.Transport, late: Callable[[Exception], None]) -> None:
        """`late` is called with a TimeoutError when the server was silent for too long."""
        self._socket: socket.socket = transport.get_extra_info("socket")
        self._late = late
        self._least = 1
        self._seconds = self._heard_at = 0.0
        self._ends: asyncio.TimerHandle | None = None
        self._together: asyncio.TimerHandle | None = None
        self._set(socket.SO_KEEPALIVE, 1)

    def begin(self, seconds: float, least: int = 1) -> None:
        """Bear silences of `seconds`, first for so many bytes in one go; ends the last wait."""
        self._cancel()
        loop = asyncio.get_running_loop()
        self._seconds, self._heard_at = seconds, loop.time()
        self._ends = loop.call_later(seconds, self._look)
        self._set_least(max(1, least))
        if least > 1:
            self._together = loop.call_later(TOGETHER_SECONDS, self._as_it_comes)

    def heard(self) -> None:
        """Something came: the silence begins again, and any byte ends it."""
        self._heard_at = asyncio.get_running_loop().time()
        self._as_it_comes()

    def _look(self) -> None:
        """A timer for each reply would cost more than one that looks again when it is early."""
        loop = asyncio.get_running_loop()
        ends = self._heard_at + self._seconds
        if ends > loop.time():
            self._ends = loop.call_at(ends, self._look)
        else:
            self._late(TimeoutError("timed out"))

    def _as_it_comes(self) -> None:
        """Go on waiting, for any byte."""
        if self._together:
            self._together.cancel()
            self._together = None
        self._set_least(1)

    def end(self) -> None:
        """Wait no more; what comes all the same is read as it comes."""
        self._cancel()
        self._set_least(1)

    def _cancel(self) -> None:
        for timer in (self._ends, self._together):
            if timer:
                timer.cancel()
        self._ends = self._together = None

    def _set_least(self, least: int) -> None:
        if least != self._least:
            self._least = least
            self._set(socket.SO_RCVLOWAT, least)

    def _set(self, option: int, value: int) -> None:
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, option, value)
