"""Reserved jobs of this worker: the connection that holds them, and the touches that keep them.

A reservation belongs to its connection: when that ends, by whatever cause, beanstalkd hands the job
to somebody else, and nothing may be done to it over any other connection.

A job that is settled at once costs nothing. One that is still held after YOUNG seconds is touched;
after as long again its TTR is read, and it is touched every third of it: one touch may be late or
fail. That is why nothing needs to be done about beanstalkd's DEADLINE_SOON.

A TTR may be years: what is settled or lost is let go of long before its next touch was due.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import re
from base64 import urlsafe_b64encode
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol, Self

from service.observe.events import Event
from service.observe.log import emit
from service.worker.tubes.blocking import Timeouts
from service.worker.tubes.connection import Client, PendingCommand, Reply, Verb
from tracking.errors import TubesDown

HELD_MOST = 1000
"""Jobs per connection: beanstalkd walks all that a connection holds for every delete."""

YOUNG = 0.4
"""Seconds. Most jobs are settled earlier; beanstalkd's shortest TTR is one second. A worker that
has more to do than it can holds most jobs for longer, but few for twice as long."""

PARTS = 3
"""A job is touched this often in its TTR."""

SOON_SECONDS = 0.01
"""How long room may lie unused. The jobs that are reserved with it come in batches, so it costs no
time that matters."""

KEY_BYTES = 12
"""96 bits: 16 characters, and no two jobs will ever share them."""

USUAL = {
    Verb.DELETE: b"DELETED\r\n",
    Verb.BURY: b"BURIED\r\n",
    Verb.RELEASE: b"RELEASED\r\n",
    Verb.TOUCH: b"TOUCHED\r\n",
}
"""What is written when a job was dealt with as asked."""

_FACTS_WRITTEN = {Verb.BURY: b" %d", Verb.RELEASE: b" %d 0"}
"""What follows the job's id: its priority, and no delay."""

