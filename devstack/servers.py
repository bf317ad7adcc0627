"""A real server that a test may kill, freeze and start again."""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from devstack.errors import ServerFailed, StackError
from devstack.folder import private_folder
from devstack.kinds import HOST, Durability, Kind
from devstack.nursery import Nursery
from devstack.process import Process

READY_PATIENCE = 30.0
"""Seconds until a server must serve: mongod needs half of one, a busy machine many."""

STEP = 0.02
PORTS = range(15_000, 32_000)
"""Below the range out of which Linux takes clients' ports: while a server is down, a client that
connects again and again could else be given the server's own port, and talk to itself."""


class Server:
    """One server of the stack.

    `backing` says which program serves and why; `log` is the file with its output. A server at a
    configured address is not `ours`: it has no log and no pid, and a call that would start, stop,
    kill or freeze it raises StackError.
    """

    def __init__(self, kind: Kind, url: str, backing: str, process: Process | None = None) -> None:
        """`process` is None for a server that is not ours."""
        self.name = kind.name
        self.url = url
        self.backing = backing
        self.host, self.port = _address(kind, url)
        self.ours = process is not None
        self.log = process.log if process else None
        self._probe = kind.probe
        self._process = process

    @property
    def pid(self) -> int | None:
        """The process id; None while the server is down or when it is not ours."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start again, on the same port with the same data; returns when it serves.

        Nothing happens to one that runs. Raises ServerFailed.
        """
        self._own().spawn()
        self.wait_ready()

    def stop(self) -> None:
        """Stop in order (SIGTERM) and wait; nothing happens when it is down."""
        self._own().stop()

    def kill(self) -> None:
        """Kill (SIGKILL) and wait: what was not durable is lost."""
        self._own().kill()

    def pause(self) -> None:
        """Freeze (SIGSTOP): connections stay open, nothing is answered."""
        self._own().signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen server go on (SIGCONT)."""
        self._own().signal(signal.SIGCONT)

    def wait_ready(self, patience: float = READY_PATIENCE) -> None:
        """Return when the server answers in its protocol.

        Raises ServerFailed with the end of the log: after `patience` seconds, or at once when its
        process has ended.
        """
        deadline = time.monotonic() + patience
        while True:
            try:
                return self._probe(self.host, self.port)
            except OSError as error:
                if self.ours and self.pid is None:
                    raise ServerFailed(self.name, "ended instead of serving", self.log) from error
                if time.monotonic() > deadline:
                    where = f"at {self.host}:{self.port} ({self.backing})"
                    what = f"{where} does not answer: {error}"
                    raise ServerFailed(self.name, what, self.log) from error
            time.sleep(STEP)

    def _own(self) -> Process:
        if self._process is None:
            raise StackError(f"{self.name} at {self.url} was not started here: it is left alone")
        return self._process


def start_server(
    kind: Kind, folder: Path, nursery: Nursery, durability: Durability = Durability.FULL
) -> Server:
    """Start a server of `kind`, or take the one at its configured address; `wait_ready` follows.

    Its data and its log lie in `folder`. Raises ServerMissing.
    """
    configured = os.environ.get(kind.variable)
    if configured:
        return Server(kind, configured, f"already running, configured by {kind.variable}")
    program = kind.find()
    port = free_port()
    data = folder / kind.name
    data.mkdir()
    command = [str(program.path), *kind.arguments(port, data, durability)]
    process = Process(nursery, command, folder / f"{kind.name}.log", program.environment)
    process.spawn()
    return Server(kind, kind.url.format(port=port), program.backing, process)


@contextmanager
def running(kind: Kind, durability: Durability = Durability.FULL) -> Iterator[Server]:
    """Run one server of `kind` with fresh data for the length of a `with` block."""
    with private_folder() as folder, Nursery() as nursery:
        server = start_server(kind, folder, nursery, durability)
        try:
            server.wait_ready()
            yield server
        finally:
            if server.ours:
                server.kill()  # its data goes with it, so there is nothing to save


def free_port() -> int:
    """Find a port on loopback on which nobody listens just now."""
    for port in random.sample(PORTS, 200):
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((HOST, port))
            except OSError:
                continue
            return port
    raise StackError(f"no free port on {HOST} between {PORTS.start} and {PORTS.stop}")


def _address(kind: Kind, url: str) -> tuple[str, int]:
    parts = urlsplit(url if "://" in url else f"{kind.name}://{url}")
    return parts.hostname or HOST, parts.port or kind.default_port
