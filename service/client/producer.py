"""Jobs put from the command line, and what its verbs ask beanstalkd."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import greenstalk

from service.tubes.connection import Connection, Patience, Placing, PutRefused
from service.tubes.envelope import DRAINS_TUBE, REQUESTS_TUBE
from service.tubes.failure import beanstalkd_down
from tracking.errors import TubesDown

__all__ = ["Placing", "Producer", "Tubes"]

PATIENCE = Patience(connect=2.0, reply=10.0)
"""`-f 0` on a slow disk takes its time; a person sees that something happens."""

AVOIDED_SECONDS = 5.0
"""A server that is away costs its time-out; not again for each of a million puts."""


@dataclass(frozen=True, slots=True)
class Tubes:
    """What lies in the tubes of one server; None with the reason in `error` when it is away."""

    server: str
    error: str = ""
    ready: int = 0
    reserved: int = 0
    delayed: int = 0
    buried: int = 0
    drains: int = 0


class Producer:
    """Puts on the servers in turn, past those that are away; one connection to each at most."""

    def __init__(self, servers: Sequence[str]) -> None:
        self._servers = list(servers)
        self._turn = itertools.cycle(range(len(self._servers)))
        self._open: dict[str, Connection] = {}
        self._avoid_until: dict[str, float] = {}

    def put(self, body: bytes, placing: Placing) -> tuple[str, int]:
        """Put a request; tells the server that took it and the id of the job.

        Raises TubesDown when none does; a job whose reply was lost may be there all the same, so
        only bodies with an `id` of their own may be put again.
        """
        first = next(self._turn)
        errors: list[TubesDown] = []
        for offset in range(len(self._servers)):
            server = self._servers[(first + offset) % len(self._servers)]
            try:
                return server, self._put(server, body, placing)
            except TubesDown as error:
                errors.append(error)
        told = "; ".join(each.message for each in errors)
        raise TubesDown(f"no beanstalkd took the job: {told}", errors[-1].fix)

    def serves(self, server: str) -> bool:
        """Tell whether the configuration still knows this server."""
        return server in self._servers

    @contextmanager
    def asking(self, server: str) -> Iterator[Connection]:
        """Lend the connection to a server; what goes wrong in the `with` block raises TubesDown."""
        connection = self._connection(server)
        try:
            yield connection
        except (greenstalk.Error, OSError, AssertionError, ValueError) as error:
            # What is on the line now may be the answer to anything.
            connection.close()
            raise beanstalkd_down(server, error) from error

    def tubes(self) -> Iterator[Tubes]:
        """Count what lies in the tubes of each server."""
        for server in self._servers:
            try:
                yield self._tubes(server)
            except TubesDown as error:
                yield Tubes(server, error=error.message)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for connection in self._open.values():
            connection.close()

    def _put(self, server: str, body: bytes, placing: Placing) -> int:
        known = server in self._open
        try:
            (result,) = self._connection(server).put(REQUESTS_TUBE, [body], placing)
        except TubesDown:
            if not known:
                raise
            # It was restarted since the last put.
            (result,) = self._connection(server).put(REQUESTS_TUBE, [body], placing)
        if isinstance(result, PutRefused):
            raise result
        return result

    def _tubes(self, server: str) -> Tubes:
        with self.asking(server) as connection:
            requests = _counts(connection.client, REQUESTS_TUBE)
            drains = _counts(connection.client, DRAINS_TUBE)
        return Tubes(server, "", *requests, drains=drains[0] + drains[1] + drains[2])

    def _connection(self, server: str) -> Connection:
        found = self._open.get(server)
        if found and found.alive:
            return found
        if time.monotonic() < self._avoid_until.get(server, 0.0):
            raise TubesDown(f"beanstalkd {server} was away a moment ago")
        try:
            found = self._open[server] = Connection.open(server, REQUESTS_TUBE, PATIENCE)
        except TubesDown:
            self._avoid_until[server] = time.monotonic() + AVOIDED_SECONDS
            raise
        return found


def _counts(client: greenstalk.Client[bytes], tube: str) -> tuple[int, int, int, int]:
    try:
        stats = client.stats_tube(tube)
    except greenstalk.NotFoundError:
        return 0, 0, 0, 0
    return (
        stats["current-jobs-ready"],
        stats["current-jobs-reserved"],
        stats["current-jobs-delayed"],
        stats["current-jobs-buried"],
    )
