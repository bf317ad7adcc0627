"""Connection over which jobs are put, and which finds out whether a binlog has them.

All that is put in one turn of the event loop leaves in one write, which does not wait for the
replies to the last one: beanstalkd always has something to do.

After one failed write to its binlog beanstalkd goes on without it, and tells nobody. So where jobs
must be durable each write begins and ends with a question for the number of records in the binlog,
and what was taken counts only where that many were added. Records of somebody else's jobs can hide
a failure in its own moment; the next put finds it.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import greenstalk

from service.worker.tubes.blocking import Timeouts, cause_and_fix
from service.worker.tubes.connection import PUT_REFUSALS, Client, PendingCommand, Reply, Verb
from tracking.errors import TubesDown

ENOUGH = 24
"""Jobs that leave without waiting for the end of the turn: beanstalkd works on them meanwhile."""

FORGETFUL, RESTART = "stopped writing its binlog", "Look at its disk, then restart it."

_RECORDS = re.compile(rb"^binlog-records-(written|migrated): (\d+)", re.MULTILINE)
_BINLOG = re.compile(rb"^binlog-current-index: [1-9]", re.MULTILINE)
"""Files are numbered from 1; 0 is what a server without a binlog tells."""

UNBOUNDED = 1 << 30
"""Bytes: more than a job ever has."""

_JOB_MOST = re.compile(rb"^max-job-size: (\d+)", re.MULTILINE)
_JOBS = re.compile(rb"^current-jobs-(?:ready|reserved|delayed|buried): (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PutOptions:
    """How a job is put. `delay` and `ttr` are seconds; a lower `priority` comes first."""

    priority: int = greenstalk.DEFAULT_PRIORITY
    delay: int = greenstalk.DEFAULT_DELAY
    ttr: int = greenstalk.DEFAULT_TTR


class PutRefused(TubesDown):
    """A server that answers, but does not take this job."""


class _Buried(PutRefused):
    """A server that takes a job, but will not run it: it has no room."""


Answers = list[int | PutRefused]
"""Of each job its id, or why the server will not run it."""


@dataclass(slots=True, eq=False)
class _Batch:
    """Puts of one write. `records`: in the binlog before them, None: not known yet.

    They are answered together: those who put again do so in one write.
    """

    puts: Sequence[PendingCommand]
    records: int | None = None


class PutClient(Client):
    """Live connection over which jobs are put.

    `binlog`: the server was started with one; `forgetful`: it stopped writing it. `job_most`: bytes
    of the largest job that it takes.
    """

    writes_ahead: ClassVar[bool] = True

    def __init__(self, server: str, timeouts: Timeouts, *, durable: bool) -> None:
        """`durable`: jobs count as put only where the server's binlog holds them."""
        super().__init__(server, timeouts)
        self.binlog = self.forgetful = False
        self.job_most = UNBOUNDED
        self._durable = durable
        self._used = ""
        self._newest = 0
        self._jobs = 0
        self._batches: deque[_Batch] = deque()
        self._unsure = PutRefused(f"beanstalkd {server} {FORGETFUL}", RESTART)

    @classmethod
    async def open(cls, server: str, timeouts: Timeouts, *, durable: bool = False) -> Self:
        """Connect to `server` ("host:port"). Raises TubesDown."""
        client = cls(server, timeouts, durable=durable)
        stats = await client._connect()
        client.binlog = _BINLOG.search(stats) is not None
        if told := _JOB_MOST.search(stats):
            client.job_most = int(told[1])
        return client

    def put(
        self, tube: str, bodies: Sequence[bytes], options: PutOptions
    ) -> asyncio.Future[Answers]:
        """Put jobs. It is done although nobody waits for it.

        Fewer answers than bodies: the connection ended in between, and what became of the others
        nobody knows. Raises TubesDown when there is no answer at all.
        """
        done: asyncio.Future[Answers] = self._loop.create_future()
        if not bodies:
            done.set_result([])
            return done
        if tube != self._used:
            self._used = tube
            self._ask(Verb.USE, b"use %b\r\n" % tube.encode(), reply_bytes=len(f"USING {tube}"))
        head = b"put %d %d %d" % (options.priority, options.delay, options.ttr)
        lines = b"".join([b"%b %d\r\n%b\r\n" % (head, len(body), body) for body in bodies])
        least = len(b"INSERTED %d\r\n" % self._newest)
        self._submit(PendingCommand(Verb.PUT, lines, done, least, left=len(bodies), answers=[]))
        self._jobs += len(bodies)
        if self._jobs >= ENOUGH:
            self._send()
        return done

    async def jobs(self, tube: str) -> int:
        """Count the jobs in a tube. Raises TubesDown."""
        stats = await self._ask(Verb.STATS_TUBE, b"stats-tube %b\r\n" % tube.encode())
        return sum(map(int, _JOBS.findall(stats)))

    def close(self, error: Exception | None = None) -> None:
        """End the connection; what the binlog is not known to hold is not put."""
        super().close(error)
        for batch in self._batches:
            for put in batch.puts:
                self._break_off(put)
        self._batches.clear()

    def _write(self, batch: list[PendingCommand]) -> None:
        self._jobs = 0
        puts = [command for command in batch if command.verb is Verb.PUT]
        if puts:
            self._batches.append(_Batch(puts))
        if puts and self._durable:
            batch = [*batch, self._question()]
            batch.insert(batch.index(puts[0]), self._question())
        super()._write(batch)

    def _question(self) -> PendingCommand:
        done = self._loop.create_future()
        return PendingCommand(Verb.STATS, b"stats\r\n", done, self._stats_bytes)

    def _answer(
        self, command: PendingCommand, reply: Reply, words: list[bytes], body: bytes
    ) -> Any:
        if reply is not Reply.REFUSED:
            return super()._answer(command, reply, words, body)
        refusal = cause_and_fix(self.server, PUT_REFUSALS[words[0]]())
        if words[0] != b"BURIED":
            return PutRefused(*refusal)
        # It exists all the same, and a later kick would repeat the work.
        line = b"delete %d\r\n" % int(words[1])
        super()._write([PendingCommand(Verb.DELETE, line, self._loop.create_future())])
        return _Buried(*refusal)

    def _resolve(self, command: PendingCommand, answer: Any) -> None:
        if command.verb is Verb.PUT:
            if isinstance(answer[-1], int):
                self._newest = answer[-1]
            # Another question may follow the last put of a write.
            if not self._durable and command is self._batches[0].puts[-1]:
                self._finish()
            return
        super()._resolve(command, answer)
        if command.verb is Verb.STATS and self._batches:
            self._prove(self._batches[0], answer)

    def _finish(self) -> None:
        for put in self._batches.popleft().puts:
            super()._resolve(put, put.answers)

    def _prove(self, batch: _Batch, stats: bytes) -> None:
        """Hear how many records there are: before the jobs of a batch, then with them."""
        # Those that beanstalkd moves to another file by itself are counted as written, too.
        counts = {name: int(count) for name, count in _RECORDS.findall(stats)}
        after = counts.get(b"written", 0) - counts.get(b"migrated", 0)
        before, batch.records = batch.records, after
        if before is None:
            return
        if after - before < self._taken(batch.puts):
            # Until it restarts, it would take each put and forget it at its end.
            self.forgetful = True
            self.close(TubesDown(f"beanstalkd {self.server} {FORGETFUL}", RESTART))
        else:
            self._finish()

    def _taken(self, puts: Sequence[PendingCommand]) -> int:
        """Count the jobs that were taken. Those behind a buried one are refused."""
        taken, buried = 0, False
        for answers in [put.answers or [] for put in puts]:
            for at, answer in enumerate(answers):
                buried |= isinstance(answer, _Buried)
                if isinstance(answer, int):
                    taken += not buried
                    # After a write that failed, which counts as a record, it has no binlog.
                    answers[at] = self._unsure if buried else answer
        return taken

    def _break_off(self, command: PendingCommand) -> None:
        if self._durable:
            command.answers = []
        if command.answers:
            super()._resolve(command, command.answers)
        else:
            super()._break_off(command)
