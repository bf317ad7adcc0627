"""A door: puts jobs in its tube, and keeps in the spool what no beanstalkd takes.

The event loop puts; a thread reads and writes the spool. What is posted in one turn of the loop
leaves in one write, and what no server takes while the spool is synced makes up its next batch: so
a busy door makes few round trips and few syncs.

========================== ===================================== ==================================
a request is               when                                  the only copy until the next step
========================== ===================================== ==================================
taken, not spooled         a beanstalkd said INSERTED, and its   that server
                           binlog grew by it
taken, spooled             no beanstalkd takes it                the spool (and standard output)
refused (SpoolDown)        the spool does not take it either     its client (of a relayed one,
                                                                 standard output, too)
put out of the spool       a beanstalkd said INSERTED            the row goes afterwards, so that a
                                                                 kill between puts it twice: one id,
                                                                 one operation; one that cannot be
                                                                 deleted holds nobody up
========================== ===================================== ==================================
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from service.config.schema import Config
from service.observe.events import Event
from service.observe.log import emit
from service.operator.put import Sendable
from service.operator.spool import Spool, Spooled, write_lines, write_relayed_lines
from service.worker.deliveries.foreign_request import JOB_MOST, WEBHOOKS_TUBE
from service.worker.results.connection import Batches
from service.worker.tubes.blocking import Timeouts
from service.worker.tubes.envelope import REQUESTS_TUBE
from service.worker.tubes.put_servers import NotPut, PutOptions, PutServers, too_small
from tracking.errors import SpoolDown, StoreError, TubesDown

T = TypeVar("T")

TIMEOUTS = Timeouts(connect=1.0, reply=2.0)
"""Short: what a server that hangs does not take soon is safe in the spool."""

LATE_SECONDS = 3.0
"""Seconds: where a request waits for longer to be durable, no other one is taken meanwhile."""

TAKEN_MOST = 20_000
"""Requests that wait to be durable, in all: a beanstalkd that syncs each takes them in 2 or 3 s."""

LOOK_SECONDS = 1.0
"""How often the door looks whether the spool holds something that can be put."""

TOGETHER_MOST = 400
"""Requests that are put out of the spool at once: new ones pass in between."""

SYNCED_MOST = 10_000
"""Requests that are synced at once."""

OPTIONS = PutOptions()

Note = Callable[[Sequence[Sendable]], None]
"""Hears of requests that are durable."""

Insist = Callable[[Sequence[Sendable]], Awaitable[None]]
"""Raises what refuses requests of one account, before any of them is put."""


class TooSlow(StoreError):
    """More is asked for than becomes durable in time: come again later."""


@dataclass(frozen=True, slots=True)
class Tube:
    """A tube, and what a door does for its jobs.

    `last`: standard output has what nothing else takes, else a second copy of what is spooled.
    `job_most`: bytes that a job may have, 0: as many as any server takes. `bytes_most`: bytes of
    jobs that may wait in the tube, 0: any.
    """

    name: str = REQUESTS_TUBE
    write: Callable[[Sequence[bytes]], bool] = write_lines
    last: bool = False
    job_most: int = 0
    bytes_most: int = 0


REQUESTS = Tube()

TO_RELAYS = Tube(WEBHOOKS_TUBE, write_relayed_lines, last=True, job_most=JOB_MOST)


@dataclass(frozen=True, slots=True)
class _NotTaken:
    """Requests that no server took, and why."""

    bodies: Sequence[bytes]
    why: StoreError


@dataclass(frozen=True, slots=True)
class DoorHealth:
    """The health of the door: `tubes` and `spool` are "" where they take requests, else why not.

    `spooled`: requests in the spool, None where it cannot be read. `small`: why servers that are
    there never take the largest jobs, "" where one does.
    """

    tubes: str
    spool: str
    spooled: int | None
    small: str = ""

    @property
    def ready(self) -> bool:
        """Whether a request that comes now would be taken."""
        return not (self.tubes and self.spool) and not self.small


class Waiting:
    """Estimates the bytes that wait in the tube: those of the newest puts, as many as jobs wait."""

    def __init__(self) -> None:
        self.bytes = 0
        self._puts: deque[tuple[int, int]] = deque()
        self._jobs = 0

    def add(self, bodies: Sequence[bytes]) -> None:
        """Count what was put."""
        size = sum(map(len, bodies))
        self._puts.append((len(bodies), size))
        self._jobs += len(bodies)
        self.bytes += size

    def keep(self, jobs: int) -> None:
        """Forget the oldest, of which no more than so many can wait."""
        while self._puts and self._jobs - self._puts[0][0] >= jobs:
            count, size = self._puts.popleft()
            self._jobs -= count
            self.bytes -= size


class Door:
    """Takes requests, for one event loop; `spool` is its thread's from now on."""

    def __init__(
        self,
        servers: PutServers,
        spool: Spool,
        tube: Tube = REQUESTS,
        note: Note | None = None,
    ) -> None:
        """`note` hears of all that is taken."""
        self._servers = servers
        self._spool = spool
        self._tube = tube
        self._note = note
        self.insist: Insist | None = None
        self.waiting = Waiting()
        self._thread = ThreadPoolExecutor(1, "door")
        self._keeping: Batches[_NotTaken, None] = Batches(
            self._keep, SYNCED_MOST, lambda each: len(each.bodies)
        )
        self._taking: dict[object, float] = {}
        """Since when those wait that are not durable yet, the longest first."""
        self._waiting = 0
        self._after = 0
        self._put: dict[int, None] = {}
        """What is put and stands in the spool still, in its order."""

    async def take(self, requests: Sequence[Sendable]) -> Sequence[bool]:
        """Make requests of one account durable, as `take_jobs` does, once `insist` lets them in."""
        if self.insist:
            await self.insist(requests)
        spooled = await self.take_jobs([each.body for each in requests])
        if self._note:
            self._note(requests)
        return spooled

    async def take_jobs(self, bodies: Sequence[bytes]) -> Sequence[bool]:
        """Make jobs durable; tells of each whether it is in the spool.

        Raises SpoolDown: some of them are durable nowhere. Others may be put; with their ids they
        may be given again. Raises TooSlow: none is put.
        """
        if self._waiting and self._waiting + len(bodies) > TAKEN_MOST:
            raise TooSlow(f"{self._waiting} requests wait to be durable, {TAKEN_MOST} at most may")
        waits = object()
        self._taking[waits] = time.monotonic()
        self._waiting += len(bodies)
        try:
            return await self._take(bodies)
        finally:
            del self._taking[waits]
            self._waiting -= len(bodies)

    def insist_on_pace(self) -> None:
        """Raises TooSlow where a request would wait for long: better told so than kept waiting."""
        for since in self._taking.values():
            if time.monotonic() - since > LATE_SECONDS:
                raise TooSlow(f"requests wait for more than {LATE_SECONDS:g} s to be durable")
            return

    def job_most(self) -> int | None:
        """How large a job some server takes; None while one is away that may take any."""
        most = 0
        for server in self._servers.all:
            if (client := server.connected) is None:
                return None
            most = max(most, client.job_most)
        return most

    async def _take(self, bodies: Sequence[bytes]) -> Sequence[bool]:
        spooled = [False] * len(bodies)
        try:
            await self._put_all(bodies)
        except NotPut as error:
            spooled = [place is None for place in error.placed]
            left = [body for body, alone in zip(bodies, spooled, strict=True) if alone]
            await self._keeping.submit(_NotTaken(left, error))
        return spooled

    async def empty_spool(self) -> None:
        """Put what is spooled, oldest first, once a server takes it; never returns."""
        while True:
            await self._look_into_the_tube()
            try:
                put = 0
                while some := await self._put_spooled():
                    put += some
                if put:
                    emit(Event.UNSPOOLED, requests=put)
            except SpoolDown as error:
                emit(Event.SPOOL_DOWN, error=error.message, fix=error.fix)
            await asyncio.sleep(LOOK_SECONDS)

    async def health(self) -> DoorHealth:
        """Ask the servers and the spool."""
        spool, spooled = "", None
        try:
            spooled = await self._call(self._spool.count)
            await self._call(self._spool.insist_on_room)
        except SpoolDown as error:
            emit(Event.SPOOL_DOWN, error=error.message, fix=error.fix)
            spool = f"{error}"
        return DoorHealth(await self._servers.refusal(), spool, spooled, self._small())

    def _small(self) -> str:
        known = {server: most for server, most in self._servers.job_mosts().items() if most}
        if not known or max(known.values()) >= self._tube.job_most:
            return ""
        told = (too_small(*each, self._tube.job_most) for each in known.items())
        return "; ".join(f"{what}. {fix}" for what, fix in told)

    async def _look_into_the_tube(self) -> None:
        """Ask how much waits there, where that is bounded."""
        if self._tube.bytes_most:
            with suppress(TubesDown):
                self.waiting.keep(await self._servers.jobs(self._tube.name))

    async def _put_all(self, bodies: Sequence[bytes]) -> None:
        """Put jobs, as long as the tube has room for them. Raises NotPut."""
        most, there = self._tube.bytes_most, self.waiting.bytes
        if most and there and there + sum(map(len, bodies)) > most:
            why = f"{there} bytes wait in the tube {self._tube.name} already"
            fix = "Start more workers, or raise ingest.tube_mib."
            raise NotPut(why, fix, [None] * len(bodies))
        taken = bodies
        try:
            await self._servers.put(self._tube.name, bodies, OPTIONS)
        except NotPut as error:
            taken = [each for each, place in zip(bodies, error.placed, strict=True) if place]
            raise
        finally:
            if most:
                self.waiting.add(taken)

    async def close(self) -> None:
        """Close everything; what was posted must be answered by now."""
        self._servers.close()
        await self._call(self._spool.close)
        self._thread.shutdown(wait=False)

    async def _call(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _keep(self, left: Sequence[_NotTaken]) -> Sequence[None]:
        """Spool requests: all of them, or SpoolDown."""
        bodies = [body for each in left for body in each.bodies]
        why = left[0].why
        try:
            saved = await self._call(lambda: self._add(bodies))
        except SpoolDown as error:
            emit(Event.SPOOL_DOWN, error=error.message, fix=error.fix)
            if self._tube.last:
                await self._call(lambda: self._tube.write(bodies))
            raise SpoolDown(f"{why.message}; {error.message}", error.fix) from error
        emit(Event.SPOOLED, requests=len(bodies), error=why.message, fix=why.fix, saved=saved)
        return [None] * len(left)

    def _add(self, bodies: Sequence[bytes]) -> bool:
        self._spool.add(bodies)
        return not self._tube.last and self._tube.write(bodies)

    async def _put_spooled(self) -> int:
        """Put the next requests of the spool; tells how many were put, 0: look again later."""
        async with self._alone() as alone:
            await self._let_go()
            if not alone:
                return 0
            found = await self._next()
            placed = await self._placed([each.body for each in found])
            put = [each.id for each, taken in zip(found, placed, strict=True) if taken]
            self._put |= dict.fromkeys(put)
            await self._let_go()
            # Skip what every server refuses: it is tried again in the next round.
            self._after = found[-1].id if put else 0
            return len(put)

    async def _next(self) -> list[Spooled]:
        """Read the next requests of the spool, without those that are put."""
        while found := await self._call(lambda: self._spool.oldest(TOGETHER_MOST, self._after)):
            if left := [each for each in found if each.id not in self._put]:
                return left
            self._after = found[-1].id
        return []

    async def _let_go(self) -> None:
        """Delete what is put. What cannot be deleted now is deleted later, and not put again."""
        try:
            while some := list(itertools.islice(self._put, TOGETHER_MOST)):
                await self._call(functools.partial(self._spool.delete, some))
                for each in some:
                    del self._put[each]
        except SpoolDown as error:
            emit(Event.SPOOL_DOWN, error=error.message, fix=error.fix)

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[bool]:
        held = ExitStack()
        try:
            yield await self._call(lambda: held.enter_context(self._spool.alone()))
        finally:
            await self._call(held.close)

    async def _placed(self, bodies: Sequence[bytes]) -> list[bool]:
        try:
            if bodies:
                await self._put_all(bodies)
        except NotPut as error:
            return [place is not None for place in error.placed]
        return [True] * len(bodies)


def open_door(config: Config, spool: Path, note: Note | None = None, tube: Tube = REQUESTS) -> Door:
    """Open the door to the servers of a configuration, with its spool at a path of this disk."""
    servers, durable = config.beanstalkd.servers, not config.beanstalkd.allow_loss
    put_servers = PutServers(servers, TIMEOUTS, durable=durable)
    return Door(put_servers, Spool(spool, config.ingest.spool_mib), tube, note)


def open_relays_door(config: Config, beside: Path) -> Door:
    """Open the door for foreign requests, whose spool lies beside that for requests."""
    spool = beside / config.ingest.spool
    tube = replace(TO_RELAYS, bytes_most=config.ingest.tube_mib << 20)
    return open_door(config, spool.with_stem(f"{spool.stem}-webhooks"), tube=tube)
