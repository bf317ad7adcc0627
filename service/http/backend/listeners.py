"""Listeners: clients that hear of ends as they happen, and of the progress of named operations.

A listener begins behind an event, and hears of each end once, in order, or that it may miss some:

===================== ============================================================================
it is                 and hears
===================== ============================================================================
behind (`missed`)     what the stream holds since then, from reads of its own
up to date            what the reader of the process (limits/ends.py) hears, from the very next
                      entry on
too slow              nothing more: it comes again, with the id of the last event that it read
===================== ============================================================================

Where ends may be lost, because Redis lost its state or so much ended meanwhile, all listeners hear
that (RESET).

Operations that listeners named are read once a LOOK_SECONDS, however many listeners wait for them
(`Progress`). A place costs Redis 0.2 ms, so only so many are asked for each time, in turn: with
many that wait, places get older.

Ids of events leave sealed, and as another text each time. A plain id is the time at which an
operation of any account ended, and the id of a heartbeat moves with each of them. Sealed, two ids
of one event are as different as those of two, so a client reads nothing out of them. All doors of
one Redis open what any of them sealed, as they share its secret.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import os
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from limits.admin.view import View
from limits.ends import NO_EVENT, End, Ends, EventId, Read
from limits.server import RunInBackground
from service.http.backend.operation_view import OperationView, placed, view_of_members
from service.observe.log import emit_unexpected
from tracking.errors import LimitsBroken, LimitsDown
from tracking.operation import State
from tracking.request import Account, account_and_id

__all__ = ["EventId"]

AT_ONCE = 100
"""Ends of one read: their operations are read in one round trip."""

PENDING_MOST = 1_000
"""Events that are kept for a listener who does not read."""

INBOX_MOST = 20_000
"""Ends that listeners have not heard of, a few MB: MongoDB is asked for some, and may be slow."""

AGAIN_SECONDS = 1.0
"""How long after a failure operations are read again."""

LOOK_SECONDS = 1.0
"""How often operations are read of which listeners hear how they come along."""

WATCHED_MOST = 5_000
"""Operations that are named, in all: one look at so many takes this process some 30 ms."""

WATCHED_AT_ONCE = 500
"""Operations of one read of a look."""

PLACES_MOST = 50
"""Places that are asked for in one look: 10 ms of Redis' time."""

LOST = EventId(0, 1)
"""An id that no event has: nobody knows what ended since."""

_FORM = struct.Struct(">QQ")
_NONCE_BYTES = 12

ReadEnds = Callable[[Sequence[End]], Awaitable[Sequence[OperationView]]]
Seen = tuple[object, ...]


class EventIds:
    """Seals ids and opens them; `secret` is that of a Redis, which loses it with its state."""

    def __init__(self, secret: str) -> None:
        self._cipher = AESGCM(hashlib.sha256(f"events {secret}".encode()).digest())

    def sealed(self, at: EventId) -> str:
        """Write an id."""
        nonce = os.urandom(_NONCE_BYTES)
        return base64.urlsafe_b64encode(
            nonce + self._cipher.encrypt(nonce, _FORM.pack(*at), None)
        ).decode()

    def opened(self, text: str) -> EventId:
        """Read an id; LOST where it is none of this Redis."""
        try:
            read = base64.urlsafe_b64decode(text)
            plain = self._cipher.decrypt(read[:_NONCE_BYTES], read[_NONCE_BYTES:], None)
            return EventId(*_FORM.unpack(plain))
        except (ValueError, InvalidTag, struct.error):
            return LOST


class Kind(StrEnum):
    """The kind of an event."""

    ENDED = "ended"
    RESET = "reset"
    PROGRESS = "progress"


@dataclass(frozen=True, slots=True)
class Told:
    """An event. `at`: its reader knows all up to there; None where it says nothing about that."""

    kind: Kind
    at: EventId | None = None
    operation: OperationView | None = None


