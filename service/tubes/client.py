"""One connection to one beanstalkd on the event loop, and the jobs reserved over it.

What is asked while a batch of commands is under way makes up the next one: the commands of many
jobs travel in one write, and their replies in one read.

A reservation belongs to its connection: when that ends, by whatever cause, beanstalkd hands the job
to somebody else, and nothing may be done to it over any other connection. A reply that the protocol
does not foresee (a cut line, an unknown word) leaves it open which reply answers which command, so
it ends the connection, and so does a server that is silent for too long.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import greenstalk

from service.config.address import host_and_port
from service.observe.events import Event
from service.observe.log import emit
from service.tubes.commands import REPLIES, USUAL, Reply, Verb, next_reply, read_facts, read_stats
from service.tubes.connection import Patience
from service.tubes.failure import beanstalkd_down
from service.tubes.reply_wait import ReplyWait
from tracking.errors import TubesDown

HELD_MOST = 1000
"""Jobs per connection: beanstalkd walks all that a connection holds for every delete."""

AHEAD_MOST = 128
"""Commands sent ahead at once. Some 4 KB: they always fit into the kernel's buffers, so that the
write ends even if beanstalkd is stuck with the first reply, which nobody reads before."""

_NONSENSE = (greenstalk.Error, ValueError, LookupError)


@dataclass(slots=True, eq=False)
class Reservation:
    """One job that we hold.

    `ttr` (seconds) and `priority` are None until `Client.read_facts`; `age` is seconds since the
    put. At `touch_at` (`time.monotonic()`) it is to be touched. `touched`: it was, before its TTR
    was read. `lost`: its TTR ran out, or its connection ended. `settled`: somebody lets go of it.
    `roomless`: it gave its room back before.
    """

    id: int
    body: bytes
    client: Client
    ttr: int | None = None
    priority: int | None = None
    age: float = 0.0
    touch_at: float = 0.0
    touched: bool = False
    lost: bool = False
    settled: bool = False
    roomless: bool = False

    @property
    def is_held(self) -> bool:
        """Whether it is neither settled nor lost."""
        return not self.lost and not self.settled


@dataclass(slots=True, eq=False)
class Order:
    """One command and who waits for its reply. The server itself may wait `seconds` with it."""

    verb: Verb
    words: bytes
    done: asyncio.Future[Any]
    job: Reservation | None = None
    seconds: int = 0


Settled = Callable[[Sequence[Reservation]], None]
"""Hears which jobs are out of this worker's hands."""


