"""The courier stub as its starter sees it."""

from __future__ import annotations

import http.client
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.courier_stub import HOST
from devstack.judge import Call
from devstack.nursery import Nursery
from devstack.process import Process
from devstack.servers import free_port

REPOSITORY = Path(__file__).resolve().parents[1]
READY_SECONDS = 20.0
ANSWER_SECONDS = 60.0
STEP = 0.02


class Courier:
    """A running stub in a process of its own; its clock is CLOCK_MONOTONIC, as everybody's."""

    def __init__(self, port: int, process: Process) -> None:
        """Stand for the stub at `port`; `running` starts one."""
        self.url = f"http://{HOST}:{port}"
        self._port = port
        self._process = process

    @classmethod
    @contextmanager
    def running(cls, nursery: Nursery, folder: Path) -> Iterator[Courier]:
        """Run a stub for the length of a `with` block."""
        port = free_port()
        command = [sys.executable, "-m", "benchmarks.courier_stub", str(port)]
        process = Process(nursery, command, folder / "courier.log", {"PYTHONPATH": str(REPOSITORY)})
        process.spawn()
        try:
            courier = cls(port, process)
            courier.wait_ready()
            yield courier
        finally:
            process.kill()

    @property
    def pid(self) -> int:
        """The process id. Raises RuntimeError when the stub has ended."""
        if self._process.pid is None:
            raise RuntimeError(f"the courier stub has ended, see {self._process.log}")
        return self._process.pid

    def wait_ready(self) -> None:
        """Return when it answers. Raises OSError when it does not."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                self.count()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(STEP)
            else:
                return

    def reset(self, delay_ms: float = 0.0, spread: float = 0.0) -> None:
        """Forget all calls; answer from now on after `delay_ms`, more or less by `spread` of it."""
        self._ask(f"/_reset?delay_ms={delay_ms}&spread={spread}")

    def count(self) -> int:
        """How many calls have arrived since the reset."""
        return int(self._ask("/_count"))

    def calls(self) -> list[Call]:
        """Every call since the reset, in order of arrival."""
        return [_read(line) for line in self._ask("/_calls").splitlines()]

    def _ask(self, target: str) -> bytes:
        connection = http.client.HTTPConnection(HOST, self._port, timeout=ANSWER_SECONDS)
        try:
            connection.request("GET", target)
            return connection.getresponse().read()
        finally:
            connection.close()


def _read(line: bytes) -> Call:
    target, arrived, ended, late = line.decode().split(" ")
    _, slug, numbers = target.split("/")
    number, *riders = numbers.split(",")
    at_ns, ended_ns = int(arrived), int(ended) or None
    return Call(slug, number, at_ns, ended_ns, late_ns=int(late), riders=tuple(riders))
