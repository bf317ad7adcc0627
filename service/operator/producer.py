"""Jobs put from the command line and by acts of people, and what verbs ask beanstalkd."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Self

import greenstalk

from service.worker.tubes.blocking import BlockingClient, Timeouts, beanstalkd_down
from service.worker.tubes.envelope import DRAINS_TUBE, REQUESTS_TUBE, WEBHOOKS_TUBE
from service.worker.tubes.put_servers import (
    JobRef,
    NotPut,
    PutOptions,
    PutServers,
    Putter,
    batches,
)
from tracking.errors import TubesDown
from tracking.line import Line

__all__ = ["REQUESTS_TUBE", "WEBHOOKS_TUBE", "JobRef", "NotPut", "PutOptions", "batches"]

TIMEOUTS = Timeouts(connect=2.0, reply=10.0)
"""`-f 0` on a slow disk takes its time; a person sees that something happens."""


@dataclass(frozen=True, slots=True)
class Tubes:
    """The jobs in the tubes of one server; None with the reason in `error` when it is away."""

    server: str
    error: str = ""
    ready: int = 0
    reserved: int = 0
    delayed: int = 0
    buried: int = 0
    drains: int = 0


class Producer:
    """Puts on the servers in turn, and asks them. A context manager, for outside of event loops."""

    def __init__(self, servers: Sequence[str]) -> None:
        self._servers = servers
        self._loop = asyncio.Runner()
        self._put_servers = PutServers(servers, TIMEOUTS)
        self._asked: dict[str, BlockingClient] = {}

    def put(
        self, bodies: Sequence[bytes], options: PutOptions, tube: str = REQUESTS_TUBE
    ) -> list[JobRef]:
        """Put requests, spread over the servers; gives where each is.

        Raises NotPut when no server takes some of them. What became of a job whose reply was lost
        nobody knows, so only bodies with an `id` of their own may be put again.
        """
        placed: list[JobRef | None] = []
        for share in batches(bodies, max(1, -(-len(bodies) // len(self._servers)))):
            try:
                placed += self._loop.run(self._put_servers.put(tube, share, options))
            except NotPut as error:
                left = [None] * (len(bodies) - len(placed) - len(share))
                told = f"no beanstalkd took the job: {error.message}"
                raise NotPut(told, error.fix, [*placed, *error.placed, *left]) from error
        return [each for each in placed if each is not None]

    def serves(self, server: str) -> bool:
        """Whether the configuration still knows this server."""
        return server in self._servers

    @contextmanager
    def asking(self, server: str) -> Iterator[BlockingClient]:
        """Lend the connection to a server; what goes wrong in the `with` block raises TubesDown."""
        connection = self._asked.get(server)
        if not connection or not connection.alive:
            connection = self._asked[server] = BlockingClient.open(server, REQUESTS_TUBE, TIMEOUTS)
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

    def __exit__(self, *_: object) -> None:
        self._put_servers.close()
        self._loop.close()
        for connection in self._asked.values():
            connection.close()

    def _tubes(self, server: str) -> Tubes:
        with self.asking(server) as connection:
            requests = _counts(connection.client, REQUESTS_TUBE)
            drains = _counts(connection.client, DRAINS_TUBE)
        return Tubes(server, "", *requests, drains=drains[0] + drains[1] + drains[2])


def wake_fillers(servers: Sequence[str], lines: Iterable[Line]) -> None:
    """Have workers look at once at lines of which something is due now (deliveries/filler.py).

    For outside of event loops. Where no server takes the jobs, fillers look within seconds, too.
    """

    async def put() -> None:
        with closing(Putter(servers)) as putter:
            await putter.put_drains(lines)

    with suppress(TubesDown):
        asyncio.run(put())


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
