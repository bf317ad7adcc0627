"""One connection to one beanstalkd, used by one thread, and the jobs reserved over it.

A reservation belongs to its connection: when that ends, by whatever cause, beanstalkd hands the job
to somebody else, and nothing may be done to it over any other connection.

Replies that the protocol foresees are results here. Everything else (a cut line, an unknown word,
a time-out) leaves it open which reply answers which command, so it ends the connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar, assert_never

import greenstalk

from service.config.address import host_and_port
from service.tubes.commands import DONE, RESERVE_NOW, Placing, Reply, Verb, command, put_command
from service.tubes.failure import beanstalkd_down, told
from service.tubes.wire import AHEAD_MOST, Wire
from tracking.errors import TubesDown

T = TypeVar("T")

HELD_MOST = 1000
"""Jobs per connection: beanstalkd walks all that a connection holds for every delete."""

_REFUSALS = (
    greenstalk.DrainingError,
    greenstalk.InternalError,
    greenstalk.JobTooBigError,
    greenstalk.OutOfMemoryError,
)


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: for a connection to be made, and for each reply over it."""

    connect: float = 2.0
    reply: float = 5.0


class PutRefused(TubesDown):
    """A server that answers, but does not take this job."""


@dataclass(slots=True, eq=False)
class Reservation:
    """One job that we hold; belongs to the thread of its connection.

    `ttr` (seconds) and `priority` are not part of a reserve: None until `Connection.read_facts`.
    `age` is seconds since the put; at `touch_at` (`time.monotonic()`) it is to be touched.
    `lost`: it is not ours any more, because its TTR ran out or its connection ended. `roomless`: it
    has given its room back already; set by the event loop, before the job is settled.
    """

    raw: greenstalk.Job[bytes]
    connection: Connection
    ttr: int | None = None
    priority: int | None = None
    age: float = 0.0
    touch_at: float = 0.0
    lost: bool = False
    roomless: bool = False


