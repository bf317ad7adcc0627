"""One connection to one beanstalkd for one thread, which asks questions: greenstalk."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass

import greenstalk

from service.config.address import host_and_port
from service.tubes.failure import beanstalkd_down


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: for a connection to be made, and for each reply over it."""

    connect: float = 2.0
    reply: float = 5.0


@dataclass(slots=True, eq=False)
class Connection:
    """A live connection. `stats` is what the server told of itself when it was made."""

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
        cls, server: str, tube: str = greenstalk.DEFAULT_TUBE, patience: Patience | None = None
    ) -> Connection:
        """Connect to `server` ("host:port"), use and watch only `tube`. Raises TubesDown."""
        patience = patience or Patience()
        try:
            connected = socket.create_connection(host_and_port(server), patience.connect)
        except OSError as error:
            raise beanstalkd_down(server, error) from error
        try:
            connected.settimeout(patience.reply)
            client = greenstalk.Client(connected, encoding=None, use=tube, watch=tube)
            stats = client.stats()
        except (greenstalk.Error, OSError, AssertionError, ValueError) as error:
            # A client that failed at its start still has it open.
            socket.close(connected.detach())
            raise beanstalkd_down(server, error) from error
        return cls(server, client, stats)

    def close(self) -> None:
        """End the connection."""
        self.alive = False
        with suppress(OSError):
            self.client.close()
