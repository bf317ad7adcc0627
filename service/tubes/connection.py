"""One connection to one beanstalkd for one thread, which puts jobs and asks questions: greenstalk.

Replies that the protocol foresees are results here. Everything else (a cut line, an unknown word,
a time-out) leaves it open which reply answers which command, so it ends the connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import greenstalk

from service.config.address import host_and_port
from service.tubes.commands import Placing, put_command
from service.tubes.failure import beanstalkd_down, told
from service.tubes.wire import AHEAD_MOST, Wire
from tracking.errors import TubesDown

T = TypeVar("T")

_REFUSALS = (
    greenstalk.DrainingError,
    greenstalk.InternalError,
    greenstalk.JobTooBigError,
    greenstalk.OutOfMemoryError,
)


PUTS_MOST = 512
"""Puts sent ahead at once. Their replies, unlike those to reserves, are some 15 bytes each: they
always fit into the kernel's buffers, so that beanstalkd goes on reading."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: for a connection to be made, and for each reply over it."""

    connect: float = 2.0
    reply: float = 5.0


class PutRefused(TubesDown):
    """A server that answers, but does not take this job."""


@dataclass(slots=True, eq=False)
class Connection:
    """A live connection. All methods are for its own thread, and raise TubesDown.

    `binlog`: the server was started with one. `used` is the tube for puts, `newest` the id of the
    last job that was put.
    """

    server: str
    instance: str
    wire: Wire
    client: greenstalk.Client[bytes]
    binlog: bool = False
    used: str = ""
    newest: int = 0
    alive: bool = True

    @classmethod
    def open(cls, server: str, tube: str, patience: Patience) -> Connection:
        """Connect to `server` ("host:port"), use and watch only `tube`. Raises TubesDown."""
        host, port = host_and_port(server)
        try:
            wire = Wire(host, port, connect_seconds=patience.connect, seconds=patience.reply)
        except OSError as error:
            raise beanstalkd_down(server, error) from error
        try:
            client = greenstalk.Client(wire, encoding=None, use=tube, watch=tube)
            stats = client.stats()
            instance = str(stats["id"])
        except (greenstalk.Error, OSError, AssertionError, ValueError) as error:
            wire.drop()
            raise beanstalkd_down(server, error) from error
        # Files are numbered from 1; 0 is what a server without a binlog tells.
        binlog = int(stats.get("binlog-current-index", 0)) > 0
        return cls(server, instance, wire, client, binlog, tube)

    def put(self, tube: str, bodies: Iterable[bytes], placing: Placing) -> list[int | PutRefused]:
        """Put jobs in few round trips: the id of each, or why the server will not run it.

        Fewer results than bodies: the connection ended in between, and what became of the others
        nobody knows. Raises TubesDown when there is no result at all.
        """
        answers: list[int | greenstalk.Error] = []
        try:
            with self._talk():
                if tube != self.used:
                    self.client.use(tube)
                    self.used = tube
                for batch in batches(bodies, PUTS_MOST):
                    self.wire.send_ahead([put_command(body, placing) for body in batch])
                    if len(batch) > 1 and (taken := self.wire.take_inserted(self.newest)):
                        answers += taken
                        self.newest = taken[-1]
                        continue
                    for body in batch:
                        answers.append(self._put(body, placing))
                    self._delete_buried(answers[-len(batch) :])
        except TubesDown:
            if not answers:
                raise
        return [
            each if isinstance(each, int) else PutRefused(*told(self.server, each))
            for each in answers
        ]

    def records(self) -> int:
        """Count the records that the server has written to its binlog since it started."""
        with self._talk():
            return int(self.client.stats()["binlog-records-written"])

    def close(self) -> None:
        """End the connection."""
        self.alive = False
        with suppress(OSError):
            self.client.close()

    @contextmanager
    def _talk(self) -> Iterator[None]:
        if not self.alive:
            raise TubesDown(f"{self.server}: the connection has ended")
        try:
            yield
        except (greenstalk.Error, OSError, AssertionError, ValueError) as error:
            # AssertionError and ValueError: greenstalk on a line that was cut or makes no sense.
            self.close()
            raise beanstalkd_down(self.server, error) from error

    def _put(self, body: bytes, placing: Placing) -> int | greenstalk.Error:
        try:
            return self.client.put(body, placing.priority, placing.delay, placing.ttr)
        except (greenstalk.BuriedError, *_REFUSALS) as error:
            return error

    def _delete_buried(self, answers: Iterable[int | greenstalk.Error]) -> None:
        for answer in answers:
            if isinstance(answer, greenstalk.BuriedError):
                # It exists all the same, and a later kick would repeat the work.
                with suppress(greenstalk.NotFoundError):
                    self.client.delete(answer.id or 0)


def batches(items: Iterable[T], most: int = AHEAD_MOST) -> Iterator[Sequence[T]]:
    """Cut into pieces whose commands may be sent ahead."""
    left = iter(items)
    while batch := list(islice(left, most)):
        yield batch
