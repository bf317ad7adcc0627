"""Blocking client of one beanstalkd (greenstalk), for one thread, and what its failures mean."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass

import greenstalk

from service.config.address import host_and_port
from service.observe.redact import printable
from service.worker.tubes.envelope import REQUESTS_TUBE, TUBES
from tracking.errors import TubesDown
from tracking.network import network_reason

_FAILED = (greenstalk.Error, OSError, AssertionError, ValueError)
"""What greenstalk raises: on a line that was cut, or that makes no sense, the last two."""

_REFUSALS: dict[type[Exception], tuple[str, str]] = {
    greenstalk.DrainingError: ("takes no new jobs (drain mode)", "Restart it."),
    greenstalk.OutOfMemoryError: ("has no memory or disk left", "Free some."),
    greenstalk.InternalError: ("failed by itself", "Look at its log."),
    greenstalk.JobTooBigError: ("takes no job of this size", "Start it with a larger -z."),
    greenstalk.BuriedError: ("has no memory left for the job", "Free some."),
}


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: for a connection to be made, and for each reply over it."""

    connect: float = 2.0
    reply: float = 5.0


@dataclass(slots=True, eq=False)
class BlockingClient:
    """Live connection. `stats` is what the server told of itself when it was made."""

    server: str
    client: greenstalk.Client[bytes]
    stats: greenstalk.Stats
    alive: bool = True

    @property
    def instance(self) -> str:
        """Another one after each restart of the server."""
        return str(self.stats["id"])

    @classmethod
    def open(
        cls, server: str, tube: str = greenstalk.DEFAULT_TUBE, timeouts: Timeouts | None = None
    ) -> BlockingClient:
        """Connect to `server` ("host:port"), use and watch only `tube`. Raises TubesDown."""
        timeouts = timeouts or Timeouts()
        try:
            connected = socket.create_connection(host_and_port(server), timeouts.connect)
        except OSError as error:
            raise beanstalkd_down(server, error) from error
        try:
            connected.settimeout(timeouts.reply)
            client = greenstalk.Client(connected, encoding=None, use=tube, watch=tube)
            stats = client.stats()
        except _FAILED as error:
            # A client that failed at its start still has it open.
            socket.close(connected.detach())
            raise beanstalkd_down(server, error) from error
        return cls(server, client, stats)

    def close(self) -> None:
        """End the connection."""
        self.alive = False
        with suppress(OSError):
            self.client.close()


MayGo = Callable[[int, bytes], bool]
"""Whether a buried job may be deleted, by its id and body."""


def delete_old_buried(server: str, seconds: float, may_go: MayGo) -> Iterator[int]:
    """Delete the buried jobs of a server that were put so long ago, oldest first; gives their ids.

    They keep a beanstalkd from freeing the files of its binlog. beanstalkd shows the first of a
    tube only: so it ends there with one that is younger, or may not go. Those behind it were buried
    later. Raises TubesDown.
    """
    with closing(BlockingClient.open(server, REQUESTS_TUBE)) as connection:
        try:
            for tube in TUBES:
                connection.client.use(tube)
                yield from _delete_old_buried(connection.client, seconds, may_go)
        except _FAILED as error:
            raise beanstalkd_down(server, error) from error


def _delete_old_buried(
    client: greenstalk.Client[bytes], seconds: float, may_go: MayGo
) -> Iterator[int]:
    with suppress(greenstalk.NotFoundError):
        while True:
            job = client.peek_buried()
            if client.stats_job(job.id)["age"] < seconds or not may_go(job.id, job.body):
                return
            client.delete(job.id)
            yield job.id


def beanstalkd_down(server: str, error: Exception) -> TubesDown:
    """Word an error of greenstalk or of the network; raise it `from error`."""
    return TubesDown(*cause_and_fix(server, error))


def cause_and_fix(server: str, error: Exception) -> tuple[str, str]:
    """Word what happened and what to do: what a TubesDown is made of."""
    what, fix = _cause_and_fix(error)
    return f"beanstalkd {server} {what}", fix


def _cause_and_fix(error: Exception) -> tuple[str, str]:
    if (refusal := _REFUSALS.get(type(error))) is not None:
        return refusal
    if isinstance(error, greenstalk.UnknownResponseError):
        said = b" ".join([error.status, *error.values]).decode("ascii", "replace")[:60]
        what = f"is not what answers there, but something that says: {printable(said)}"
        return what, "Correct beanstalkd.servers."
    # A plain ConnectionError is greenstalk's or our own: its text tells more than the network.
    reason = str(error) if type(error) is ConnectionError else network_reason(error)
    if not reason:
        return "gave an answer that makes no sense", "Look whether beanstalkd.servers is right."
    return f"does not answer ({reason})", "Start it, or correct beanstalkd.servers."