class Listener:
    """A client that hears of an account's operations, or of `only` these.

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
        """Whether an event of its account is for this listener."""
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

    def __init__(self, ends: Ends, read: ReadEnds) -> None:
        """`read` finds out about the operations of ends, in their order."""
        self._ends = ends
        self._read = read
        self._all: set[Listener] = set()
        self._inbox: list[End] = []
        """Ends that listeners have not heard of."""
        self._resets = 0
        self._any = asyncio.Event()

    async def ids(self) -> EventIds:
        """Give what writes ids for a client, and reads those that it has. Raises LimitsDown."""
        return EventIds(await self._ends.stream.secret())

    async def missed(
        self, listener: Listener, last: EventId | None
    ) -> AsyncGenerator[Sequence[Told], None]:
        """Yield what ended since `last` (None: from now on); then `next` gives the rest.

        Raises LimitsDown. The caller lets it `leave` in any case.
        """
        stream = self._ends.stream
        at = newest = await stream.newest()
        if last == NO_EVENT and newest != NO_EVENT:
            yield [Told(Kind.RESET, newest)]
        elif last is not None:
            at = last
        until: EventId | None = None
        while until is None or at < until:
            ends = await stream.after(at, AT_ONCE)
            if ends is None:
                at = await stream.newest()
                yield [Told(Kind.RESET, at)]
                continue
            mine = [each for each in ends if until is None or each.at <= until]
            at = mine[-1].at if mine else until or at
            told = await self._told(mine, {listener.account})
            yield [each for each in told[listener.account] if listener.wants(each)]
            if until is None and len(ends) < AT_ONCE:
                until = self._join(listener, at)

    def leave(self, listener: Listener) -> None:
        """Remove a listener."""
        self._all.discard(listener)
        if not self._all:
            self._ends.stop_listening()

    def release(self) -> None:
        """Let all go, because the process ends."""
        for each in self._all:
            each.end()

    async def run(self) -> None:
        """Offer listeners what the reader hears; never returns."""
        while True:
            await self._any.wait()
            try:
                await self._tell()
            except LimitsBroken as error:
                emit_unexpected(error)
                await asyncio.sleep(AGAIN_SECONDS)
            except LimitsDown:
                await asyncio.sleep(AGAIN_SECONDS)

    def _join(self, listener: Listener, at: EventId) -> EventId:
        """Have it told what the reader hears; gives what it has to read by itself until then."""
        self._all.add(listener)
        listener.at = self._ends.listen(at, self._hear)
        return listener.at

    def _hear(self, read: Read) -> None:
        if read.lost or len(self._inbox) + len(read.ends) > INBOX_MOST:
            self._inbox.clear()
            self._resets += 1
            for each in self._all:
                each.at = read.at
                each.offer(Told(Kind.RESET, read.at))
        elif read.ends:
            self._inbox += read.ends
            self._any.set()
        elif read.at == NO_EVENT:  # the stream expired
            for each in self._all:
                each.at = NO_EVENT

    async def _tell(self) -> None:
        ends, listeners, resets = self._inbox[:AT_ONCE], list(self._all), self._resets
        if not ends:
            self._any.clear()
            return
        told = await self._told(ends, {each.account for each in listeners})
        if self._resets != resets:
            return  # listeners know meanwhile that they miss some
        del self._inbox[: len(ends)]
        for listener in listeners:  # who joined meanwhile reads these by itself
            for each in told[listener.account]:
                if each.at and each.at > listener.at and listener.wants(each):
                    listener.offer(each)
            listener.at = max(listener.at, ends[-1].at)

    async def _told(self, ends: Sequence[End], accounts: set[Account]) -> dict[Account, list[Told]]:
        owned = [(account_and_id(each.operation)[0], each) for each in ends]
        wanted = [(account, each) for account, each in owned if account in accounts]
        found = await self._read([each for _, each in wanted]) if wanted else ()
        told: dict[Account, list[Told]] = {account: [] for account in accounts}
        for (account, end), view in zip(wanted, found, strict=True):
            told[account].append(Told(Kind.ENDED, end.at, view))
        return told


class Progress:
    """Operations whose progress listeners hear of, for one event loop."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._seen: dict[Listener, dict[str, Seen]] = {}
        """What each listener heard last of each operation."""
        self._taken: set[Listener] = set()
        """Who has room, also before it hears anything."""
        self._placed: dict[str, int] = {}
        """In which look the place of an operation that waits was asked for."""
        self._looks = 0
        self._any = asyncio.Event()

    def take(self, listener: Listener, account: Account | None) -> bool:
        """Take room for a listener; false where there is none, or its account has half of it."""
        free = WATCHED_MOST - sum(len(each.only) for each in self._taken)
        own = sum(len(each.only) for each in self._taken if each.account == account)
        if own >= free:
            return False
        self._taken.add(listener)
        return True

    def watch(self, listener: Listener) -> None:
        """Offer a listener the progress of the operations that it named."""
        self._seen[listener] = {}
        self._any.set()

    def leave(self, listener: Listener) -> None:
        """Remove a listener, and give its room back."""
        self._taken.discard(listener)
        self._seen.pop(listener, None)
        if not self._seen:
            self._any.clear()

    async def run(self) -> None:
        """Look every `LOOK_SECONDS` while somebody listens; runs until it is cancelled."""
        while True:
            await self._any.wait()
            with contextlib.suppress(LimitsBroken, LimitsDown):  # they hear more when it is back
                await self._look()
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        self._looks += 1
        wanted = list(dict.fromkeys(each for listener in self._seen for each in listener.only))
        found: dict[str, OperationView] = {}
        for begin in range(0, len(wanted), WATCHED_AT_ONCE):
            some = await self._view.operations(wanted[begin : begin + WATCHED_AT_ONCE])
            found |= {identity: view_of_members(identity, each) for identity, each in some.items()}
        waiting = [
            each for each, known in found.items() if known.members["status"] == State.WAITING
        ]
        self._placed = {each: self._placed.get(each, 0) for each in waiting}
        turn = sorted(waiting, key=self._placed.__getitem__)
        for each in await asyncio.gather(
            *(placed(self._view, found[name]) for name in turn[:PLACES_MOST])
        ):
            found[each.id], self._placed[each.id] = each, self._looks
        for name in turn[PLACES_MOST:]:
            del found[name]  # another look asks for its place, and tells of it
        for listener, seen in self._seen.items():
            self._tell(listener, seen, [found[each] for each in listener.only if each in found])

    def _tell(
        self, listener: Listener, seen: dict[str, Seen], found: Sequence[OperationView]
    ) -> None:
        for each in found:
            before, seen[each.id] = seen.get(each.id), _told_of(each)
            # The end of what it saw come along is an event of its own.
            if before != seen[each.id] and not (each.ended and before):
                listener.offer(Told(Kind.PROGRESS, operation=each))


def _told_of(known: OperationView) -> Seen:
    """Take out of it what is worth an event when it changes: not what grows old by itself."""
    place = known.place
    return (known.members["status"], *((place.list, place.ahead, place.bound_by) if place else ()))


@asynccontextmanager
async def listening(
    ends: Ends, read: ReadEnds, beside: RunInBackground
) -> AsyncIterator[Listeners]:
    """Serve listeners within the `with` block."""
    listeners = Listeners(ends, read)
    async with beside("events", listeners.run):
        yield listeners


@asynccontextmanager
async def watching(view: View, beside: RunInBackground) -> AsyncIterator[Progress]:
    """Offer listeners progress within the `with` block."""
    progress = Progress(view)
    async with beside("progress", progress.run):
        yield progress