class Client(asyncio.Protocol):
    """A live connection, made by `open`.

    `down` says why it ended, `abandoned` how many jobs it held then.
    """

    def __init__(self, server: str, seconds: float, settled: Settled) -> None:
        """`seconds` is the longest silence of a server that was asked something."""
        self.server = server
        self.instance = ""
        self.held: dict[int, Reservation] = {}
        self.down: TubesDown | None = None
        self.abandoned = 0
        self.ended: Callable[[], None] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._settled = settled
        self._asked: deque[Order] = deque()
        self._sent: deque[Order] = deque()
        self._rest = b""
        self._wait: ReplyWait | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, server: str, tube: str, patience: Patience, settled: Settled) -> Self:
        """Connect to `server` ("host:port") and watch only `tube`. Raises TubesDown."""
        host, port = host_and_port(server)
        client = cls(server, patience.reply, settled)
        try:
            async with asyncio.timeout(patience.connect):
                await client._loop.create_connection(lambda: client, host, port)
            # What answers one of the first two otherwise ends the connection, and so the third.
            client._ask(Verb.WATCH, b" " + tube.encode())
            client._ask(Verb.IGNORE, b" default")
            client.instance = await client._ask(Verb.STATS)
        except OSError as error:  # a time-out is one
            client.close(error)
            raise beanstalkd_down(server, error) from error
        except BaseException:
            client.close()
            raise
        return client

    def reserve(self, seconds: int = 0) -> asyncio.Future[Reservation | None]:
        """Ask for a job that is ready now or within `seconds`; None: there was none.

        With `seconds` nothing else can be asked over this connection until then.
        """
        return self._ask(Verb.RESERVE, b" %d" % seconds, seconds=seconds)

    async def read_facts(self, jobs: Sequence[Reservation]) -> None:
        """Learn TTR, priority and age of jobs; marks as lost those that are gone."""
        asked = [self._ask(Verb.STATS_JOB, b" %d" % job.id) for job in jobs]
        for job, answer in zip(jobs, asked, strict=True):
            facts = await answer
            if facts is None:
                job.lost = True
            else:
                job.ttr, job.priority, job.age = facts

    def tell(self, verb: Verb, job: Reservation) -> asyncio.Future[Reply]:
        """Delete, bury, release or touch a job. BURY and RELEASE need facts that were read.

        It is done although nobody waits for it. Where the connection has ended, or ends before,
        MISSING: somebody else has the job.
        """
        words = b" %d" % job.id
        job.settled |= verb is not Verb.TOUCH
        if verb in {Verb.BURY, Verb.RELEASE}:
            words += b" %d" % (job.priority or 0)
        if verb is Verb.RELEASE:
            words += b" 0"
        return self._ask(verb, words, job)

    @property
    def unanswered(self) -> list[asyncio.Future[Any]]:
        """What was asked and is not answered yet; it ends when the server is silent too long."""
        return [order.done for order in (*self._sent, *self._asked)]

    def close(self, error: Exception | None = None) -> None:
        """End the connection: beanstalkd makes what it held ready for others at once."""
        if self.down:
            return
        self.down = beanstalkd_down(self.server, error or ConnectionError("closed"))
        self.abandoned = len(self.held)
        for job in self.held.values():
            job.lost = True
        self.held.clear()
        if self._transport and self._wait:
            self._wait.end()
            self._transport.abort()
        orders = [*self._sent, *self._asked]
        self._sent.clear()
        self._asked.clear()
        for order in orders:
            self._break_off(order, self.down)
        self.ended()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; asyncio calls it."""
        self._transport = cast("asyncio.Transport", transport)
        self._wait = ReplyWait(self._transport, self.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """End; asyncio calls it."""
        self.close(exc or ConnectionError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        """Read replies; asyncio calls it."""
        if self.down or not self._wait:
            return
        self._wait.heard()
        over: list[Reservation] = []
        try:
            self._read(self._rest + data, over)
        except _NONSENSE as error:
            self.close(error)
        if not self._sent:
            self._wait.end()
            self._send()
        if over:
            self._settled(over)

    def _ask(
        self, verb: Verb, words: bytes = b"", job: Reservation | None = None, seconds: int = 0
    ) -> asyncio.Future[Any]:
        order = Order(verb, words, self._loop.create_future(), job, seconds)
        if self.down:
            self._break_off(order, self.down)
        else:
            if not self._asked and not self._sent:
                # After this turn of the loop, so that all of the turn get into one batch.
                self._loop.call_soon(self._send)
            self._asked.append(order)
        return order.done

    def _send(self) -> None:
        if self._sent or not self._asked or not self._transport or not self._wait:
            return
        batch = [self._asked.popleft() for _ in range(min(len(self._asked), AHEAD_MOST))]
        self._sent.extend(batch)
        seconds = self._seconds + max(order.seconds for order in batch)
        usual = [USUAL.get(order.verb) for order in batch]
        many = len(batch) > 1 and None not in usual
        least = sum(map(len, filter(None, usual))) if many else 1
        self._wait.begin(seconds, least)
        lines = (b"%b%b\r\n" % (order.verb.encode(), order.words) for order in batch)
        self._transport.write(b"".join(lines))

    def _read(self, data: bytes, over: list[Reservation]) -> None:
        """Take the replies that are whole; adds the jobs that were settled to `over`."""
        at = 0
        while (found := next_reply(data, at)) is not None:
            word, values, body, at = found
            order = self._sent[0]  # LookupError: nothing was asked
            reply = REPLIES[order.verb].get(word)
            if reply is None:
                raise greenstalk.UnknownResponseError(word, values)
            answer = self._answer(order, reply, values, body)
            self._sent.popleft()
            if not order.done.done():  # the one who waited was cancelled
                order.done.set_result(answer)
            if order.job and order.verb is not Verb.TOUCH:
                over.append(order.job)
        self._rest = data[at:]

    def _answer(self, order: Order, reply: Reply, values: list[bytes], body: bytes) -> Any:
        if order.job:
            order.job.lost |= reply is not Reply.DONE
            if self.held.get(order.job.id) is order.job and order.verb is not Verb.TOUCH:
                del self.held[order.job.id]
            if reply is Reply.STUCK and order.verb is not Verb.TOUCH:
                emit(Event.JOB_STUCK, server=self.server, job=order.job.id, why=order.verb.value)
            return reply
        if reply is Reply.MISSING:
            return None
        match order.verb:
            case Verb.RESERVE:
                job = self.held[int(values[0])] = Reservation(int(values[0]), body, self)
                return job
            case Verb.STATS_JOB:
                return read_facts(body)
            case Verb.STATS:
                # Job ids start from 1 when a server restarts without its binlog; this is another.
                return read_stats(body)["id"]
            case _:
                return None

    def _break_off(self, order: Order, down: TubesDown) -> None:
        if not order.done.done():
            if order.job:
                order.done.set_result(Reply.MISSING)
            else:
                order.done.set_exception(TubesDown(down.message, down.fix))
                order.done.exception()  # it is no defect if nobody waits for it any more
        if order.job and order.verb is not Verb.TOUCH:
            self._settled([order.job])