@dataclass(slots=True, eq=False)
class Connection:
    """A live connection. All methods are for its own thread, and raise TubesDown.

    `abandoned` counts the jobs that were held when it ended, `error` says why it did.
    `binlog`: the server was started with one.
    """

    server: str
    instance: str
    wire: Wire
    client: greenstalk.Client[bytes]
    binlog: bool = False
    held: dict[int, Reservation] = field(default_factory=dict)
    alive: bool = True
    abandoned: int = 0
    error: str = ""

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
            # Job ids start from 1 when a server without its binlog restarts; this id never repeats.
            instance = str(stats["id"])
        except (greenstalk.Error, OSError, AssertionError, ValueError) as error:
            wire.drop()
            raise beanstalkd_down(server, error) from error
        # Files are numbered from 1; 0 is what a server without a binlog tells.
        binlog = int(stats.get("binlog-current-index", 0)) > 0
        return cls(server, instance, wire, client, binlog)

    def reserve_ready(self, most: int) -> list[Reservation]:
        """Reserve up to `most` jobs (at most AHEAD_MOST) that are ready now; never waits."""
        found = []
        with self._talk():
            self.wire.send_ahead([RESERVE_NOW] * most)
            for _ in range(most):
                job = self._reserved(0)
                if job is not None:
                    found.append(job)
        return [self._hold(job) for job in found]

    def begin_wait(self, seconds: int) -> None:
        """Ask for one job, now or within `seconds`; `end_wait` when the socket is readable.

        Nothing else can be asked over this connection until then.
        """
        with self._talk():
            self.wire.send_ahead([b"reserve-with-timeout %d\r\n" % seconds])

    def end_wait(self, seconds: int) -> Reservation | None:
        """Read what came of `begin_wait(seconds)`."""
        with self._talk():
            job = self._reserved(seconds)
        return None if job is None else self._hold(job)

    def read_facts(self, reservations: Iterable[Reservation]) -> None:
        """Learn TTR, priority and age of jobs; marks as lost those that are gone."""
        with self._talk():
            for batch in batches(reservations):
                self.wire.send_ahead([b"stats-job %d\r\n" % each.raw.id for each in batch])
                for reservation in batch:
                    self._read_facts(reservation)

    def tell(self, verb: Verb, reservations: Iterable[Reservation]) -> list[Reply]:
        """Do one thing to many jobs, in order. BURY and RELEASE need facts that were read."""
        replies: list[Reply] = []
        with self._talk():
            for batch in batches(reservations):
                self.wire.send_ahead([command(verb, each.raw.id, each.priority) for each in batch])
                if len(batch) > 1 and self.wire.take_replies(DONE[verb]):
                    replies += [Reply.DONE] * len(batch)
                else:
                    replies += [self._told(verb, each) for each in batch]
        return replies

    def put(self, tube: str, bodies: Iterable[bytes], placing: Placing) -> list[int | PutRefused]:
        """Put jobs in few round trips: the id of each, or why the server will not run it.

        Fewer results than bodies: the connection ended in between, and what became of the others
        nobody knows. Raises TubesDown when there is no result at all.
        """
        answers: list[int | greenstalk.Error] = []
        try:
            with self._talk():
                self.client.use(tube)
                for batch in batches(bodies):
                    self.wire.send_ahead([put_command(body, placing) for body in batch])
                    for body in batch:
                        answers.append(self._put(body, placing))  # noqa: PERF401 - kept if one fails
                    self._delete_buried(answers[-len(batch) :])
        except TubesDown:
            if not answers:
                raise
        return [
            each if isinstance(each, int) else PutRefused(*told(self.server, each))
            for each in answers
        ]

    def close(self) -> None:
        """End the connection: beanstalkd makes what it held ready for others at once."""
        self.alive = False
        self.abandoned += len(self.held)
        for reservation in self.held.values():
            reservation.lost = True
        self.held.clear()
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
            down = beanstalkd_down(self.server, error)
            self.error = down.message
            self.close()
            raise down from error

    def _reserved(self, seconds: int) -> greenstalk.Job[bytes] | None:
        try:
            return self.client.reserve(timeout=seconds)
        except (greenstalk.TimedOutError, greenstalk.DeadlineSoonError):
            return None

    def _hold(self, job: greenstalk.Job[bytes]) -> Reservation:
        reservation = self.held[job.id] = Reservation(job, self)
        return reservation

    def _read_facts(self, reservation: Reservation) -> None:
        try:
            facts = self.client.stats_job(reservation.raw)
        except greenstalk.NotFoundError:
            reservation.lost = True
            return
        reservation.ttr = facts["ttr"]
        reservation.priority = facts["pri"]
        reservation.age = float(facts["age"])

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

    def _told(self, verb: Verb, reservation: Reservation) -> Reply:
        job, priority = reservation.raw, reservation.priority or 0
        try:
            match verb:
                case Verb.DELETE:
                    self.client.delete(job)
                case Verb.BURY:
                    self.client.bury(job, priority)
                case Verb.RELEASE:
                    self.client.release(job, priority)
                case Verb.TOUCH:
                    self.client.touch(job)
                case _:
                    assert_never(verb)
        except greenstalk.NotFoundError:
            reservation.lost = True
            return Reply.MISSING
        except (greenstalk.OutOfMemoryError, greenstalk.InternalError, greenstalk.BuriedError):
            reservation.lost = True
            return Reply.STUCK
        return Reply.DONE


def binlog_records(connection: Connection) -> int:
    """Count the records that a server has written to its binlog since it started.

    Raises TubesDown.
    """
    with connection._talk():  # noqa: SLF001 - the same file's, and the class has its eight methods
        return int(connection.client.stats()["binlog-records-written"])


def batches(items: Iterable[T], most: int = AHEAD_MOST) -> Iterator[Sequence[T]]:
    """Cut into pieces whose commands may be sent ahead."""
    left = iter(items)
    while batch := list(islice(left, most)):
        yield batch
