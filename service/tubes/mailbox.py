"""What an event loop and one thread tell each other, cheaply in both directions."""

from __future__ import annotations

import asyncio
import selectors
import socket
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress

from service.tubes.pipeline import Order, resolve

Visit = asyncio.Future[None]
Events = list[tuple[selectors.SelectorKey, int]]


class Mailbox:
    """Orders go to the thread once per turn of the loop; results come back in one call.

    `post`, `round_trip` and `shut` are for the loop, `wake` is for anybody; the rest is the
    thread's.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._turn: list[Order] = []
        self._orders: deque[list[Order]] = deque()
        self._visits: deque[Visit] = deque()
        self._bell, self.ear = socket.socketpair()
        self._bell.settimeout(0)
        self.ear.settimeout(0)
        self._rung = True  # the thread begins with a turn
        self._asleep = False
        self._open = True

    def post(self, order: Order) -> None:
        """Pass an order on, together with all others of this turn of the loop."""
        if not self._open:
            resolve([order])
            return
        if not self._turn:
            self._loop.call_soon(self._send)
        self._turn.append(order)

    async def round_trip(self) -> None:
        """Return after the thread has gone once through everything it does."""
        if self._open:
            visit = self._loop.create_future()
            self._visits.append(visit)
            self.wake()
            await visit

    def shut(self) -> None:
        """Wait for the thread no more: what is ordered has been overtaken by its end."""
        self._open = False
        self._send()
        orders, visits = self.collect()
        resolve(orders)
        answer(visits)

    def wake(self) -> None:
        """Make the thread go once through everything it does."""
        # The thread sets and reads these two in the opposite order: one side sees the other.
        self._rung = True
        if self._asleep:
            self._asleep = False
            with suppress(OSError):  # full: it was rung often enough; closed: nobody sleeps
                self._bell.send(b"\0")

    def sleep(self, selector: selectors.BaseSelector, seconds: float | None) -> Events:
        """Wait until woken or `selector` finds something; None for as long as it takes."""
        self._asleep = True
        events = selector.select(0 if self._rung else seconds)
        self._asleep = self._rung = False
        for key, _ in events:
            if key.fileobj is self.ear:
                with suppress(BlockingIOError):
                    while self.ear.recv(64):
                        pass
        return [event for event in events if event[0].fileobj is not self.ear]

    def collect(self) -> tuple[list[Order], list[Visit]]:
        """Take the orders that have come, and those who wait for a round trip from here on."""
        orders: list[Order] = []
        while self._orders:
            orders += self._orders.popleft()
        return orders, [self._visits.popleft() for _ in range(len(self._visits))]

    def call(self, function: Callable[..., None], *arguments: object) -> None:
        """Call something on the loop; nothing happens when the loop has ended."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def close(self) -> None:
        """The thread ends."""
        self._bell.close()
        self.ear.close()
        self.call(self.shut)

    def _send(self) -> None:
        if self._turn:
            self._orders.append(self._turn)
            self._turn = []
            self.wake()


def answer(visits: Iterable[Visit]) -> None:
    """Let those go on who waited for a round trip; runs on the loop."""
    for visit in visits:
        if not visit.done():
            visit.set_result(None)
