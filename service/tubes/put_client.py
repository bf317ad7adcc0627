"""One connection to one beanstalkd on the event loop, over which jobs are put.

All that is put in one turn of the event loop leaves in one write, which does not wait for the
replies to the last one: beanstalkd always has something to do.

After one failed write to its binlog beanstalkd goes on without it, and tells nobody. So where jobs
must be durable each write begins and ends with a question for the number of records in the binlog,
and what was taken counts only where that many were added. Records of somebody else's jobs can hide
a failure in its own moment; the next put finds it.

A reply that the protocol does not foresee leaves it open which reply answers which command, so it
ends the connection, and so does a server that is silent for too long.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import groupby
from typing import Self, cast

import greenstalk

from service.config.address import host_and_port
from service.tubes.commands import Placing, next_reply, put_command, read_stats
from service.tubes.connection import Patience
from service.tubes.failure import beanstalkd_down, told
from service.tubes.reply_wait import ReplyWait
from tracking.errors import TubesDown

ENOUGH = 24
"""Jobs that leave without waiting for the end of the turn: beanstalkd works on them meanwhile."""

FORGETFUL, RESTART = "stopped writing its binlog", "Look at its disk, then restart it."

_REFUSALS = {
    b"BURIED": greenstalk.BuriedError,
    b"DRAINING": greenstalk.DrainingError,
    b"INTERNAL_ERROR": greenstalk.InternalError,
    b"JOB_TOO_BIG": greenstalk.JobTooBigError,
    b"OUT_OF_MEMORY": greenstalk.OutOfMemoryError,
}
_INSERTED = re.compile(rb"INSERTED (\d+)\r\n")
_RECORDS = re.compile(rb"^binlog-records-(written|migrated): (\d+)", re.MULTILINE)
_NONSENSE = (greenstalk.Error, ValueError, LookupError)


class PutRefused(TubesDown):
    """A server that answers, but does not take this job."""


Answers = list[int | PutRefused]
"""Of each job its id, or why the server will not run it."""


class _Step(Enum):
    """What a reply is about."""

    STATS = auto()
    USE = auto()
    PUT = auto()
    DELETE = auto()


_FORESEEN = {
    _Step.STATS: {b"OK"},
    _Step.USE: {b"USING"},
    _Step.PUT: _REFUSALS.keys(),
    _Step.DELETE: {b"DELETED", b"NOT_FOUND"},
}
"""INSERTED is read before all others."""


@dataclass(frozen=True, slots=True, eq=False)
class _Post:
    """Jobs that one caller put together."""

    tube: str
    commands: Sequence[bytes]
    done: asyncio.Future[Answers]


@dataclass(slots=True, eq=False)
class _Batch:
    """Jobs of one write. `records`: in the binlog before them, then with them."""

    posts: Sequence[_Post] = ()
    count: int = 0
    answers: Answers = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    buried: bool = False


class PutClient(asyncio.Protocol):
    """A live connection, made by `open`. `down` says why it ended.

    `instance` is another one after each restart of the server; `binlog`: it was started with one;
    `forgetful`: it stopped writing it.
    """

    def __init__(self, server: str, seconds: float, *, durable: bool) -> None:
        """`seconds` is the longest silence of a server that was asked something."""
        self.server = server
        self.instance = ""
        self.binlog = self.forgetful = False
        self.down: TubesDown | None = None
        self._seconds = seconds
        self._durable = durable
        self._stats_least = 0
        self._used = ""
        self._newest = 0
        self._unsure = PutRefused(f"beanstalkd {server} {FORGETFUL}", RESTART)
        self._waiting: list[_Post] = []
        self._jobs = 0
        self._steps: deque[tuple[_Step, _Batch]] = deque()
        self._rest = b""
        self._greeting = _Post("", (), asyncio.get_running_loop().create_future())

    @classmethod
    async def open(cls, server: str, patience: Patience, *, durable: bool = False) -> Self:
        """Connect to `server` ("host:port"). Raises TubesDown."""
        host, port = host_and_port(server)
        client = cls(server, patience.reply, durable=durable)
        try:
            async with asyncio.timeout(patience.connect):
                await asyncio.get_running_loop().create_connection(lambda: client, host, port)
        except OSError as error:  # a time-out is one
            raise beanstalkd_down(server, error) from error
        try:
            await client._greeting.done
        except BaseException:
            client.close()
            raise
        return client

    def put(self, tube: str, bodies: Sequence[bytes], placing: Placing) -> asyncio.Future[Answers]:
        """Put jobs. It is done although nobody waits for it.

        Fewer answers than bodies: the connection ended in between, and what became of the others
        nobody knows. Raises TubesDown when there is no answer at all.
        """
        loop = asyncio.get_running_loop()
        commands = [put_command(body, placing) for body in bodies]
        post = _Post(tube, commands, loop.create_future())
        if self.down or not bodies:
            _tell(post, [], self.down)
            return post.done
        if not self._waiting:
            # After this turn of the loop, so that all of the turn get into one write.
            loop.call_soon(self._write)
        self._waiting.append(post)
        self._jobs += len(bodies)
        if self._jobs >= ENOUGH:
            self._write()
        return post.done

    def close(self, error: Exception | None = None) -> None:
        """End the connection."""
        if self.down:
            return
        why = error or ConnectionError("closed")
        self.down = why if isinstance(why, TubesDown) else beanstalkd_down(self.server, why)
        self._replies.end()
        self._transport.abort()
        for batch in dict.fromkeys(batch for _, batch in self._steps):
            self._finish(batch)
        for post in self._waiting:
            _tell(post, [], self.down)
        self._steps.clear()
        self._waiting.clear()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; asyncio calls it."""
        self._transport = cast("asyncio.Transport", transport)
        self._replies = ReplyWait(self._transport, self.close)
        self._steps.append((_Step.STATS, _Batch([self._greeting])))
        self._transport.write(b"stats\r\n")
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """End; asyncio calls it."""
        self.close(exc or ConnectionError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        """Read replies; asyncio calls it."""
        try:
            self._read(self._rest + data)
        except _NONSENSE as error:
            self.close(error)
        if not self.down:
            self._wait()

    def _write(self) -> None:
        posts, self._waiting, self._jobs = self._waiting, [], 0
        was_idle = not self._steps
        lines: list[bytes] = []
        for tube, together in groupby(posts, lambda post: post.tube):
            batch = _Batch(list(together))
            if tube != self._used:
                self._used = tube
                self._steps.append((_Step.USE, batch))
                lines.append(b"use %b\r\n" % tube.encode())
            stats = [b"stats\r\n"] * self._durable
            lines += stats
            self._steps.extend((_Step.STATS, batch) for _ in stats)
            for post in batch.posts:
                lines += post.commands
                batch.count += len(post.commands)
            self._steps.append((_Step.PUT, batch))
            lines += stats
            self._steps.extend((_Step.STATS, batch) for _ in stats)
        if lines:
            self._transport.write(b"".join(lines))
        if was_idle:
            self._wait()

    def _read(self, data: bytes) -> None:
        """Take the replies that are whole."""
        at = 0
        while not self.down:
            step, batch = self._steps[0] if self._steps else (None, _Batch())
            if step is _Step.PUT and (inserted := _INSERTED.match(data, at)):
                at = inserted.end()
                self._newest = int(inserted[1])
                # After a write that failed, which counts as a record, it has no binlog any more.
                distrusted = self._durable and batch.buried
                batch.answers.append(self._unsure if distrusted else self._newest)
            elif (reply := next_reply(data, at)) is None:
                break
            else:
                word, values, body, at = reply
                if step is None or word not in _FORESEEN[step]:
                    raise greenstalk.UnknownResponseError(word, values)
                self._take(step, batch, (word, values, body))
            if step is not _Step.PUT or len(batch.answers) == batch.count:
                self._steps.popleft()
                if not self._steps or self._steps[0][1] is not batch:
                    self._finish(batch)
        self._rest = data[at:]

    def _take(self, step: _Step, batch: _Batch, reply: tuple[bytes, list[bytes], bytes]) -> None:
        word, values, body = reply
        if step is _Step.STATS and not self.instance:
            stats = read_stats(body)
            self.instance = stats["id"]
            # Files are numbered from 1; 0 is what a server without a binlog tells.
            self.binlog = int(stats.get("binlog-current-index", "0")) > 0
            self._stats_least = sum(len(name) + len(": 0\n") for name in stats)
        elif step is _Step.STATS:
            # Those that beanstalkd moves to another file by itself are counted as written, too.
            counts = {name: int(count) for name, count in _RECORDS.findall(body)}
            batch.records.append(counts.get(b"written", 0) - counts.get(b"migrated", 0))
        elif step is _Step.PUT:
            batch.answers.append(PutRefused(*told(self.server, _REFUSALS[word]())))
            if word == b"BURIED":
                batch.buried = True
                # It exists all the same, and a later kick would repeat the work.
                self._steps.append((_Step.DELETE, _Batch()))
                self._transport.write(b"delete %d\r\n" % int(values[0]))

    def _finish(self, batch: _Batch) -> None:
        """Tell those who put a batch what came of it."""
        if self._durable and batch.count and not self.down:
            before, after = batch.records
            if after - before < sum(isinstance(each, int) for each in batch.answers):
                # Until it restarts, it would take each put and forget it at its end.
                self.forgetful = True
                self.close(TubesDown(f"beanstalkd {self.server} {FORGETFUL}", RESTART))
        answers = iter([] if self._durable and self.down else batch.answers)
        for post in batch.posts:
            # `answers` comes second: what it gives is not lost when there are no more commands.
            _tell(post, [each for _, each in zip(post.commands, answers, strict=False)], self.down)

    def _wait(self) -> None:
        """Have the replies to the next batch read together; it ends if none comes."""
        if not self._steps:
            self._replies.end()
            return
        batch = self._steps[0][1]
        least = (batch.count - len(batch.answers)) * len(b"INSERTED %d\r\n" % self._newest)
        if self._durable and batch.count:
            least += (2 - len(batch.records)) * self._stats_least
        self._replies.begin(self._seconds, least - len(self._rest))


def _tell(post: _Post, answers: Answers, down: TubesDown | None) -> None:
    if post.done.done():  # the one who waited was cancelled
        return
    if down and not answers:
        post.done.set_exception(TubesDown(down.message, down.fix))
        post.done.exception()  # it is no defect if nobody waits for it any more
    else:
        post.done.set_result(answers)
