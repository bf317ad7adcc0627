"""Where jobs are put: servers in turn, past those that are away or refuse, in few round trips."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from service.tubes.commands import Placing
from service.tubes.connection import Connection, Patience, PutRefused
from tracking.errors import TubesDown

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
        self._connection: Connection | None = None
        self._avoid_until = 0.0

    def connection(self, tube: str) -> Connection:
        """Lend the connection, opened for `tube` if need be. Raises TubesDown."""
        if not self._is_open():
            if time.monotonic() < self._avoid_until:
                raise TubesDown(self.error.message, self.error.fix)
            began = time.monotonic()
            try:
                self._connection = self.opened(tube)
            except TubesDown as error:
                self._avoid(error, began)
                raise
        if self._connection is None:
            raise self.error
        return self._connection

    def opened(self, tube: str) -> Connection:
        """Open a connection of its own, wherever jobs may be put. Raises TubesDown."""
        made = Connection.open(self.server, tube, self._patience)
        if self._durable and (not made.binlog or made.instance == self._forgetful):
            made.close()
            if not made.binlog:
                what, fix = "keeps jobs in memory only (no binlog)", "Start it with -b DIR -f 0."
            else:
                what, fix = "stopped writing its binlog", "Look at its disk, then restart it."
            raise TubesDown(f"beanstalkd {self.server} {what}", fix)
        return made

    def put(self, tube: str, bodies: Sequence[bytes], placing: Placing) -> list[int | None]:
        """Put jobs: the id of each, None where it did not take one, and `error` says why.

        A job whose reply was lost is put again, and may be there twice.
        """
        results: list[int | PutRefused] = []
        began = time.monotonic()
        while len(results) < len(bodies) and time.monotonic() >= self._avoid_until:
            # It may have been restarted since it was last used.
            was_open = self._is_open()
            try:
                connection = self.connection(tube)
                results += self._put(connection, tube, bodies[len(results) :], placing)
            except TubesDown as error:
                if not was_open:
                    self._avoid(error, began)
        for each in results:
            if isinstance(each, PutRefused):
                self._avoid(each, began)
        ids = [each if isinstance(each, int) else None for each in results]
        return ids + [None] * (len(bodies) - len(ids))

    def refusal(self, tube: str) -> str:
        """Say why it takes no jobs now; "" where it does, as far as is known."""
        try:
            self.connection(tube)
        except TubesDown as error:
            return f"{error}"
        return f"{self.error}" if time.monotonic() < self._avoid_until else ""

    def close(self) -> None:
        """End the connection, if there is one."""
        if self._connection:
            self._connection.close()

    def _put(
        self, connection: Connection, tube: str, bodies: Sequence[bytes], placing: Placing
    ) -> list[int | PutRefused]:
        """Put jobs. Raises TubesDown also where acknowledged ones did not get into the binlog.

        After one failed write beanstalkd goes on without its binlog, and tells nobody. Records of
        somebody else's jobs can hide that while it happens; the next put finds it.
        """
        if not self._durable:
            return connection.put(tube, bodies, placing)
        before = connection.records()
        put = connection.put(tube, bodies, placing)
        if connection.records() - before < sum(isinstance(each, int) for each in put):
            # Until it restarts, it would take each put and forget it at its end.
            self._forgetful = connection.instance
            connection.close()
            raise TubesDown(f"beanstalkd {self.server} stopped writing its binlog")
        return put

    def _is_open(self) -> bool:
        return self._connection is not None and self._connection.alive

    def _avoid(self, error: TubesDown, began: float) -> None:
        self.error = error
        now = time.monotonic()
        self._avoid_until = now + (AVOIDED_SLOW if now - began > SLOW else AVOIDED)


class Outlets:
    """All servers to put on. For one thread."""

    def __init__(
        self, servers: Sequence[str], patience: Patience, *, durable: bool = False
    ) -> None:
        """`durable`: pass over a server without a binlog, or that stopped writing it."""
        self.all = [Outlet(server, patience, durable=durable) for server in servers]
        self._next = 0

    def put(self, tube: str, bodies: Sequence[bytes], placing: Placing) -> list[Placed]:
        """Put jobs, all on the next server if it takes them; gives where each is.

        Raises NotPut. What is put again because a reply was lost may be there twice.
        """
        self._next += 1
        placed: list[Placed | None] = [None] * len(bodies)
        left = list(range(len(bodies)))
        errors: list[TubesDown] = []
        for turn in range(len(self.all)):
            outlet = self.all[(self._next + turn) % len(self.all)]
            for index, job in zip(
                left, outlet.put(tube, [bodies[each] for each in left], placing), strict=True
            ):
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

    def refusal(self, tube: str) -> str:
        """Say why no server takes jobs now; "" where one does."""
        refused = [outlet.refusal(tube) for outlet in self.all]
        return "" if "" in refused else "; ".join(refused)

    def close(self) -> None:
        """End all connections."""
        for outlet in self.all:
            outlet.close()
