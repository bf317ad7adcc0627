"""The thread that reserves jobs from one tube of one beanstalkd.

What each of its few connections is doing:

======== ===============================================================================
waits    holds nothing; beanstalkd answers as soon as there is a job. One at most
holds    keeps jobs for the event loop: must be free to delete and touch, so never waits
idle     holds nothing and does not wait, because there is no room or another one waits
======== ===============================================================================

A job that ends a wait is followed by all others that are ready, in batches, as far as there is
room. While every connection holds something, one of them asks every 20 to 100 ms.
"""

from __future__ import annotations

import selectors
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum

from service.observe.log import emit_unexpected
from service.tubes.commands import Verb
from service.tubes.connection import HELD_MOST, Connection, Reservation
from service.tubes.held import forget
from service.tubes.held_jobs import HeldJobs
from service.tubes.mailbox import Events, Mailbox, answer
from service.tubes.pipeline import Order, carry_out, resolve
from service.tubes.pool import Pool, Source
from service.tubes.touches import Touches
from service.tubes.wire import AHEAD_MOST
from tracking.errors import TubesDown

WAIT_SECONDS = 10
"""How long one wait lasts: an idle worker wakes this often, and a dead link is noticed."""

BATCH_FIRST = 4
"""Jobs asked for after a wait: a lone job should cost few empty answers."""

POLL_LEAST, POLL_MOST = 0.02, 0.1
"""Seconds between questions while every connection holds something."""

SLEEP_MOST = 3_600.0
"""A job may have a TTR of 136 years; epoll refuses to wait for longer than 24 days."""


class Mode(StrEnum):
    """What the thread may do.

    ======= ==================================================
    TAKING  reserve; keep, touch and settle what is held
    KEEPING reserve nothing; keep, touch and settle
    CLOSED  end; beanstalkd gives what is held to others
    ======= ==================================================
    """

    TAKING = "taking"
    KEEPING = "keeping"
    CLOSED = "closed"


