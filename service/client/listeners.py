"""Clients that hear of the ends of operations while they happen: one reader for all of a process.

A listener begins behind an event, and hears of each end once, in order, or that it may miss some:

===================== ============================================================================
it is                 and hears
===================== ============================================================================
behind (`missed`)     what the stream holds since then, from reads of its own
up to date            what the reader tells all, from the very next entry on
too slow              nothing more: it comes again, with the id of the last event that it read
===================== ============================================================================

The reader goes on from its last entry after a failure. When that entry is gone, because Redis lost
its state or so much ended meanwhile, all listeners hear that (RESET).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum

from redis.asyncio import Redis

from limits.events import NO_EVENT, End, EndStream, EventId
from limits.server import RunInBackground
from service.client.event_ids import EventIds
from service.client.known import Known
from service.observe.log import emit_unexpected
from tracking.account import Account, account_and_id
from tracking.errors import LimitsBroken, LimitsDown

__all__ = ["EventId", "EventIds", "Kind", "Listener", "Listeners", "Told", "listening"]

AT_ONCE = 100
"""Ends of one read: their operations are read in one round trip."""

PENDING_MOST = 1_000
"""Events that are kept for a listener who does not read."""

AGAIN_SECONDS = 1.0
"""How long after a failure the stream is read again."""

Read = Callable[[Sequence[End]], Awaitable[Sequence[Known]]]


class Kind(StrEnum):
    """What an event tells."""

    ENDED = "ended"
    RESET = "reset"
    PROGRESS = "progress"


@dataclass(frozen=True, slots=True)
class Told:
    """An event. `at`: its reader knows all up to there; None where it says nothing about that."""

    kind: Kind
    at: EventId | None = None
    operation: Known | None = None


class Listener:
    """One client, that wants to hear of an account's operations, or of `only` these.

    `cut` ends its connection, also while it is written to.
    """

    def __init__(
        self, account: Account, only: frozenset[str], cut: Callable[[], None] = lambda: None
    ) -> None:
        self.account = account
        self.only = only
        self.at = NO_EVENT
        self.over = False
        self._cut = cut
        self._pending: list[Told] = []
        self._changed = asyncio.Event()

    def wants(self, told: Told) -> bool:
        """Tell whether it is to hear this of its account."""
        return not self.only or told.operation is None or told.operation.id in self.only

    @property
    def told_until(self) -> EventId | None:
        """Up to where it has heard all; None while something is kept for it."""
        return None if self._pending else self.at

    def offer(self, told: Told) -> None:
        """Keep an event until it is read; with too many of them the client is cut off."""
        if len(self._pending) < PENDING_MOST:
            self._pending.append(told)
            self._changed.set()
        elif not self.over:
            self.end()
            self._cut()

    def end(self) -> None:
        """Let it hear nothing more."""
        self.over = True
        self._changed.set()

    async def next(self, seconds: float) -> Sequence[Told]:
        """Wait for events, for so many seconds at most."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return ()
        if not self.over:
            self._changed.clear()
        told, self._pending = self._pending, []
        return told


class Listeners:
    """All listeners of a process, for one event loop."""

    def __init__(self, stream: EndStream, read: Read) -> None:
        """`read` finds out about the operations of ends, in their order."""
        self._stream = stream
        self._read = read
        self._all: set[Listener] = set()
        self._at = NO_EVENT
        """The reader has told all listeners up to there, or is just telling them."""
        self._any = asyncio.Event()

    async def ids(self) -> EventIds:
        """Tell how to write ids for a client, and to read those that it has. Raises LimitsDown."""
        return EventIds(await self._stream.secret())

    async def missed(
        self, listener: Listener, last: EventId | None
    ) -> AsyncGenerator[Sequence[Told], None]:
        """Tell what ended since `last` (None: from now on); then `next` tells the rest.

        Raises LimitsDown. The caller lets it `leave` in any case.
        """
        at = newest = await self._stream.newest()
        if last == NO_EVENT and newest != NO_EVENT:
            yield [Told(Kind.RESET, newest)]
        elif last is not None:
            at = last
        until: EventId | None = None
        while until is None or at < until:
            ends = await self._stream.after(at, AT_ONCE)
            if ends is None:
                at = await self._stream.newest()
                yield [Told(Kind.RESET, at)]
                continue
            mine = [each for each in ends if until is None or each.at <= until]
            at = mine[-1].at if mine else until or at
            told = await self._told(mine, {listener.account})
            yield [each for each in told[listener.account] if listener.wants(each)]
            if until is None and len(ends) < AT_ONCE:
                until = self._join(listener, at)

    def leave(self, listener: Listener) -> None:
        """Tell it nothing more."""
        self._all.discard(listener)
        if not self._all:
            self._any.clear()

    def release(self) -> None:
        """Let all go, because the process ends."""
        for each in self._all:
            each.end()

    async def run(self) -> None:
        """Read, and tell everybody; never returns."""
        while True:
            await self._any.wait()
            try:
                await self._tell_more()
            except LimitsBroken as error:
                emit_unexpected(error)
                await asyncio.sleep(AGAIN_SECONDS)
            except LimitsDown:
                await asyncio.sleep(AGAIN_SECONDS)

    def _join(self, listener: Listener, at: EventId) -> EventId:
        """Have the reader tell it what comes; tells what it has to read by itself until then."""
        if not self._all:
            self._at = at
            self._any.set()
        self._all.add(listener)
        listener.at = max(at, self._at)
        return listener.at

    async def _tell_more(self) -> None:
        at = self._at
        ends = await self._stream.after(at, AT_ONCE)
        if ends:
            await self._tell(at, ends)
            return
        after = await (self._stream.newest() if ends is None else self._stream.wait(at))
        if after == at or self._at != at:
            return  # nothing came, or all left meanwhile and others came
        self._at = after
        for each in self._all:
            each.at = after
            if ends is None:
                each.offer(Told(Kind.RESET, after))

    async def _tell(self, at: EventId, ends: Sequence[End]) -> None:
        if self._at != at:
            return
        listeners, self._at = list(self._all), ends[-1].at  # who joins now reads these by itself
        try:
            told = await self._told(ends, {each.account for each in listeners})
        except (LimitsBroken, LimitsDown):
            if self._at == ends[-1].at:
                self._at = at
            raise
        for listener in listeners:
            for each in told[listener.account]:
                if each.at and each.at > listener.at and listener.wants(each):
                    listener.offer(each)
            listener.at = max(listener.at, ends[-1].at)

    async def _told(self, ends: Sequence[End], accounts: set[Account]) -> dict[Account, list[Told]]:
        owned = [(account_and_id(each.operation)[0], each) for each in ends]
        wanted = [(account, each) for account, each in owned if account in accounts]
        found = await self._read([each for _, each in wanted]) if wanted else ()
        told: dict[Account, list[Told]] = {account: [] for account in accounts}
        for (account, end), known in zip(wanted, found, strict=True):
            told[account].append(Told(Kind.ENDED, end.at, known))
        return told


@asynccontextmanager
async def listening(redis: Redis, read: Read, beside: RunInBackground) -> AsyncIterator[Listeners]:
    """Tell listeners within the `with` block."""
    listeners = Listeners(EndStream(redis), read)
    async with beside("events", listeners.run):
        yield listeners
