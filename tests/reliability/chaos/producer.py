"""A producer with a log of its own: what it was told `INSERTED` for is what a run is judged by.

It speaks the protocol itself, so that no client library stands between a lost reply and the log.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from chaos.proxy import HOST
from chaos.scale import Courier, Scale
from chaos.wishes import Wish, Wishes

PATIENCE = 3.0
LINE_BYTES = 224
RESTS = 0.1
"""Seconds before another server is tried after one failed."""

BURSTS = (0.2, 4.0)
"""Seconds between two bursts of requests, drawn between these bounds."""


class Outcome(StrEnum):
    """What the producer knows of a put.

    ============ ==============================================================================
    ACKNOWLEDGED `INSERTED` was read: it must come to an end
    UNKNOWN      the put may have arrived, but no answer was read: it may come to an end
    REFUSED      the server said no, or nothing was sent: it must not come to an end
    ============ ==============================================================================
    """

    ACKNOWLEDGED = "acknowledged"
    UNKNOWN = "unknown"
    REFUSED = "refused"


@dataclass(slots=True)
class Put:
    """One line of the log; `outcome` is the best of all tries, `began` Unix time of the first."""

    wish: Wish
    began: float
    outcome: Outcome = Outcome.REFUSED
    tries: int = 0


class Producer:
    """Puts what its couriers' streams wish for, on a thread for each courier, until `stop`."""

    def __init__(self, scale: Scale, ports: Sequence[int]) -> None:
        """`ports` are those of the servers, which take turns."""
        self.log: list[Put] = []
        self._seed, self._poison = scale.seed, scale.poison
        self._ports = ports
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(courier,), daemon=True)
            for courier in scale.couriers
        ]

    def start(self) -> None:
        """Begin to put."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Put no more; returns when the log is complete."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, courier: Courier) -> None:
        draw = random.Random(f"producer:{courier.slug}:{self._seed}")
        wishes = Wishes(courier, self._seed, poison=self._poison)
        outlets = [_Outlet(port) for port in self._ports]
        while True:
            pause = draw.uniform(*BURSTS)
            for wish in islice(wishes, max(1, round(pause * courier.pace))):
                self._put(wish, outlets)
            if self._stop.wait(pause):
                break
        for outlet in outlets:
            outlet.hang_up()

    def _put(self, wish: Wish, outlets: Sequence[_Outlet]) -> None:
        put = Put(wish, time.time())
        self.log.append(put)
        while True:
            outlet = outlets[(len(self.log) + put.tries) % len(outlets)]
            put.tries += 1
            outcome = outlet.put(wish)
            if outcome is Outcome.ACKNOWLEDGED or put.outcome is Outcome.REFUSED:
                put.outcome = outcome
            # Without an id a second try could be a second request.
            again = wish.id is not None or put.outcome is Outcome.REFUSED
            if put.outcome is Outcome.ACKNOWLEDGED or not again or self._stop.wait(RESTS):
                return


class _Outlet:
    """A connection to one beanstalkd, made when it is needed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: socket.socket | None = None

    def put(self, wish: Wish) -> Outcome:
        body = wish.body
        head = b"put %d 0 %d %d\r\n" % (wish.priority, wish.ttr, len(body))
        try:
            connection = self._connected()
        except OSError:
            return Outcome.REFUSED
        try:
            connection.sendall(head + body + b"\r\n")
            answer = _line(connection)
        except OSError:
            self.hang_up()
            return Outcome.UNKNOWN
        return Outcome.ACKNOWLEDGED if answer.startswith(b"INSERTED ") else Outcome.REFUSED

    def _connected(self) -> socket.socket:
        if self._connection is None:
            connection = socket.create_connection((HOST, self._port), PATIENCE)
            try:
                connection.sendall(b"use requests_flow\r\n")
                _line(connection)
            except OSError:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def hang_up(self) -> None:
        if self._connection is not None:
            with suppress(OSError):
                self._connection.close()
            self._connection = None


def _line(connection: socket.socket) -> bytes:
    """Read the one line that answers the one command under way."""
    line = b""
    while not line.endswith(b"\r\n"):
        piece = connection.recv(LINE_BYTES)
        if not piece:
            raise ConnectionError("the connection ended")
        line += piece
    return line