_FACT = re.compile(rb"^(ttr|pri|age): (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Source:
    """Where jobs come from. `server` is "host:port", `connections` the most that are opened.

    `secret` makes the jobs' keys unguessable; all workers must have the same.
    """

    server: str
    tube: str
    connections: int = 4
    timeouts: Timeouts = field(default_factory=Timeouts)
    secret: bytes = b""


@dataclass(slots=True, eq=False, repr=False)
class ReservedJob:
    """Job that this worker holds; touched for us until it is settled.

    It must be settled, once, by `delete`, `bury` or `release`, or nobody else ever gets it. Later
    ones do nothing. All do nothing to a job whose connection has ended: somebody else has it by
    then.

    `lost`: it is not ours any more, because its TTR ran out or its connection ended; what was done
    for it still counts, and somebody will do it again. `ttr` (seconds) and `priority` are None
    until `read_facts`. At `touch_at` (`time.monotonic()`) it is to be touched. `touched`: it was,
    before its TTR was read. `settled`: the command that lets go of it was sent. `roomless`: it gave
    its room back before.
    """

    id: int
    body: bytes
    client: ReservingClient
    ttr: int | None = None
    priority: int | None = None
    put_ago: float = 0.0
    touch_at: float = 0.0
    touched: bool = False
    lost: bool = False
    settled: bool = False
    roomless: bool = False
    _settling: bool = False
    _key: str = ""

    @property
    def is_held(self) -> bool:
        """Whether it is neither settled nor lost."""
        return not self.lost and not self.settled

    @property
    def server(self) -> str:
        """The beanstalkd it is on, "host:port"."""
        return self.client.server

    @property
    def key(self) -> str:
        """Stable over redeliveries of this job; 16 URL-safe characters that tell nothing."""
        if not self._key:
            name = f"{self.client.instance}:{self.id}".encode()
            secret = self.client.source.secret
            digest = hashlib.blake2b(name, digest_size=KEY_BYTES, key=secret).digest()
            self._key = urlsafe_b64encode(digest).decode()
        return self._key

    def admitted(self) -> None:
        """Give the job's room to another one; it is held and touched until it is settled."""
        if not self.roomless:
            self.roomless = True
            self.client.admitted()

    def delete(self) -> asyncio.Future[Reply]:
        """Let go of the job, awaited or not. Also right for a lost one whose result is stored."""
        if self._settling:
            nothing = asyncio.get_running_loop().create_future()
            nothing.set_result(Reply.MISSING)
            return nothing
        self._settling = True
        return self.client.send(Verb.DELETE, self)

    async def bury(self) -> None:
        """Set the job aside for a person, with the priority it had."""
        await self._settle(Verb.BURY)

    async def release(self) -> None:
        """Hand the job back, at once ready for others, with the priority it had."""
        await self._settle(Verb.RELEASE)

    async def age(self) -> float:
        """Ask for the seconds since the put. Raises TubesDown when the job is lost."""
        await self.client.read_facts([self])
        if self.lost:
            raise TubesDown(f"{self.server}: job {self.id} is not ours any more")
        return self.put_ago

    async def _settle(self, verb: Verb) -> None:
        if self._settling:
            return
        self._settling = True
        if self.priority is None:
            with suppress(TubesDown):  # then it goes to others with its connection
                await self.client.read_facts([self])
        await self.client.send(verb, self)

    def __repr__(self) -> str:
        return f"<job {self.id} on {self.server}>"


Settled = Callable[[Sequence[ReservedJob]], None]
"""Hears which jobs are out of this worker's hands."""


@dataclass(slots=True, eq=False, kw_only=True)
class _JobCommand(PendingCommand):
    job: ReservedJob


class ReservingClient(Client):
    """Live connection over which jobs of one tube are reserved, touched and settled.

    `held` are the jobs that it holds, by id; `abandoned` is how many those were when it ended.
    """

    def __init__(self, source: Source, settled: Settled, admitted: Callable[[], None]) -> None:
        super().__init__(source.server, source.timeouts)
        self.source = source
        self.admitted = admitted
        self.held: dict[int, ReservedJob] = {}
        self.abandoned = 0
        self._settled = settled
        self._over: list[ReservedJob] = []

    @classmethod
    async def open(cls, source: Source, settled: Settled, admitted: Callable[[], None]) -> Self:
        """Connect, and watch only the tube of `source`. Raises TubesDown.

        `admitted` hears of each job that gives its room back before it is settled.
        """
        client = cls(source, settled, admitted)
        await client._connect(
            (Verb.WATCH, b"watch %b\r\n" % source.tube.encode()),
            (Verb.IGNORE, b"ignore default\r\n"),
        )
        return client

    def reserve(self, seconds: int = 0) -> asyncio.Future[ReservedJob | None]:
        """Ask for a job that is ready now or within `seconds`; None: there was none.

        With `seconds` nothing else can be asked over this connection until then.
        """
        return self._ask(Verb.RESERVE, b"reserve-with-timeout %d\r\n" % seconds, seconds=seconds)

    async def read_facts(self, jobs: Sequence[ReservedJob]) -> None:
        """Learn TTR, priority and age of jobs; marks as lost those that are gone."""
        asked = [self._ask(Verb.STATS_JOB, b"stats-job %d\r\n" % job.id) for job in jobs]
        for job, answer in zip(jobs, asked, strict=True):
            facts = await answer
            if facts is None:
                job.lost = True
            else:
                job.ttr, job.priority, job.put_ago = facts

    def send(self, verb: Verb, job: ReservedJob) -> asyncio.Future[Reply]:
        """Delete, bury, release or touch a job. BURY and RELEASE need facts that were read.

        It is done although nobody waits for it. Where the connection has ended, or ends before,
        MISSING: somebody else has the job.
        """
        job.settled |= verb is not Verb.TOUCH
        facts = _FACTS_WRITTEN.get(verb, b"")
        line = b"%b %d%b\r\n" % (verb.encode(), job.id, facts and facts % (job.priority or 0))
        done, usual = self._loop.create_future(), USUAL[verb]
        return self._submit(_JobCommand(verb, line, done, len(usual), usual=usual, job=job))

    def close(self, error: Exception | None = None) -> None:
        """End the connection; the jobs that it holds are lost."""
        if not self.down:
            self.abandoned = len(self.held)
            for job in self.held.values():
                job.lost = True
            self.held.clear()
        super().close(error)

    def data_received(self, data: bytes) -> None:
        """Read replies; asyncio calls it."""
        super().data_received(data)
        if self._over:
            over, self._over = self._over, []
            self._settled(over)

    def _answer(
        self, command: PendingCommand, reply: Reply, words: list[bytes], body: bytes
    ) -> Any:
        if isinstance(command, _JobCommand):
            self._let_go(command.verb, command.job, reply)
            return reply
        if reply is Reply.MISSING:
            return None
        if command.verb is Verb.RESERVE:
            number = int(words[1])
            job = self.held[number] = ReservedJob(number, body, self)
            return job
        if command.verb is Verb.STATS_JOB:
            facts = dict(_FACT.findall(body))
            return int(facts[b"ttr"]), int(facts[b"pri"]), int(facts[b"age"])
        return super()._answer(command, reply, words, body)

    def _let_go(self, verb: Verb, job: ReservedJob, reply: Reply) -> None:
        job.lost |= reply is not Reply.DONE
        if verb is not Verb.TOUCH:
            self._over.append(job)
            if self.held.get(job.id) is job:
                del self.held[job.id]
            if reply is Reply.STUCK:
                emit(Event.JOB_STUCK, server=self.server, job=job.id, why=verb.value)

    def _break_off(self, command: PendingCommand) -> None:
        if isinstance(command, _JobCommand):
            self._resolve(command, Reply.MISSING)
            if command.verb is not Verb.TOUCH:
                self._settled([command.job])
        else:
            super()._break_off(command)


class Touches:
    """Held jobs of one server and the instants (`time.monotonic()`) at which they are touched."""

    def __init__(self) -> None:
        self._young: deque[tuple[float, ReservedJob]] = deque()
        self._read: list[tuple[float, int, ReservedJob]] = []
        self._number = count()
        self._ended = 0

    @property
    def next_at(self) -> float | None:
        """When the next job is due, None when none is held."""
        firsts = [queue[0][0] for queue in (self._young, self._read) if queue]
        return min(firsts, default=None)

    def add(self, jobs: Iterable[ReservedJob], now: float) -> None:
        """Jobs were reserved just now, which begins their TTR as a touch does."""
        due = now + YOUNG
        for job in jobs:
            job.touch_at = due
            self._young.append((due, job))

    def forget(self, jobs: Iterable[ReservedJob]) -> None:
        """Hear that these are settled; at most half of all that are kept here are such jobs."""
        # Only a job whose TTR was read may be due in hours; the others are gone within a second.
        self._ended += sum(job.ttr is not None for job in jobs)
        if self._ended * 2 > len(self._read):
            self.forget_ended()

    def forget_ended(self) -> None:
        """Keep only jobs that are held; costs a look at each."""
        self._ended = 0
        self._read = [entry for entry in self._read if entry[2].is_held]
        heapq.heapify(self._read)

    async def touch_due(self, now: float) -> None:
        """Touch the jobs that are due. A connection that fails meanwhile is closed then."""
        groups: dict[ReservingClient, list[ReservedJob]] = {}
        for job in self._due(now):
            groups.setdefault(job.client, []).append(job)
        # Asked in the step that found them held, and before what others ask for in this turn: a job
        # that is deleted meanwhile is none that was lost.
        asked = [
            (client, jobs, [client.send(Verb.TOUCH, job) for job in jobs])
            for client, jobs in groups.items()
        ]
        await asyncio.gather(*(self._touch(*each, now) for each in asked))

    def _due(self, now: float) -> list[ReservedJob]:
        due = []
        while self._young and self._young[0][0] <= now:
            due.append(self._young.popleft())
        while self._read and self._read[0][0] <= now:
            at, _, job = heapq.heappop(self._read)
            due.append((at, job))
        return [job for at, job in due if job.is_held and job.touch_at == at]

    def _plan(self, job: ReservedJob, now: float) -> None:
        if job.touched or job.ttr is not None:
            job.touch_at = now + (job.ttr or 1) / PARTS
            heapq.heappush(self._read, (job.touch_at, next(self._number), job))
        else:
            job.touched = True
            self.add([job], now)

    async def _touch(
        self,
        client: ReservingClient,
        jobs: Sequence[ReservedJob],
        touched: Sequence[asyncio.Future[Reply]],
        now: float,
    ) -> None:
        unread = [job for job in jobs if job.is_held and job.touched and job.ttr is None]
        with suppress(TubesDown):
            await client.read_facts(unread)
        for each in touched:
            await each
        for job in jobs:
            if job.is_held:
                self._plan(job, now)
        lost = sum(job.lost for job in jobs)
        if lost and not client.down:
            emit(Event.JOBS_LOST, server=client.server, jobs=lost, why="TTR ran out")


class Claimant(Protocol):
    """Reserver that takes room, and is woken when there is some after there was none."""

    def wake(self) -> None:
        """Try to take again."""


class FairBudget:
    """How many jobs one process may hold, shared fairly by the servers that they come from.

    A claimant that finds no room stands in a queue until it takes some or leaves. What comes free
    belongs to the queue first: else the server whose jobs end just now would get all room again.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._soon = 0
        self._queue: dict[Claimant, None] = {}
        self.taken = 0
        """Places taken: jobs that are held."""

    def is_open(self, claimant: Claimant) -> bool:
        """Whether there is a place just now. False: there is none; `claimant` will be woken."""
        return self._granted(claimant, 1) > 0

    def take(self, claimant: Claimant, most: int) -> int:
        """Take up to `most` places. 0: there is none; `claimant` will be woken."""
        granted = self._granted(claimant, most)
        self.taken += granted
        return granted

    def give(self, count: int) -> None:
        """Give places back; wakes those that wait for some."""
        self.taken -= count
        self._wake()

    def give_soon(self) -> None:
        """Give a place back together with others: each time the claimants wake."""
        if not self._soon:
            asyncio.get_running_loop().call_later(SOON_SECONDS, self._give_these)
        self._soon += 1

    def _give_these(self) -> None:
        places, self._soon = self._soon, 0
        self.give(places)

    def leave(self, claimant: Claimant) -> None:
        """Stand in the queue no more; does nothing to one that does not."""
        if claimant in self._queue:
            del self._queue[claimant]
            self._wake()

    def _wake(self) -> None:
        for claimant in self._queue:
            claimant.wake()

    def _granted(self, claimant: Claimant, most: int) -> int:
        ahead = 0
        for other in self._queue:
            if other is claimant:
                break
            ahead += 1
        granted = max(0, min(most, self._most - self.taken - ahead))
        if granted:
            self._queue.pop(claimant, None)
        else:
            self._queue[claimant] = None
        return granted
