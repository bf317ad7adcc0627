"""A producer that remembers what it was told `INSERTED` for: by that log a run is judged."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import greenstalk

from devstack.servers import Server

REQUESTS = "requests_flow"
DRAINS = "wait_list"
PATIENCE = 20.0
STATES = ("ready", "delayed", "reserved", "buried")


@dataclass(frozen=True, slots=True)
class Put:
    """One acknowledged request. `number` is the one form of lists, keys and `_id`."""

    slug: str
    number: str
    job: int
    id: str | None = None


class Producer:
    """Puts jobs on one beanstalkd; goes on when it comes back after an absence."""

    def __init__(self, server: Server) -> None:
        self.acknowledged: list[Put] = []
        self._server = server

    def put(self, slug: str, number: str, **members: Any) -> Put:
        """Put a request and remember it. `members` of the payload; `meta` stands beside it."""
        meta = members.pop("meta", None)
        job = {"type": REQUESTS, "payload": {"slug": slug, "number": number, **members}}
        body = json.dumps(job | {"meta": meta} if meta else job).encode()
        return self._remember(Put(slug, number, self.put_body(body), members.get("id")))

    def put_all(self, slug: str, numbers: Sequence[str], **members: Any) -> None:
        """Put a request for each number over one connection, and remember them."""
        with self.client(REQUESTS) as client:
            for number in numbers:
                job = {"type": REQUESTS, "payload": {"slug": slug, "number": number, **members}}
                self._remember(Put(slug, number, client.put(json.dumps(job).encode())))

    def put_placed(self, slug: str, number: str, **placing: int) -> Put:
        """Put a request with a priority or a ttr of its own, and remember it."""
        job = {"type": REQUESTS, "payload": {"slug": slug, "number": number}}
        job_id = self.put_body(json.dumps(job).encode(), REQUESTS, **placing)
        return self._remember(Put(slug, number, job_id))

    def put_body(self, body: bytes, tube: str = REQUESTS, **placing: int) -> int:
        """Put any bytes; `placing` is priority, delay and ttr. Repeats until acknowledged."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with self.client(tube) as client:
                    return client.put(body, **placing)
            except (OSError, greenstalk.Error):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def put_drain(self, slug: str) -> None:
        """Ask for somebody to drain a courier, as only workers do."""
        job = {"type": DRAINS, "payload": {"slug": slug}}
        self.put_body(json.dumps(job).encode(), tube=DRAINS, priority=0)

    def put_copies(self, slug: str, number: str, count: int) -> None:
        """Put the same request many times over one connection."""
        body = json.dumps({"type": REQUESTS, "payload": {"slug": slug, "number": number}})
        with self.client(REQUESTS) as client:
            jobs = [client.put(body.encode()) for _ in range(count)]
        self.acknowledged += [Put(slug, number, job) for job in jobs]

    def pause(self, seconds: int) -> None:
        """Let nobody reserve a request for so long; 0: from now on everybody may."""
        with self.client(REQUESTS) as client:
            client.pause_tube(REQUESTS, seconds)

    def jobs(self, tube: str = REQUESTS) -> dict[str, int]:
        """How many jobs of a tube are ready, reserved, delayed, buried."""
        with self.client(tube) as client:
            told: Mapping[str, Any] = client.stats_tube(tube)
        return {state: int(told[f"current-jobs-{state}"]) for state in STATES}

    def held(self) -> list[str]:
        """What the tubes hold in words, but for buried jobs and for drain jobs that somebody has.

        A drain job stays reserved until its drainer looks again and finds that nobody waits.
        """
        found: list[str] = []
        for tube, states in ((REQUESTS, STATES[:3]), (DRAINS, STATES[:2])):
            jobs = self.jobs(tube)
            found += [f"{tube}: {jobs[state]} {state}" for state in states if jobs[state]]
        return found

    def take_buried(self) -> list[int]:
        """Delete the buried jobs of the tube `requests_flow`; gives their ids."""
        found: list[int] = []
        with self.client(REQUESTS) as client:
            while True:
                try:
                    job = client.peek_buried()
                except greenstalk.NotFoundError:
                    return found
                found.append(job.id)
                client.delete(job)

    def _remember(self, put: Put) -> Put:
        self.acknowledged.append(put)
        return put

    @contextmanager
    def client(self, tube: str) -> Iterator[greenstalk.Client[bytes]]:
        """Give a connection that uses and watches one tube."""
        # A client that fails at its start, because the server is killed, leaves its socket open.
        with (
            socket.create_connection((self._server.host, self._server.port)) as connected,
            greenstalk.Client(connected, encoding=None, use=tube, watch=tube) as client,
        ):
            yield client


class GuestProducer(Producer):
    """A producer beside others on one beanstalkd: it sees no jobs but those that it put itself."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self._own: set[tuple[str, int]] = set()

    def put_body(self, body: bytes, tube: str = REQUESTS, **placing: int) -> int:
        job = super().put_body(body, tube, **placing)
        self._own.add((tube, job))
        return job

    def jobs(self, tube: str = REQUESTS) -> dict[str, int]:
        """How many of its jobs are in each state."""
        found = dict.fromkeys(STATES, 0)
        with self.client(tube) as client:
            for job in (job for name, job in self._own if name == tube):
                with suppress(greenstalk.NotFoundError):
                    found[str(client.stats_job(job)["state"])] += 1
        return found
