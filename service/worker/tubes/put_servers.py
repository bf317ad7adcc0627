"""Servers on which jobs are put, in turn: past those that are away or refuse, in few round trips.

A server that takes no job of some size is asked for smaller ones all the same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from service.worker.tubes.blocking import Timeouts
from service.worker.tubes.envelope import DRAINS_TUBE, REQUESTS_TUBE, encode_drain, encode_request
from service.worker.tubes.put_client import (
    FORGETFUL,
    RESTART,
    Answers,
    PutClient,
    PutOptions,
    PutRefused,
)
from tracking.errors import TubesDown
from tracking.line import Line
from tracking.request import TrackingRequest

__all__ = ["PutOptions"]

T = TypeVar("T")

WITH_Z = 1_310_720
"""Bytes that docker-compose.yml gives to beanstalkd's -z: every job is smaller."""

AVOIDED = 1.0
"""Seconds for which a server that is away or refuses is not asked again."""

AVOIDED_SLOW = 5.0
"""The same where that was waited for: each time costs everybody who puts the same wait."""

SLOW = 0.5
"""Seconds after which a failure counts as waited for."""

WORKERS_TIMEOUTS = Timeouts(connect=1.0, reply=2.0)
"""Shorter than for reserves: every put behind this one waits as well."""

TOGETHER_MOST = 32
"""Jobs that a worker puts in one go: a drain job waits for these, and each may be synced to a
disk."""

DRAIN = PutOptions(priority=0)
"""Before everything else in its tube, where only other drains are."""

RECHECK = PutOptions(priority=2**17)
"""Behind what producers put: nobody waits for a re-check."""


class JobRef(NamedTuple):
    """Where a job is: its server, and its id there."""

    server: str
    job: int


class _TooLarge(PutRefused):
    """A server that takes no job of this size; smaller ones it takes."""


class NotPut(TubesDown):
    """No server took some of several jobs; `placed` has an entry for each, None for those."""

    def __init__(self, message: str, fix: str, placed: Sequence[JobRef | None]) -> None:
        super().__init__(message, fix)
        self.placed = placed


class PutServer:
    """One server to put on, with at most one connection.

    `durable`: jobs count as put only where the server's binlog holds them.
    """

    def __init__(self, server: str, timeouts: Timeouts, *, durable: bool = False) -> None:
        self.server = server
        self._durable = durable
        self._forgetful = ""
        self.error = TubesDown(f"beanstalkd {server} was not asked yet")
        self._timeouts = timeouts
        self._client: PutClient | None = None
        self._opening = asyncio.Lock()
        self._avoid_until = 0.0

    async def put(
        self, tube: str, bodies: Sequence[bytes], options: PutOptions
    ) -> list[int | None]:
        """Put jobs: the id of each, None where it did not take one, and `error` says why.

        A job whose reply was lost is put again, and may be there twice.
        """
        results: Answers = []
        began = time.monotonic()
        while len(results) < len(bodies) and time.monotonic() >= self._avoid_until:
            # It may have been restarted since it was last used.
            before = self._client
            try:
                client = await self._opened()
                results += await self._put(client, tube, bodies[len(results) :], options)
            except TubesDown as error:
                if self._client is not before:
                    self._avoid(error, began)
        for each in results:
            if isinstance(each, _TooLarge):
                self.error = each
            elif isinstance(each, PutRefused):
                self._avoid(each, began)
        ids = [each if isinstance(each, int) else None for each in results]
        return ids + [None] * (len(bodies) - len(ids))

    @property
    def connected(self) -> PutClient | None:
        """The connection, if there is one."""
        return None if self._client is None or self._client.down else self._client

    async def refusal(self) -> str:
        """Say why it takes no jobs now; "" where it does, as far as is known."""
        try:
            await self._opened()
        except TubesDown as error:
            return f"{error}"
        return f"{self.error}" if time.monotonic() < self._avoid_until else ""

    def close(self) -> None:
        """End the connection, if there is one."""
        if self._client:
            self._client.close()

    async def _opened(self) -> PutClient:
        """Give the connection, a new one if need be. Raises TubesDown."""
        if self._client and not self._client.down:
            return self._client
        async with self._opening:
            if self.connected:
                return self.connected
            if time.monotonic() < self._avoid_until:
                raise TubesDown(self.error.message, self.error.fix)
            began = time.monotonic()
            try:
                self._client = await self._open()
            except TubesDown as error:
                self._avoid(error, began)
                raise
            return self._client

    async def _open(self) -> PutClient:
        if self._client and self._client.forgetful:
            self._forgetful = self._client.instance
        made = await PutClient.open(self.server, self._timeouts, durable=self._durable)
        if not self._durable or (made.binlog and made.instance != self._forgetful):
            return made
        made.close()
        if not made.binlog:
            what, fix = "keeps jobs in memory only (no binlog)", "Start it with -b DIR -f 0."
        else:
            what, fix = FORGETFUL, RESTART
        raise TubesDown(f"beanstalkd {self.server} {what}", fix)

    async def _put(
        self, client: PutClient, tube: str, bodies: Sequence[bytes], options: PutOptions
    ) -> Answers:
        """Put the jobs that are not too large. Raises TubesDown."""
        if max(map(len, bodies)) <= client.job_most:
            return await client.put(tube, bodies, options)
        fit = [each for each in bodies if len(each) <= client.job_most]
        answers, results = iter(await client.put(tube, fit, options)), Answers()
        for each in bodies:
            if len(each) > client.job_most:
                results.append(_TooLarge(*too_small(self.server, client.job_most, len(each))))
            elif (answer := next(answers, None)) is None:
                break
            else:
                results.append(answer)
        return results

    def _avoid(self, error: TubesDown, began: float) -> None:
        self.error = error
        now = time.monotonic()
        self._avoid_until = now + (AVOIDED_SLOW if now - began > SLOW else AVOIDED)


