"""Jobs reserved from one tube of all servers, handed to the event loop in batches.

Every server has a task of its own: one that is away or hangs delays nobody else, and is connected
to again by its task. What each of a server's few connections is doing:

======== ===============================================================================
waits    holds nothing; beanstalkd answers as soon as there is a job. One at most
holds    has jobs of this worker: must be free to delete and touch, so it never waits
idle     holds nothing and does not wait, because there is no room or another one waits
======== ===============================================================================

A job that ends a wait is followed by all others that are ready, in batches, as far as there is
room. While every connection holds something, one of them asks every 20 to 100 ms.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from service.observe.events import Event
from service.observe.log import emit, emit_unexpected
from service.worker.tubes.connection import AHEAD_MOST, Verb
from service.worker.tubes.held import (
    HELD_MOST,
    FairBudget,
    ReservedJob,
    ReservingClient,
    Settled,
    Source,
    Touches,
)
from tracking.errors import TubesDown

WAIT_SECONDS = 10
"""How long one wait lasts: an idle worker wakes this often, and a dead link is noticed."""

BATCH_FIRST = 4
"""Jobs asked for after a wait: a lone job should cost few empty answers."""

POLL_LEAST, POLL_MOST = 0.02, 0.1
"""Seconds between questions while every connection holds something."""

SLEEP_MOST = 3_600.0
"""A job may have a TTR of 136 years; epoll refuses to wait for longer than 24 days."""

BACKOFF_FIRST, BACKOFF_MOST = 0.05, 5.0
"""Seconds before connecting again: doubled each time, and half of it by chance."""


class Intake:
    """Take jobs from all servers. `on_jobs` is called on the event loop, with one or more.

    Each of those jobs must be settled, and is touched until then. Up to `room` are on their way: a
    job counts until it is settled or `admitted`.
    """

    def __init__(
        self, sources: Sequence[Source], room: int, on_jobs: Callable[[list[ReservedJob]], None]
    ) -> None:
        self._room = FairBudget(room)
        self._reservers = [Reserver(source, self._room, on_jobs) for source in sources]

    @property
    def held(self) -> int:
        """Jobs that were handed over and neither settled nor admitted."""
        return self._room.taken

    @property
    def errors(self) -> list[str | None]:
        """Of each server what is wrong with it, None while it is connected."""
        return [each.pool.error for each in self._reservers]

    def start(self) -> None:
        """Begin to take jobs, from each server as soon as it answers."""
        for reserver in self._reservers:
            reserver.start()

    async def stop(self) -> None:
        """Take no more jobs. None is handed over after this has returned.

        What is held stays held and is touched until it is settled; then call `close`.
        """
        await asyncio.gather(*(each.stop() for each in self._reservers))

    async def all_answered(self) -> None:
        """Return when deletes that nobody waited for are done, or cannot be any more.

        Of a server that is silent only as long as a reply may take; one that is slow may take any
        time.
        """
        await asyncio.gather(*(each.pool.all_answered() for each in self._reservers))

    async def close(self) -> None:
        """End all connections; every job that is still held goes to others at once."""
        for reserver in self._reservers:
            await reserver.close()
        await asyncio.sleep(0)  # asyncio closes the sockets in its next turn


class Reserver:
    """Task that reserves jobs from one tube of one server, and touches them.

    `deliver` is called with jobs that were reserved. What is held is touched also after `stop`.
    """

    def __init__(
        self, source: Source, room: FairBudget, deliver: Callable[[list[ReservedJob]], None]
    ) -> None:
        self._source = source
        self._taking = False
        self._room = room
        self._deliver = deliver
        self.pool = Pool(source, self._settled, room.give_soon, self.wake)
        self._touches = Touches()
        self._woken = asyncio.Event()
        self._alone = asyncio.Lock()
        self._waiting: tuple[ReservingClient, asyncio.Future[ReservedJob | None]] | None = None
        self._more = False
        self._batch = BATCH_FIRST
        self._poll_at = 0.0
        self._pause = POLL_LEAST
        self._look_at: float | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to take jobs."""
        self._taking = True
        self._task = asyncio.create_task(self._run())

    def wake(self) -> None:
        """Look at everything again."""
        self._woken.set()

    async def stop(self) -> None:
        """Take no more jobs; whatever was asked for has come when this returns."""
        self._taking = False
        await self._go_through()

    async def close(self) -> None:
        """End now, whatever the server does; what is held goes to others."""
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])
        self.pool.drop_all()

    async def _run(self) -> None:
        while True:
            await self._go_through()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._idle_seconds()):
                    await self._woken.wait()

    async def _go_through(self) -> None:
        async with self._alone:
            self._woken.clear()
            try:
                await self._take_result()
            except Exception as error:  # noqa: BLE001 - a defect must not end the task
                # It would hold its jobs untouched, and nobody would know.
                emit_unexpected(error, server=self._source.server)
                self.pool.drop_all()
                self._waiting = None
                self._look_at = time.monotonic() + POLL_MOST

    def _idle_seconds(self) -> float | None:
        """Seconds until there is something to do unasked."""
        moments = [self._touches.next_at, self._look_at]
        first = min((moment for moment in moments if moment is not None), default=None)
        return None if first is None else min(max(0.0, first - time.monotonic()), SLEEP_MOST)

    async def _take_result(self) -> None:
        with suppress(TubesDown):  # the connection that failed has closed itself
            await self._end_wait()
        self._drop_ended()
        now, due_at = time.monotonic(), self._touches.next_at
        if due_at is None or due_at > now:
            await self._take_some()
        else:
            # They travel together: one after the other a turn took as many round trips, and a
            # worker whose tube is full waited for them with nothing else to do.
            await asyncio.gather(self._touches.touch_due(now), self._take_some())
        self._drop_ended()

    async def _take_some(self) -> None:
        with suppress(TubesDown):
            await self._take()

    def _settled(self, jobs: Sequence[ReservedJob]) -> None:
        self._touches.forget(jobs)
        self._room.give(sum(not job.roomless for job in jobs))

    async def _take(self) -> None:
        """Take what is ready and has room; then leave one connection waiting for more."""
        self._look_at = None
        if not self._taking:
            self._stop_waiting()
            self._room.leave(self)
        elif not self._waiting and (not self._more or await self._take_ready()):
            client = await self.pool.idle()
            if client:
                self._begin_wait(client)
            elif self.pool:
                await self._poll()
            else:
                self._look_at = self.pool.open_at

    async def _take_ready(self) -> bool:
        """Take a batch of what is ready; False: there is more, or no room for more just now.

        One in each turn: a stop is heeded, and what is due is touched, before the next.
        """
        client = await self.pool.fullest()
        if client is None:
            return True
        share = self._room.take(self, min(self._batch, HELD_MOST - len(client.held)))
        if not share:
            return False
        found: list[ReservedJob] = []
        try:
            asked = [client.reserve() for _ in range(share)]
            found = [job for each in asked if (job := await each)]
        finally:
            self._room.give(share - len(found))
        self._hand_over(found)
        self._more = len(found) == share
        self._batch = min(self._batch * 4, AHEAD_MOST)
        if self._more:
            self.wake()
        return not self._more

    def _hand_over(self, found: list[ReservedJob]) -> None:
        if found:
            self.pool.answered()
            self._pause = POLL_LEAST
            self._touches.add(found, time.monotonic())
            self._deliver(found)

    def _begin_wait(self, client: ReservingClient) -> None:
        # No place is kept for what may never come: that would keep it from the other servers.
        if self._room.is_open(self):
            waits = client.reserve(WAIT_SECONDS)
            waits.add_done_callback(lambda _: self.wake())
            self._waiting = client, waits

    async def _end_wait(self) -> None:
        if not self._waiting or not self._waiting[1].done():
            return
        client, waits = self._waiting
        self._waiting = None
        found = waits.result()
        self.pool.answered()
        if found is None:
            return
        self._more, self._batch = True, BATCH_FIRST
        if self._room.take(self, 1):
            self._hand_over([found])
        else:
            found.roomless = True
            await client.read_facts([found])
            await client.send(Verb.RELEASE, found)

    def _stop_waiting(self) -> None:
        """End a wait the only way there is: with its connection, which holds nothing."""
        if self._waiting:
            client, _ = self._waiting
            self._waiting = None
            self.pool.drop(client)

    def _drop_ended(self) -> None:
        if self.pool.drop_ended():
            self._touches.forget_ended()
            if self._waiting and self._waiting[0].down:
                self._waiting = None
            self._look_at = time.monotonic()
            if not self.pool:
                self._room.leave(self)  # a place kept for a server that is away is lost to others

    async def _poll(self) -> None:
        now = time.monotonic()
        if now >= self._poll_at:
            self._pause = min(2 * self._pause, POLL_MOST)
            self._more, self._batch = True, BATCH_FIRST
            await self._take_ready()
            self._poll_at = now + self._pause
        self._look_at = self._poll_at


