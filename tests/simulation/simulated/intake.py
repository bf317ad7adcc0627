"""The worker's side of the tubes: what stands in for its threads, its jobs and its putter."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from service.worker.tubes.envelope import DRAINS_TUBE, REQUESTS_TUBE, encode_drain, encode_request
from simulated.exchange import Port, Surroundings
from simulated.tubes import Connection, StoredJob, TubeServer
from tracking.errors import TubesDown
from tracking.request import Slug, TrackingRequest

TTR = 60.0
AGAIN_SECONDS = 0.3
AT_ONCE = 20


@dataclass(slots=True)
class Tubes:
    """The server, and the ways to it of one process."""

    server: TubeServer
    jobs: Port
    puts: Port
    around: Surroundings
    connections: list[Connection]


class SimulatedIntake:
    """Stands in for `service.worker.tubes.intake.Intake`: the same promises, without threads."""

    def __init__(
        self,
        tubes: Tubes,
        sources: Sequence[Any],
        room: int,
        on_jobs: Callable[[list[Any]], None],
    ) -> None:
        self._tubes = tubes
        self._process = tubes.around.running()
        self._tube = sources[0].tube
        self._room = room
        self._on_jobs = on_jobs
        self._held: dict[SimulatedJob, None] = {}
        self._on_their_way: set[SimulatedJob] = set()
        self._taking = False
        self._connection = Connection(open=False)
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.deleting: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._taking = True
        self._tasks = [asyncio.create_task(self._reserve()), asyncio.create_task(self._touch())]

    async def stop(self) -> None:
        self._taking = False

    async def all_answered(self) -> None:
        if self.deleting:
            await asyncio.wait(self.deleting)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tubes.server.close(self._connection)

    def break_off(self) -> None:
        """The connection ends, and with it everything that it held."""
        self._tubes.server.close(self._connection)
        self._news.set()

    def admitted(self, job: SimulatedJob) -> None:
        self._on_their_way.discard(job)
        self._news.set()

    def settled(self, job: SimulatedJob) -> None:
        self._held.pop(job, None)
        self.admitted(job)

    async def _reserve(self) -> None:
        server, around = self._tubes.server, self._tubes.around
        while True:
            if not self._connection.open:
                await asyncio.sleep(around.chance.latency() + around.chance.draw.random())
                if server.away:
                    continue
                self._connection = Connection()
                self._tubes.connections.append(self._connection)
            self._news.clear()
            server.on_ready(self._look)
            if self._taking and len(self._on_their_way) < self._room:
                await self._ask()
            if not self._news.is_set():
                await self._news.wait()

    def _look(self) -> None:
        around = self._tubes.around
        around.loop.inside(self._process, self._news.set)

    async def _ask(self) -> None:
        connection, most = self._connection, min(AT_ONCE, self._room - len(self._on_their_way))
        server, found = self._tubes.server, list[StoredJob]()

        def reserve() -> list[StoredJob]:
            # Of a question that comes twice, both answers are ours: the connection's.
            found.extend(server.reserve(connection, self._tube, most - len(found)))
            return found

        try:
            await self._tubes.jobs.ask(f"reserve {self._tube}", reserve)
        except TubesDown:
            self.break_off()
            return
        jobs = [SimulatedJob(self._tubes, self, connection, each) for each in found]
        if jobs and self._taking:
            self._held.update(dict.fromkeys(jobs))
            self._on_their_way.update(jobs)
            self._on_jobs(jobs)
        else:
            for each in found:
                server.release(connection, each)
        if jobs:
            self._news.set()

    async def _touch(self) -> None:
        while True:
            await asyncio.sleep(AGAIN_SECONDS)
            for job in list(self._held):
                self._tubes.server.touch(job.connection, job.stored)


class SimulatedJob:
    """Stands in for `service.worker.tubes.held.ReservedJob`."""

    def __init__(
        self, tubes: Tubes, intake: SimulatedIntake, connection: Connection, stored: StoredJob
    ) -> None:
        self._tubes = tubes
        self._intake = intake
        self.connection = connection
        self.stored = stored
        self._settled = False

    @property
    def key(self) -> str:
        return f"job-{self.stored.id}"

    @property
    def server(self) -> str:
        return "tubes:11300"

    @property
    def id(self) -> int:
        return self.stored.id

    @property
    def body(self) -> bytes:
        return self.stored.body

    @property
    def lost(self) -> bool:
        return not self.connection.open

    async def age(self) -> float:
        if not self.lost:
            await self._ask("age", lambda: None)
        if self.lost or self.stored.holder is not self.connection:
            raise TubesDown("the job is not ours any more")
        return self._tubes.around.loop.now - self.stored.put_at

    def admitted(self) -> None:
        self._intake.admitted(self)

    def delete(self) -> Awaitable[None]:
        server = self._tubes.server
        deleting = asyncio.create_task(
            self._settle("delete", lambda: server.delete(self.connection, self.stored))
        )
        self._intake.deleting.add(deleting)
        deleting.add_done_callback(self._intake.deleting.discard)
        return deleting

    async def bury(self) -> None:
        server = self._tubes.server
        await self._settle("bury", lambda: server.bury(self.connection, self.stored))

    async def release(self) -> None:
        server = self._tubes.server
        await self._settle("release", lambda: server.release(self.connection, self.stored))

    async def _settle(self, what: str, do: Callable[[], object]) -> None:
        if self._settled:
            return
        self._settled = True
        if not self.lost:
            await self._ask(what, do)
        self._intake.settled(self)

    async def _ask(self, what: str, do: Callable[[], object]) -> None:
        """What a connection that ended was asked for is not done by another one."""
        try:
            await self._tubes.jobs.ask(
                f"{what} {self.id}", lambda: do() if self.connection.open else None
            )
        except TubesDown:
            self._intake.break_off()


class SimulatedPutter:
    """Stands in for `service.worker.tubes.put_servers.Putter`."""

    def __init__(self, tubes: Tubes) -> None:
        self._tubes = tubes

    async def put_drain(self, slug: Slug) -> None:
        await self._put(DRAINS_TUBE, encode_drain(slug), 0, f"drain {slug}")

    async def put_rechecks(self, requests: Iterable[TrackingRequest]) -> None:
        for request in requests:
            await self._put(REQUESTS_TUBE, encode_request(request), 2**17, f"{request.number}")

    async def _put(self, tube: str, body: bytes, priority: int, what: str) -> None:
        server = self._tubes.server
        await self._tubes.puts.ask(what, lambda: server.put(tube, body, priority, TTR))