class PutServers:
    """All servers to put on. For one event loop."""

    def __init__(
        self, servers: Sequence[str], timeouts: Timeouts, *, durable: bool = False
    ) -> None:
        """`durable`: pass over a server without a binlog, or that stopped writing it."""
        self.all = [PutServer(server, timeouts, durable=durable) for server in servers]
        self._next = 0

    async def put(self, tube: str, bodies: Sequence[bytes], options: PutOptions) -> list[JobRef]:
        """Put jobs, all on the next server if it takes them; gives where each is.

        Raises NotPut. What is put again because a reply was lost may be there twice.
        """
        self._next += 1
        placed: list[JobRef | None] = [None] * len(bodies)
        left = list(range(len(bodies)))
        errors: list[TubesDown] = []
        for turn in range(len(self.all)):
            server = self.all[(self._next + turn) % len(self.all)]
            jobs = await server.put(tube, [bodies[each] for each in left], options)
            if not errors and None not in jobs:
                return [JobRef(server.server, job) for job in jobs if job is not None]
            for index, job in zip(left, jobs, strict=True):
                if job is not None:
                    placed[index] = JobRef(server.server, job)
            left = [index for index in left if placed[index] is None]
            if not left:
                break
            errors.append(server.error)
        done = [each for each in placed if each is not None]
        if left:
            raise NotPut("; ".join(each.message for each in errors), errors[-1].fix, placed)
        return done

    async def refusal(self) -> str:
        """Say why no server takes jobs now; "" where one does."""
        refused = [await server.refusal() for server in self.all]
        return "" if "" in refused else "; ".join(refused)

    def job_mosts(self) -> dict[str, int | None]:
        """Tell how large a job each server takes; None of those that are not connected."""
        found = ((each.server, each.connected) for each in self.all)
        return {server: client.job_most if client else None for server, client in found}

    async def jobs(self, tube: str) -> int:
        """Count the jobs in a tube, on the servers that are connected. Raises TubesDown."""
        clients = [each.connected for each in self.all]
        return sum([await client.jobs(tube) for client in clients if client])

    def close(self) -> None:
        """End all connections."""
        for server in self.all:
            server.close()


class Putter:
    """Puts the jobs that a worker makes: drains, and requests for re-checks. For one event loop.

    A put that is repeated on another server may have worked on the first: both kinds of jobs may
    be there twice without harm.
    """

    def __init__(self, servers: Sequence[str], timeouts: Timeouts = WORKERS_TIMEOUTS) -> None:
        self._servers = PutServers(servers, timeouts)

    async def put_drain(self, line: Line) -> None:
        """Ask for somebody to drain `line`. Raises TubesDown: no server took the job."""
        await self.put_drains([line])

    async def put_drains(self, lines: Iterable[Line]) -> None:
        """Ask for somebody to drain each line. Raises TubesDown: no server took some."""
        await self.put_all(DRAINS_TUBE, map(encode_drain, lines), DRAIN)

    async def put_rechecks(self, requests: Iterable[TrackingRequest]) -> None:
        """Put requests. Raises TubesDown: no server took some of them."""
        await self.put_all(REQUESTS_TUBE, map(encode_request, requests), RECHECK)

    async def put_all(self, tube: str, bodies: Iterable[bytes], options: PutOptions) -> None:
        """Put jobs in few round trips. Raises TubesDown: no server took some of them."""
        for batch in batches(bodies, TOGETHER_MOST):
            await self._servers.put(tube, batch, options)

    def close(self) -> None:
        """Close the connections."""
        self._servers.close()


def too_small(server: str, most: int, size: int) -> tuple[str, str]:
    """Word that a server takes no job of this size: what a TubesDown is made of."""
    what = f"beanstalkd {server} takes no job of this size, {size} bytes: {most} at most"
    return what, f"Start it with -z {max(size, WITH_Z)}."


def batches(items: Iterable[T], most: int) -> Iterator[Sequence[T]]:
    """Cut into pieces of at most `most`."""
    left = iter(items)
    while batch := list(islice(left, most)):
        yield batch