class Pool:
    """Connections to one server: opened when wanted, at most `source.connections`.

    `error` is None while there is a connection, else says what is wrong. `open_at` is the instant
    (`time.monotonic()`) before which no new connection is tried.
    """

    def __init__(
        self,
        source: Source,
        settled: Settled,
        admitted: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        """`ended` is called when a connection has ended; then call `drop_ended`."""
        self.error: str | None = "not connected yet"
        self.open_at = 0.0
        self._source = source
        self._settled = settled
        self._admitted = admitted
        self._ended = ended
        self._open: list[ReservingClient] = []
        self._failures = 0
        self._was_away = False

    def __len__(self) -> int:
        return len(self._open)

    async def idle(self) -> ReservingClient | None:
        """One that holds nothing, a new one if need be; None: there is none to be had now."""
        for client in self._open:
            if not client.held:
                return client
        return await self._another()

    async def fullest(self) -> ReservingClient | None:
        """The one that holds most and may hold more, so that the others become idle."""
        with_room = [each for each in self._open if len(each.held) < HELD_MOST]
        fullest = max(with_room, key=lambda each: len(each.held), default=None)
        return fullest or await self._another()

    def answered(self) -> None:
        """The server did what it is there for: the next failure is the first again."""
        self._failures = 0

    async def all_answered(self) -> None:
        """Return when all connections have the answers to what was asked so far."""
        if asked := [each for client in self._open for each in client.unanswered]:
            await asyncio.wait(asked)

    def drop(self, client: ReservingClient) -> None:
        """Close a connection that we want no more; not a failure."""
        self._open.remove(client)
        client.close()

    def drop_ended(self) -> bool:
        """Take out the connections that have ended; whether there were any."""
        ended = [each for each in self._open if each.down]
        self._open = [each for each in self._open if not each.down]
        for client in ended:
            if client.down and client.abandoned:
                why = client.down.message
                emit(Event.JOBS_LOST, server=client.server, jobs=client.abandoned, why=why)
        if ended and ended[0].down:
            self._failed(ended[0].down)
        return bool(ended)

    def drop_all(self) -> None:
        """Close all connections."""
        for client in tuple(self._open):
            self.drop(client)

    async def _another(self) -> ReservingClient | None:
        source = self._source
        if len(self._open) >= source.connections or time.monotonic() < self.open_at:
            return None
        try:
            client = await ReservingClient.open(source, self._settled, self._admitted)
        except TubesDown as down:
            self._failed(down)
            return None
        if self.error is not None:
            if self._was_away:
                emit(Event.BACK, server=source.server)
            self.error = None
            self._was_away = False
        client.ended = self._ended
        self._open.append(client)
        return client

    def _failed(self, down: TubesDown) -> None:
        backoff = min(BACKOFF_FIRST * 2**self._failures, BACKOFF_MOST)
        self._failures = min(self._failures + 1, 16)
        self.open_at = time.monotonic() + backoff * random.uniform(0.5, 1)
        if not self._open:
            if not self._was_away:
                emit(Event.AWAY, server=self._source.server, error=down.message, fix=down.fix)
            self._was_away = True
            self.error = down.message
