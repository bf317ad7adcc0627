"""Where jobs are put: servers in turn, past those that are away or refuse, in few round trips."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from service.tubes.commands import Placing
from service.tubes.connection import Patience
from service.tubes.put_client import FORGETFUL, RESTART, Answers, PutClient, PutRefused
from tracking.errors import TubesDown

T = TypeVar("T")

AVOIDED = 1.0
"""Seconds for which a server that is away or refuses is not asked again."""

AVOIDED_SLOW = 5.0
"""The same where that was waited for: each time costs everybody who puts the same wait."""

SLOW = 0.5
"""Seconds after which a failure counts as waited for."""


class Placed(NamedTuple):
    """Where a job is: its server, and its id there."""

    server: str
    job: int


class NotPut(TubesDown):
    """No server took some of several jobs; `placed` has an entry for each, None for those."""

    def __init__(self, message: str, fix: str, placed: Sequence[Placed | None]) -> None:
        super().__init__(message, fix)
        self.placed = placed


class Outlet:
    """One server to put on, with at most one connection.

    `durable`: jobs count as put only where the server's binlog holds them.
    """

    def __init__(self, server: str, patience: Patience, *, durable: bool = False) -> None:
        self.server = server
        self._durable = durable
        self._forgetful = ""
        self.error = TubesDown(f"beanstalkd {server} was not asked yet")
        self._patience = patience
        self._client: PutClient | None = None
        self._opening = asyncio.Lock()
        self._avoid_until = 0.0

    async def put(self, tube: str, bodies: Sequence[bytes], placing: Placing) -> list[int | None]:
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
                results += await client.put(tube, bodies[len(results) :], placing)
            except TubesDown as error:
                if self._client is not before:
                    self._avoid(error, began)
        for each in results:
            if isinstance(each, PutRefused):
                self._avoid(each, began)
        ids = [each if isinstance(each, int) else None for each in results]
        return ids + [None] * (len(bodies) - len(ids))

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
            if self._client and not self._client.down:
                return self._client
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
        made = await PutClient.open(self.server, self._patience, durable=self._durable)
        if not self._durable or (made.binlog and made.instance != self._forgetful):
            return made
        made.close()
        if not made.binlog:
            what, fix = "keeps jobs in memory only (no binlog)", "Start it with -b DIR -f 0."
        else:
            what, fix = FORGETFUL, RESTART
        raise TubesDown(f"beanstalkd {self.server} {what}", fix)

    def _avoid(self, error: TubesDown, began: float) -> None:
        self.error = error
        now = time.monotonic()
        self._avoid_until = now + (AVOIDED_SLOW if now - began > SLOW else AVOIDED)


class Outlets:
    """All servers to put on. For one event loop."""

    def __init__(
        self, servers: Sequence[str], patience: Patience, *, durable: bool = False
    ) -> None:
        """`durable`: pass over a server without a binlog, or that stopped writing it."""
        self.all = [Outlet(server, patience, durable=durable) for server in servers]
        self._next = 0

    async def put(self, tube: str, bodies: Sequence[bytes], placing: Placing) -> list[Placed]:
        """Put jobs, all on the next server if it takes them; gives where each is.

        Raises NotPut. What is put again because a reply was lost may be there twice.
        """
        self._next += 1
        placed: list[Placed | None] = [None] * len(bodies)
        left = list(range(len(bodies)))
        errors: list[TubesDown] = []
        for turn in range(len(self.all)):
            outlet = self.all[(self._next + turn) % len(self.all)]
            jobs = await outlet.put(tube, [bodies[each] for each in left], placing)
            if not errors and None not in jobs:
                return [Placed(outlet.server, job) for job in jobs if job is not None]
            for index, job in zip(left, jobs, strict=True):
                if job is not None:
                    placed[index] = Placed(outlet.server, job)
            left = [index for index in left if placed[index] is None]
            if not left:
                break
            errors.append(outlet.error)
        done = [each for each in placed if each is not None]
        if left:
            raise NotPut("; ".join(each.message for each in errors), errors[-1].fix, placed)
        return done

    async def refusal(self) -> str:
        """Say why no server takes jobs now; "" where one does."""
        refused = [await outlet.refusal() for outlet in self.all]
        return "" if "" in refused else "; ".join(refused)

    def close(self) -> None:
        """End all connections."""
        for outlet in self.all:
            outlet.close()


def batches(items: Iterable[T], most: int) -> Iterator[Sequence[T]]:
    """Cut into pieces of at most `most`."""
    left = iter(items)
    while batch := list(islice(left, most)):
        yield batch