class Reserver:
    """The thread, and what the event loop may tell it: `mode` (then `wake`), and the mailbox.

    `deliver` is called on the thread with jobs that were reserved.
    """

    def __init__(
        self,
        source: Source,
        room: HeldJobs,
        mailbox: Mailbox,
        deliver: Callable[[Mailbox, list[Reservation]], None],
    ) -> None:
        self.source = source
        self.mailbox = mailbox
        self.mode = Mode.KEEPING
        self._room = room
        self._deliver = deliver
        self._selector = selectors.DefaultSelector()
        self._selector.register(mailbox.ear, selectors.EVENT_READ)
        self._pool = Pool(source, self._selector)
        self._touches = Touches()
        self._waiting: Connection | None = None
        self._wait_ends = 0.0
        self._more = False
        self._batch = BATCH_FIRST
        self._poll_at = 0.0
        self._pause = POLL_LEAST
        self._look_at: float | None = None
        name = f"{source.tube}@{source.server}"
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def error(self) -> str | None:
        """None while connected, else what is wrong, in words."""
        return self._pool.error

    def wake(self) -> None:
        """Look at everything again; may be called by any thread."""
        self.mailbox.wake()

    def abort(self) -> None:
        """End now, whatever the server does; may be called by any thread."""
        self.mode = Mode.CLOSED
        self._pool.abort()
        self.wake()

    def _run(self) -> None:
        try:
            while self.mode is not Mode.CLOSED:
                events = self.mailbox.sleep(self._selector, self._patience())
                try:
                    self._turn(events)
                except Exception as error:  # noqa: BLE001 - a defect must not end the thread
                    # It would hold its jobs untouched, and nobody would know.
                    emit_unexpected(error, server=self.source.server)
                    self._drop_all()
                    self._look_at = time.monotonic() + POLL_MOST
        finally:
            self._drop_all()
            self._selector.close()
            self.mailbox.close()

    def _patience(self) -> float | None:
        """Seconds until there is something to do unasked."""
        moments = [self._touches.next_at, self._look_at, self._wait_ends if self._waiting else None]
        first = min((moment for moment in moments if moment is not None), default=None)
        return None if first is None else min(max(0.0, first - time.monotonic()), SLEEP_MOST)

    def _turn(self, events: Events) -> None:
        orders, visits = self.mailbox.collect()
        self._carry_out(orders)
        self._read(events)
        self._touches.touch_due(time.monotonic())
        self._drop_ended()
        with suppress(TubesDown):  # the connection that failed has closed itself
            self._take()
        self._drop_ended()
        if visits:
            self.mailbox.call(answer, visits)

    def _carry_out(self, orders: list[Order]) -> None:
        if orders:
            carry_out(orders)
            self._room.give(sum(order.frees_room for order in orders), by=self)
            self.mailbox.call(resolve, orders)

    def _read(self, events: Events) -> None:
        for key, _ in events:
            connection: Connection = key.data
            if connection is self._waiting:
                with suppress(TubesDown):
                    self._end_wait(connection)
            elif connection.alive:
                connection.error = "the server closed the connection"  # it was asked nothing
                connection.close()
        if self._waiting and time.monotonic() > self._wait_ends:
            self._waiting.error = "timed out"
            self._waiting.close()

    def _take(self) -> None:
        """Take what is ready and has room; then leave one connection waiting for more."""
        self._look_at = None
        if self.mode is not Mode.TAKING:
            self._stop_waiting()
            self._room.leave(self)
        elif not self._waiting and (not self._more or self._take_ready()):
            connection = self._pool.idle()
            if connection:
                self._begin_wait(connection)
            elif self._pool:
                self._poll()
            else:
                self._look_at = self._pool.open_at

    def _take_ready(self) -> bool:
        """Whether everything ready was taken; False: there is no room for more just now."""
        while self._more:
            connection = self._pool.fullest()
            if connection is None:
                return True
            share = self._room.take(self, min(self._batch, HELD_MOST - len(connection.held)))
            if not share:
                return False
            found: list[Reservation] = []
            try:
                found = connection.reserve_ready(share)
            finally:
                self._room.give(share - len(found), by=self)
            self._hand_over(found)
            self._more = len(found) == share
            self._batch = min(self._batch * 4, AHEAD_MOST)
        return True

    def _hand_over(self, found: list[Reservation]) -> None:
        if found:
            self._pool.answered()
            self._pause = POLL_LEAST
            self._touches.add(found, time.monotonic())
            self._deliver(self.mailbox, found)

    def _begin_wait(self, connection: Connection) -> None:
        # No place is kept for what may never come: that would keep it from the other servers.
        if self._room.is_open(self):
            self._waiting = connection
            self._wait_ends = time.monotonic() + WAIT_SECONDS + self.source.patience.reply
            connection.begin_wait(WAIT_SECONDS)

    def _end_wait(self, connection: Connection) -> None:
        found = connection.end_wait(WAIT_SECONDS)
        self._waiting = None
        self._pool.answered()
        if found is None:
            return
        self._more, self._batch = True, BATCH_FIRST
        if self._room.take(self, 1):
            self._hand_over([found])
        else:
            connection.read_facts([found])
            connection.tell(Verb.RELEASE, [found])
            forget(found)

    def _stop_waiting(self) -> None:
        """End a wait the only way there is: with its connection, which holds nothing."""
        if self._waiting:
            self._pool.drop(self._waiting)
            self._forget_wait()

    def _drop_all(self) -> None:
        self._pool.drop_all()
        self._forget_wait()

    def _drop_ended(self) -> None:
        self._forget_wait()
        if self.mode is not Mode.CLOSED and self._pool.drop_ended():
            self._look_at = time.monotonic()
            if not self._pool:
                self._room.leave(self)  # a place kept for a server that is away is lost to others

    def _forget_wait(self) -> None:
        if self._waiting and not self._waiting.alive:
            self._waiting = None

    def _poll(self) -> None:
        now = time.monotonic()
        if now >= self._poll_at:
            self._pause = min(2 * self._pause, POLL_MOST)
            self._more, self._batch = True, BATCH_FIRST
            self._take_ready()
            self._poll_at = now + self._pause
        self._look_at = self._poll_at
