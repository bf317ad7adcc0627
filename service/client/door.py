"""The door for requests: puts them, and keeps in the spool what no beanstalkd takes.

One thread puts, and reads and writes the spool: whatever is posted while it works is one batch of
the next step, so that a busy door makes few round trips and few syncs.

========================== ===================================== ==================================
a request is               when                                  the only copy until the next step
========================== ===================================== ==================================
taken, not spooled         a beanstalkd said INSERTED, and its   that server
                           binlog grew by it
taken, spooled             no beanstalkd takes it                the spool (and standard output)
refused (SpoolDown)        the spool does not take it either     its client
put out of the spool       a beanstalkd said INSERTED            the row goes afterwards, so that a
                                                                 kill between puts it twice: one id,
                                                                 one operation
========================== ===================================== ==================================
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

from service.client.saved_lines import write_lines
from service.client.spool import Spool
from service.config.schema import Config
from service.observe.events import Event
from service.observe.log import emit
from service.results.batches import Batches
from service.tubes.commands import Placing
from service.tubes.connection import Patience
from service.tubes.envelope import REQUESTS_TUBE
from service.tubes.outlets import NotPut, Outlets
from tracking.errors import SpoolDown, StoreError, TrackingError

T = TypeVar("T")

PATIENCE = Patience(connect=1.0, reply=2.0)
"""Short: what a server that hangs does not take soon is safe in the spool."""

LOOK_SECONDS = 1.0
"""How often the door looks whether the spool holds something that can be put."""

TOGETHER_MOST = 400
"""Requests that are put at once: the next ones are read meanwhile, and those that wait in the spool
let new ones pass."""

PLACING = Placing()


@dataclass(frozen=True, slots=True)
class Standing:
    """What the door can do now: `tubes` and `spool` are "" where they take requests, else why not.

    `spooled`: requests in the spool, None where it cannot be read.
    """

    tubes: str
    spool: str
    spooled: int | None

    @property
    def ready(self) -> bool:
        """Whether a request that comes now would be taken."""
        return not (self.tubes and self.spool)


class Door:
    """Takes requests, for one event loop; `outlets` and `spool` are its thread's from now on."""

    def __init__(
        self,
        outlets: Outlets,
        spool: Spool,
        save: Callable[[Sequence[bytes]], bool] = write_lines,
    ) -> None:
        """`save` writes the second copy of what is spooled; false where it could not."""
        self._outlets = outlets
        self._spool = spool
        self._save = save
        self._thread = ThreadPoolExecutor(1, "door")
        self._posts: Batches[Sequence[bytes], Sequence[bool]] = Batches(
            self._on_thread, TOGETHER_MOST, len
        )
        self._after = 0
        self._put: list[int] = []

    async def take(self, bodies: Sequence[bytes]) -> Sequence[bool]:
        """Make jobs durable; tells of each whether it is in the spool.

        Raises SpoolDown: some of them are durable nowhere. Others may be put, so only bodies with
        an `id` of their own may be given again.
        """
        return await self._posts.submit(bodies)

    async def empty_spool(self) -> None:
        """Put what the spool holds, oldest first, whenever a server takes it; never returns."""
        while True:
            try:
                put = 0
                while some := await self._call(self._put_spooled):
                    put += some
                if put:
                    emit(Event.UNSPOOLED, requests=put)
            except SpoolDown as error:
                emit(Event.SPOOL_DOWN, error=error.message, fix=error.fix)
            await asyncio.sleep(LOOK_SECONDS)

    async def standing(self) -> Standing:
        """Ask the servers and the spool."""
        return await self._call(self._look)

    async def close(self) -> None:
        """Close everything, once what was posted is done."""
        await self._call(self._outlets.close)
        await self._call(self._spool.close)
        self._thread.shutdown(wait=False)

    async def _call(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _on_thread(
        self, posts: Sequence[Sequence[bytes]]
    ) -> Sequence[Sequence[bool] | TrackingError]:
        return await self._call(lambda: self._take(posts))

    def _take(self, posts: Sequence[Sequence[bytes]]) -> Sequence[Sequence[bool] | TrackingError]:
        bodies = [body for post in posts for body in post]
        try:
            self._outlets.put(REQUESTS_TUBE, bodies, PLACING)
        except NotPut as error:
            spooled = [place is None for place in error.placed]
            left = [body for body, alone in zip(bodies, spooled, strict=True) if alone]
            failed = self._keep(left, error)
        else:
            return [[False] * len(post) for post in posts]
        each = iter(spooled)
        shares = [list(islice(each, len(post))) for post in posts]
        return [failed if failed and any(share) else share for share in shares]

    def _keep(self, bodies: Sequence[bytes], why: StoreError) -> SpoolDown | None:
        try:
            self._spool.add(bodies)
        except SpoolDown as error:
            emit(Event.SPOOL_DOWN, error=error.message, fix=error.fix)
            return SpoolDown(f"{why.message}; {error.message}", error.fix)
        saved = self._save(bodies)
        emit(Event.SPOOLED, requests=len(bodies), error=why.message, fix=why.fix, saved=saved)
        return None

    def _put_spooled(self) -> int:
        """Put the next requests of the spool; tells how many were put, 0: look again later."""
        with self._spool.alone() as alone:
            # Again, should the last time have failed: else they would be put again and again.
            self._spool.delete(self._put)
            found = self._spool.oldest(TOGETHER_MOST, self._after) if alone else []
            put = list(self._placed([each.body for each in found]))
            self._put = [each.id for each, placed in zip(found, put, strict=True) if placed]
            self._spool.delete(self._put)
            # A request that no server takes holds nothing up that stands behind it.
            self._after = found[-1].id if self._put else 0
            count, self._put = len(self._put), []
            return count

    def _placed(self, bodies: Sequence[bytes]) -> Iterator[bool]:
        try:
            placed = self._outlets.put(REQUESTS_TUBE, bodies, PLACING) if bodies else []
        except NotPut as error:
            return (place is not None for place in error.placed)
        return (True for _ in placed)

    def _look(self) -> Standing:
        try:
            spool, spooled = "", self._spool.count()
        except SpoolDown as error:
            emit(Event.SPOOL_DOWN, error=error.message, fix=error.fix)
            spool, spooled = f"{error}", None
        return Standing(self._outlets.refusal(REQUESTS_TUBE), spool, spooled)


def open_door(config: Config, spool: Path) -> Door:
    """Open the door to the servers of a configuration, with its spool at a path of this disk."""
    servers, durable = config.beanstalkd.servers, not config.beanstalkd.allow_loss
    outlets = Outlets(servers, PATIENCE, durable=durable)
    return Door(outlets, Spool(spool, config.ingest.spool_mib))
