"""Asyncio client of one beanstalkd over one connection: commands leave and replies come in batches.

Commands that are asked for in one turn of the event loop leave in one write, and their replies come
in one read. A client either waits for all replies to a batch before it writes the next one, or
writes ahead.

A reply that the protocol does not foresee (a cut line, an unknown word) leaves it open which reply
answers which command, so it ends the connection. So does a server that is silent for too long.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, ClassVar, cast

import greenstalk

from service.config.address import host_and_port
from service.worker.tubes.blocking import Timeouts, beanstalkd_down
from tracking.errors import TubesDown

AHEAD_MOST = 128
"""Commands in a batch. Some 4 KB: they always fit into the kernel's buffers, so that the write ends
even if beanstalkd is stuck with the first reply, which nobody reads before."""

TOGETHER_SECONDS = 0.002
"""How long replies may take to be all there; then they are read as they come. A server sends ten
and some small packets, and the next ones when those are acknowledged: which the kernel does at once
when they are read, but 40 ms later when they are not."""

_LINE_MOST = 1024
"""Bytes of the line of a reply; beanstalkd writes less than a tenth of that."""

_NONSENSE = (greenstalk.Error, ValueError, LookupError)


class Verb(StrEnum):
    """beanstalkd's commands."""

    DELETE = "delete"
    BURY = "bury"
    RELEASE = "release"
    TOUCH = "touch"
    RESERVE = "reserve-with-timeout"
    STATS_JOB = "stats-job"
    STATS = "stats"
    STATS_TUBE = "stats-tube"
    WATCH = "watch"
    IGNORE = "ignore"
    USE = "use"
    PUT = "put"


class Reply(StrEnum):
    """What a reply of beanstalkd means.

    ======= ========================================================================================
    DONE    as asked
    MISSING there is no such job: we do not hold it any more, or none was ready to be reserved
    STUCK   beanstalkd had no room; it now counts the job as reserved, by nobody, until it restarts
    REFUSED beanstalkd will not run the job that was put
    ======= ========================================================================================
    """

    DONE = "done"
    MISSING = "missing"
    STUCK = "stuck"
    REFUSED = "refused"


_OF_A_JOB = {
    b"NOT_FOUND": Reply.MISSING,
    b"OUT_OF_MEMORY": Reply.STUCK,
    b"INTERNAL_ERROR": Reply.STUCK,
}

PUT_REFUSALS = {
    b"BURIED": greenstalk.BuriedError,
    b"DRAINING": greenstalk.DrainingError,
    b"INTERNAL_ERROR": greenstalk.InternalError,
    b"JOB_TOO_BIG": greenstalk.JobTooBigError,
    b"OUT_OF_MEMORY": greenstalk.OutOfMemoryError,
}

REPLIES: dict[Verb, dict[bytes, Reply]] = {
    Verb.DELETE: {b"DELETED": Reply.DONE, **_OF_A_JOB},
    Verb.BURY: {b"BURIED": Reply.DONE, **_OF_A_JOB},
    Verb.RELEASE: {b"RELEASED": Reply.DONE, b"BURIED": Reply.STUCK, **_OF_A_JOB},
    Verb.TOUCH: {b"TOUCHED": Reply.DONE, **_OF_A_JOB},
    Verb.RESERVE: {
        b"RESERVED": Reply.DONE,
        b"TIMED_OUT": Reply.MISSING,
        b"DEADLINE_SOON": Reply.MISSING,
    },
    Verb.STATS_JOB: {b"OK": Reply.DONE, b"NOT_FOUND": Reply.MISSING},
    Verb.STATS: {b"OK": Reply.DONE},
    Verb.STATS_TUBE: {b"OK": Reply.DONE, b"NOT_FOUND": Reply.MISSING},
    Verb.WATCH: {b"WATCHING": Reply.DONE},
    Verb.IGNORE: {b"WATCHING": Reply.DONE, b"NOT_IGNORED": Reply.DONE},
    Verb.USE: {b"USING": Reply.DONE},
    Verb.PUT: dict.fromkeys(PUT_REFUSALS, Reply.REFUSED),
}
"""The first word of every reply that the protocol foresees; any other ends the connection. INSERTED
is read before all others."""

_WITH_BODY = frozenset({b"RESERVED", b"OK"})
"""Replies whose last value is the length of a body that follows."""

_INSTANCE = re.compile(rb"^id: (\S+)", re.MULTILINE)

_INSERTED = re.compile(rb"INSERTED (\d+)\r\n")


@dataclass(slots=True, eq=False)
class PendingCommand:
    """Command whose replies have not all come, and the future of its answer.

    `line` is what is written. `reply_bytes`: how long each reply is at least, 0: not known. The
    server itself may wait `seconds` with it. `left`: replies to come. Of a PUT, which may be many
    jobs, `answers` has what came so far. `usual`: the whole reply that means DONE, b"" where such
    replies differ.
    """

    verb: Verb
    line: bytes
    done: asyncio.Future[Any]
    reply_bytes: int = 0
    seconds: int = 0
    left: int = 1
    answers: list[Any] | None = None
    ends_batch: bool = False
    usual: bytes = b""


