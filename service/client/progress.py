"""How operations that listeners named come along, until they end.

All of them are read once a LOOK_SECONDS, however many listeners wait for them. A place costs Redis
0.2 ms, so only so many are asked for each time, in turn: with many that wait, places get older.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from limits.admin.view import View
from limits.server import RunInBackground
from service.client.known import Known, known_of, placed
from service.client.listeners import Kind, Listener, Told
from tracking.account import Account
from tracking.errors import LimitsBroken, LimitsDown
from tracking.operation import State

LOOK_SECONDS = 1.0

WATCHED_MOST = 5_000
"""Operations that are named, in all: one look at so many takes this process some 30 ms."""

AT_ONCE = 500
"""Operations of one read."""

PLACES_MOST = 50
"""Places that are asked for in one look: 10 ms of Redis' time."""

Seen = tuple[object, ...]


class Progress:
    """What is watched in a process, for one event loop."""

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
        """Tell a listener how the operations come along that it named."""
        self._seen[listener] = {}
        self._any.set()

    def leave(self, listener: Listener) -> None:
        """Tell it nothing more, and give its room back."""
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
        found: dict[str, Known] = {}
        for begin in range(0, len(wanted), AT_ONCE):
            some = await self._view.operations(wanted[begin : begin + AT_ONCE])
            found |= {identity: known_of(identity, members) for identity, members in some.items()}
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

    def _tell(self, listener: Listener, seen: dict[str, Seen], found: Sequence[Known]) -> None:
        for each in found:
            before, seen[each.id] = seen.get(each.id), _told_of(each)
            # The end of what it saw come along is an event of its own.
            if before != seen[each.id] and not (each.ended and before):
                listener.offer(Told(Kind.PROGRESS, operation=each))


def _told_of(known: Known) -> Seen:
    """Take out of it what is worth an event when it changes: not what grows old by itself."""
    place = known.place
    return (known.members["status"], *((place.list, place.ahead, place.bound_by) if place else ()))


@asynccontextmanager
async def watching(view: View, beside: RunInBackground) -> AsyncIterator[Progress]:
    """Open what tells listeners how their operations stand; it ends with the `with` block."""
    progress = Progress(view)
    async with beside("progress", progress.run):
        yield progress
