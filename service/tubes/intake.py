"""Jobs from one tube of all servers, handed to the event loop in batches.

Every server has a task of its own (`service.tubes.reserver`): one that is away or hangs delays
nobody else, and is connected to again by its task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from service.tubes.client import Reservation
from service.tubes.held_jobs import HeldJobs
from service.tubes.job import ReservedJob
from service.tubes.pool import Source
from service.tubes.reserver import Reserver

LEAVE_SECONDS = 0.01
"""How long room may lie unused. The jobs that are reserved with it come in batches, so it costs no
time that matters."""


@dataclass(frozen=True, slots=True)
class Server:
    """How a server does. `error` is None while it is connected, else says what is wrong."""

    name: str
    error: str | None


class Intake:
    """Has up to `room` jobs on their way. `on_jobs` is called on the event loop, with one or more.

    Each of those jobs must be settled, and is touched until then. It counts against `room` until it
    is settled or `admitted`.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        room: int,
        secret: bytes,
        on_jobs: Callable[[list[ReservedJob]], None],
    ) -> None:
        """`secret` makes the jobs' keys unguessable; all workers must have the same."""
        self._sources = sources
        self._room = HeldJobs(room)
        self._secret = secret
        self._on_jobs = on_jobs
        self._reservers: list[Reserver] = []
        self._left = 0

    @property
    def held(self) -> int:
        """Jobs that were handed over and neither settled nor admitted."""
        return self._room.taken

    @property
    def servers(self) -> list[Server]:
        """How each server does."""
        return [Server(each.source.server, each.error) for each in self._reservers]

    def start(self) -> None:
        """Begin to take jobs, from each server as soon as it answers."""
        for source in self._sources:
            reserver = Reserver(source, self._room, self._deliver)
            reserver.start()
            self._reservers.append(reserver)

    def pause(self) -> None:
        """Take no more jobs for now; a few that are on their way may still come."""
        self._switch(taking=False)

    def resume(self) -> None:
        """Take jobs again after `pause`."""
        self._switch(taking=True)

    def resize(self, room: int) -> None:
        """Hold up to `room` jobs from now on."""
        self._room.resize(room)

    async def stop(self) -> None:
        """Take no more jobs. None is handed over after this has returned.

        What is held stays held and is touched until it is settled; then call `close`.
        """
        self._switch(taking=False)
        await asyncio.gather(*(each.round_trip() for each in self._reservers))

    async def all_answered(self) -> None:
        """Return when deletes that nobody waited for are done, or cannot be any more.

        Of a server that is silent only as long as a reply may take; one that is slow may take any
        time.
        """
        await asyncio.gather(*(each.all_answered() for each in self._reservers))

    async def close(self) -> None:
        """End all connections; every job that is still held goes to others at once."""
        for reserver in self._reservers:
            await reserver.close()
        await asyncio.sleep(0)  # asyncio closes the sockets in its next turn

    def _switch(self, *, taking: bool) -> None:
        for reserver in self._reservers:
            reserver.taking = taking
            reserver.wake()

    def _deliver(self, reservations: list[Reservation]) -> None:
        self._on_jobs([ReservedJob(each, self._leave, self._secret) for each in reservations])

    def _leave(self) -> None:
        """Give back the room of many jobs at once: each time a reserver wakes."""
        if not self._left:
            asyncio.get_running_loop().call_later(LEAVE_SECONDS, self._give)
        self._left += 1

    def _give(self) -> None:
        left, self._left = self._left, 0
        self._room.give(left)
