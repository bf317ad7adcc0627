"""beanstalkd as a producer with much to put sees it: puts leave in batches, ahead of the answers.

Speaks the protocol itself, so that what is measured is not measured by a part of its own.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Self

REQUESTS = "requests_flow"
DRAINS = "wait_list"

BATCH = 128
PRIORITY, TTR = 65_536, 120
LOOK_SECONDS = 0.02
PATIENCE = 30.0


class TubeError(Exception):
    """beanstalkd answered something else than it should."""


class Tubes:
    """One connection; a context manager."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()
        self._socket.close()

    def put(self, tube: str, bodies: Iterable[bytes]) -> int:
        """Put jobs and return how many; each was acknowledged."""
        self._ask(b"use %b" % tube.encode(), b"USING")
        bodies, count = iter(bodies), 0
        while batch := list(islice(bodies, BATCH)):
            lines = (b"put %d 0 %d %d\r\n%b\r\n" % (PRIORITY, TTR, len(b), b) for b in batch)
            self._socket.sendall(b"".join(lines))
            for _ in batch:
                self._read(b"INSERTED")
            count += len(batch)
        return count

    def pause(self, tube: str, seconds: int) -> None:
        """Let nobody reserve from `tube` for so long; 0: from now on everybody may."""
        self.put(tube, ())  # a tube exists only while somebody uses it
        self._ask(b"pause-tube %b %d" % (tube.encode(), seconds), b"PAUSED")

    def stats(self, tube: str = "") -> dict[str, int]:
        """Numbers that a tube, or (without one) the server, tells; a tube that is not: all 0."""
        command = b"stats-tube %b" % tube.encode() if tube else b"stats"
        self._socket.sendall(command + b"\r\n")
        first = self._answers.readline()
        if first.startswith(b"NOT_FOUND"):
            return {}
        text = self._answers.read(int(_expected(first, b"OK").split()[1]) + 2).decode()
        pairs = (line.partition(": ") for line in text.splitlines())
        return {name: int(value) for name, _, value in pairs if value.isdigit()}

    def left(self, tube: str = REQUESTS) -> int:
        """How many jobs of `tube` are not settled: ready, reserved or delayed."""
        told = self.stats(tube)
        return sum(
            told.get(f"current-jobs-{state}", 0) for state in ("ready", "reserved", "delayed")
        )

    def waiting(self, tube: str) -> int:
        """How many connections wait for a job of `tube`."""
        return self.stats(tube).get("current-waiting", 0)

    def wait_until_empty(self, tube: str = REQUESTS, patience: float = 600.0) -> None:
        """Return when every job of `tube` was deleted. Raises TubeError after `patience`."""
        deadline = time.monotonic() + patience
        while left := self.left(tube):
            if time.monotonic() > deadline:
                raise TubeError(f"{left} jobs of {tube} are not done after {patience:g} s")
            time.sleep(LOOK_SECONDS)

    def empty(self, *tubes: str) -> None:
        """Delete every job that nobody holds."""
        for tube in tubes:
            self.pause(tube, 0)
            self._ask(b"use %b" % tube.encode(), b"USING")
            for state in (b"ready", b"delayed", b"buried"):
                while job := self._peek(state):
                    self._ask(b"delete %b" % job, b"DELETED")

    def _peek(self, state: bytes) -> bytes | None:
        answer = self._ask(b"peek-" + state, b"FOUND", b"NOT_FOUND")
        if answer.startswith(b"NOT_FOUND"):
            return None
        _, job, length = answer.split()
        self._answers.read(int(length) + 2)
        return job

    def _ask(self, command: bytes, *expected: bytes) -> bytes:
        self._socket.sendall(command + b"\r\n")
        return self._read(*expected)

    def _read(self, *expected: bytes) -> bytes:
        return _expected(self._answers.readline(), *expected)


def request(
    slug: str, number: str, identity: str = "", origin: str = "", webhook: str = ""
) -> bytes:
    """Write the body of a request, with an id, an origin and a service if they are given."""
    named = {"id": identity, "origin": origin, "webhook": webhook}
    payload = {"slug": slug, "number": number, **{k: v for k, v in named.items() if v}}
    job = {"type": REQUESTS, "payload": payload}
    return json.dumps(job, separators=(",", ":")).encode()


def requests(
    slugs: Iterable[str], each: int, prefix: str = "N", origin: str = ""
) -> Iterator[bytes]:
    """Write `each` requests for every slug, one slug after the other, round by round."""
    slugs = tuple(slugs)
    for turn in range(each):
        for slug in slugs:
            yield request(slug, f"{prefix}{turn:09}", origin=origin)


def drain(slug: str) -> bytes:
    """Write the body of a job that asks for a slug to be drained."""
    return json.dumps({"type": DRAINS, "payload": {"slug": slug}}).encode()


def _expected(answer: bytes, *expected: bytes) -> bytes:
    if not answer.startswith(expected):
        raise TubeError(f"beanstalkd answered {answer!r} instead of {expected!r}")
    return answer