class Client(asyncio.Protocol):
    """Live connection to one beanstalkd, opened by a subclass, which says what can be asked.

    `instance` is another one after each restart of the server. `down` says why the connection
    ended; `ended` is called then.
    """

    writes_ahead: ClassVar[bool] = False
    """Whether a batch is written while replies to the last one are still to come."""

    def __init__(self, server: str, timeouts: Timeouts) -> None:
        self.server = server
        self.instance = ""
        self.down: TubesDown | None = None
        self.ended: Callable[[], None] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._timeouts = timeouts
        self._stats_bytes = 0
        self._waiting: deque[PendingCommand] = deque()
        self._sent: deque[PendingCommand] = deque()
        self._rest = b""
        self._transport: asyncio.Transport | None = None

    @property
    def unanswered(self) -> list[asyncio.Future[Any]]:
        """Answers that are still to come; each comes, or fails when the server is silent."""
        return [command.done for command in (*self._sent, *self._waiting)]

    def close(self, error: Exception | None = None) -> None:
        """End the connection: beanstalkd makes what it held ready for others at once."""
        if self.down:
            return
        why = error or ConnectionError("closed")
        self.down = why if isinstance(why, TubesDown) else beanstalkd_down(self.server, why)
        if self._transport:
            self._replies.end()
            self._transport.abort()
        commands = [*self._sent, *self._waiting]
        self._sent.clear()
        self._waiting.clear()
        for command in commands:
            self._break_off(command)
        self.ended()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; asyncio calls it."""
        self._transport = cast("asyncio.Transport", transport)
        self._replies = ReplyWait(self._transport, self.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """End; asyncio calls it."""
        self.close(exc or ConnectionError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        """Read replies; asyncio calls it."""
        if self.down:
            return
        try:
            self._read(self._rest + data)
        except _NONSENSE as error:
            self.close(error)
        if self._waiting and not self._sent and not self.writes_ahead:
            self._send()
        elif not self.down:
            self._await_replies()

    async def _connect(self, *first: tuple[Verb, bytes]) -> bytes:
        """Connect, ask `first`, then for what the server tells of itself. Raises TubesDown."""
        host, port = host_and_port(self.server)
        try:
            async with asyncio.timeout(self._timeouts.connect):
                await self._loop.create_connection(lambda: self, host, port)
            # What answers one of `first` otherwise ends the connection, and so the last question.
            for verb, line in first:
                self._ask(verb, line)
            stats: bytes = await self._ask(Verb.STATS, b"stats\r\n")
        except OSError as error:  # a time-out is one
            self.close(error)
            raise beanstalkd_down(self.server, error) from error
        except BaseException:
            self.close()
            raise
        return stats

    def _ask(
        self, verb: Verb, line: bytes, *, reply_bytes: int = 0, seconds: int = 0
    ) -> asyncio.Future[Any]:
        done = self._loop.create_future()
        return self._submit(PendingCommand(verb, line, done, reply_bytes, seconds))

    def _submit(self, command: PendingCommand) -> asyncio.Future[Any]:
        if self.down:
            self._break_off(command)
        else:
            if not self._waiting and (self.writes_ahead or not self._sent):
                # After this turn of the loop, so that all of the turn get into one batch.
                self._loop.call_soon(self._send)
            self._waiting.append(command)
        return command.done

    def _send(self) -> None:
        if self._waiting and (self.writes_ahead or not self._sent):
            most = len(self._waiting) if self.writes_ahead else AHEAD_MOST
            batch = list(islice(self._waiting, most))
            for _ in batch:
                self._waiting.popleft()
            self._write(batch)

    def _write(self, batch: list[PendingCommand]) -> None:
        if not self._transport:
            return
        was_idle = not self._sent
        batch[-1].ends_batch = True
        self._sent.extend(batch)
        self._transport.write(b"".join([command.line for command in batch]))
        if was_idle:
            self._await_replies()

    def _read(self, data: bytes) -> None:
        """Take the replies that are whole."""
        at = 0
        while self._sent:
            command = self._sent[0]
            if command.usual and data.startswith(command.usual, at):
                at += len(command.usual)
                answer: Any = self._answer(command, Reply.DONE, [], b"")
            elif command.verb is Verb.PUT and (inserted := _INSERTED.match(data, at)):
                at = inserted.end()
                answer = int(inserted[1])
            elif (found := next_reply(data, at)) is None:
                break
            else:
                words, body, at = found
                reply = REPLIES[command.verb].get(words[0])
                if reply is None:
                    raise greenstalk.UnknownResponseError(words[0], words[1:])
                answer = self._answer(command, reply, words, body)
            command.left -= 1
            if command.answers is not None:
                command.answers.append(answer)
                answer = command.answers
            if not command.left:
                self._sent.popleft()
                self._resolve(command, answer)
        self._rest = data[at:]
        if self._rest and not self._sent:
            raise greenstalk.UnknownResponseError(self._rest.split(b"\r\n")[0], [])

    def _answer(
        self, command: PendingCommand, _reply: Reply, _words: list[bytes], body: bytes
    ) -> Any:
        """Make of a reply what the one who asked is given."""
        if command.verb is Verb.STATS and not self.instance:
            # Job ids start from 1 when a server restarts without its binlog; this is another.
            (instance,) = _INSTANCE.findall(body)
            # As greenstalk reads it: an id of digits alone is a number.
            self.instance = str(int(instance)) if instance.isdigit() else instance.decode()
            self._stats_bytes = len(re.sub(rb": .*", b": 0", body))
        return body

    def _resolve(self, command: PendingCommand, answer: Any) -> None:
        if not command.done.done():  # the one who waited was cancelled
            command.done.set_result(answer)

    def _break_off(self, command: PendingCommand) -> None:
        """Give what came before the connection ended, else the reason of its end."""
        if command.answers:
            self._resolve(command, command.answers)
        elif self.down and not command.done.done():
            command.done.set_exception(TubesDown(self.down.message, self.down.fix))
            command.done.exception()  # it is no defect if nobody waits for it any more

    def _await_replies(self) -> None:
        """Have the replies to the oldest batch read together; the connection ends if none comes."""
        replies = least = seconds = 0
        known = True
        for command in self._sent:
            replies += command.left
            least += command.left * command.reply_bytes
            known &= command.reply_bytes > 0
            seconds = max(seconds, command.seconds)
            if command.ends_batch:
                break
        if replies:
            least = least - len(self._rest) if known and replies > 1 else 1
            self._replies.begin(self._timeouts.reply + seconds, max(1, least))
        else:
            self._replies.end()


class ReplyWait:
    """Wait for replies over one connection: how long, and for how many bytes in one go.

    beanstalkd writes each reply by itself, and each would be a turn of the loop. So the kernel is
    asked (SO_RCVLOWAT) to wait until there are as many bytes as there will be at least.
    """

    def __init__(self, transport: asyncio.Transport, late: Callable[[Exception], None]) -> None:
        """`late` is called with a TimeoutError when the server was silent for too long."""
        self._socket: socket.socket = transport.get_extra_info("socket")
        self._loop = asyncio.get_running_loop()
        self._late = late
        self._least = 1
        self._silent_at = 0.0
        self._silence: asyncio.TimerHandle | None = None
        self._together: asyncio.TimerHandle | None = None
        self._set(socket.SO_KEEPALIVE, 1)

    def begin(self, seconds: float, least: int) -> None:
        """Bear `seconds` of silence from now on, and wait for `least` bytes in one go."""
        self._silent_at = self._loop.time() + seconds
        if self._together:
            self._together.cancel()
        if self._silence and self._silence.when() > self._silent_at:
            self._silence.cancel()
            self._silence = None
        if not self._silence:
            self._silence = self._loop.call_at(self._silent_at, self._look)
        self._set_least(least)
        if least > 1:
            self._together = self._loop.call_later(TOGETHER_SECONDS, self._set_least, 1)

    def end(self) -> None:
        """Wait no more; what comes all the same is read as it comes."""
        for timer in (self._silence, self._together):
            if timer:
                timer.cancel()
        self._silence = self._together = None
        self._set_least(1)

    def _look(self) -> None:
        """A timer for each read would cost more than one that looks again when it is early."""
        if self._silent_at > self._loop.time():
            self._silence = self._loop.call_at(self._silent_at, self._look)
        else:
            self._late(TimeoutError("timed out"))

    def _set_least(self, least: int) -> None:
        if least != self._least:
            self._least = least
            self._set(socket.SO_RCVLOWAT, least)

    def _set(self, option: int, value: int) -> None:
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, option, value)


def next_reply(data: bytes, at: int) -> tuple[list[bytes], bytes, int] | None:
    """Read the reply that begins at `at`: its words, body, where it ends; None: not all there.

    Raises ValueError, IndexError for what no beanstalkd says.
    """
    end = data.find(b"\r\n", at)
    if end < 0:
        if len(data) - at > _LINE_MOST:
            raise ValueError("a line does not end")
        return None
    words = data[at:end].split(b" ")
    begin = end + 2
    if words[0] not in _WITH_BODY:
        return words, b"", begin
    size = int(words[-1])
    after = begin + size
    if data[after : after + 2] not in {b"\r\n", b"\r", b""} or size < 0:
        raise ValueError("a body is longer than was said")
    if len(data) < after + 2:
        return None
    return words, data[begin:after], after + 2
