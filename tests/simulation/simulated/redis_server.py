"""A Redis in memory, spoken to by the real client over a connection that has no socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import hiredis

from simulated.commands import COMMANDS, execute
from simulated.exchange import Surroundings
from simulated.keyspace import Keyspace, Refusal, RefusedError, Saved, Status
from simulated.loop import Process
from simulated.scripting import Scripts

PORT = "redis"


HELLO = {"server": "redis", "version": "7.4.0", "proto": 3, "mode": "standalone"}


class Judge(Protocol):
    """Looks at the keyspace after a script: its hash, its keys, its arguments.

    `ended`: the operations that it saw end.
    """

    ended: dict[str, str]

    def __call__(self, sha: str, keys: Sequence[str], argv: Sequence[str], /) -> None: ...


class RedisServer:
    """Serves one `Keyspace`. `away`: it refuses connections and cuts those that are open."""

    def __init__(
        self, around: Surroundings, space: Keyspace, scripts: Scripts, judge: Judge
    ) -> None:
        self._around = around
        self._space = space
        self._scripts = scripts
        self._judge = judge
        self.away = False
        self.scripts_done = 0
        self.primary = 0
        self._done: list[Done] = []

    async def connect(self, protocol: asyncio.Protocol) -> asyncio.Transport:
        process = self._around.running()
        await asyncio.sleep(self._around.chance.latency())
        if self.away:
            raise ConnectionRefusedError("Redis is away")
        link = Link(self, process, protocol, self._around)
        protocol.connection_made(link)
        return link

    def restart(self) -> None:
        """What is stored stays, as with an append-only file; scripts are forgotten."""
        self._space.runs += 1
        self._scripts.forget()

    def promote(self) -> None:
        """Let the replica take over, which may lack what was done and not answered yet."""
        self.primary += 1
        self._space.promotions += 1
        self.restart()
        if self._done and self._done[0].answered:
            self._done = self._done[:1]
            self._space.restore(self._done[0].left)
            # What ended since then nobody was told of: nothing is promised of it.
            self._judge.ended = dict(self._done[0].ended)

    def done(self) -> Done | None:
        """What was just done, where a replica has to confirm it."""
        if not self._space.replicated:
            return None
        self._done.append(Done(self._space.saved(), dict(self._judge.ended)))
        return self._done[-1]

    def answered(self, done: Done) -> None:
        """The replica has it, and all that was done before."""
        done.answered = True
        if done in self._done:
            del self._done[: self._done.index(done)]

    def fill(self, *, full: bool) -> None:
        """Whether it has reached its maxmemory."""
        self._space.full = full

    def forget_scripts(self) -> None:
        self._scripts.forget()

    def answer(self, commands: Sequence[Sequence[str]]) -> bytes:
        return b"".join(map(_written, self._replies(commands)))

    def _replies(self, commands: Sequence[Sequence[str]]) -> Iterator[object]:
        """The client sends a transaction as one write, so it begins and ends here."""
        queued: list[Sequence[str]] | None = None
        for command in commands:
            if command[0].upper() == "MULTI":
                queued = []
                yield Status()
            elif queued is None:
                yield self._answer(command)
            elif command[0].upper() == "EXEC":
                yield [self._answer(each) for each in queued]
                queued = None
            else:
                queued.append(command)
                yield Status("QUEUED")

    def _answer(self, command: Sequence[str]) -> object:
        name, *args = command
        self._space.tick()
        match name.upper():
            case "EVALSHA" | "EVAL" as way:
                sha = args[0] if way == "EVALSHA" else self._scripts.load(args[0])
                return self._evaluate([sha, *args[1:]])
            case "SCRIPT":
                return self._scripts.load(args[1])
            case "HELLO" | "CONFIG" as question:
                least = {"min-replicas-to-write": str(int(self._space.replicated))}
                return least if question == "CONFIG" else HELLO
            case "CLIENT":
                return Status() if args[0].upper() == "SETINFO" else Refusal("ERR unknown")
        if name.upper() not in COMMANDS:
            self._around.trace.breach("redis", f"the double does not know {name}")
        try:
            reply = execute(self._space, name, args)
            # Scripts get a list; a client, in RESP3, a map.
            pairs = name.upper() == "HGETALL" and isinstance(reply, list)
            return dict(zip(reply[::2], reply[1::2], strict=True)) if pairs else reply
        except RefusedError as error:
            return Refusal(str(error))

    def _evaluate(self, args: Sequence[str]) -> object:
        sha, count, *rest = args
        keys, argv = rest[: int(count)], rest[int(count) :]
        reply = self._scripts.evaluate(self._space, sha, keys, argv)
        if isinstance(reply, Refusal):
            if not reply.text.startswith("NOSCRIPT"):
                self._around.trace.breach("scripts", reply.text)
            return reply
        self.scripts_done += 1
        self._judge(sha, keys, argv)
        return reply


@dataclass(eq=False, slots=True)
class Done:
    """One pipeline, and what it left: Redis, and ends; `answered`: its reply has arrived."""

    left: Saved
    ended: dict[str, str]
    answered: bool = False


class Link(asyncio.Transport):
    """One connection of one process, as its end sees it."""

    def __init__(
        self, server: RedisServer, process: Process, protocol: Any, around: Surroundings
    ) -> None:
        super().__init__()
        self._server, self._process, self._around = server, process, around
        self._protocol = protocol
        self._reader = hiredis.Reader()
        self._closing = False
        self._free_at = 0.0
        self._silent = False
        self._primary = server.primary

    def write(self, data: bytes | bytearray | memoryview) -> None:
        around, process = self._around, self._process
        self._reader.feed(bytes(data))
        commands = []
        while (command := self._reader.gets()) is not False:
            commands.append([part.decode("latin-1") for part in command])
        if not commands or self._closing or self._silent or not process.alive:
            return
        if around.struck_before(PORT, process):
            return
        if around.chance.strikes(f"{PORT}: request lost", process.name, commands[0][0]):
            self._lose()
            return
        self._after(around.delay(f"{PORT}: request delayed", process), self._arrive, commands)

    def _arrive(self, commands: list[list[str]]) -> None:
        around, process = self._around, self._process
        if self._server.away or self._primary != self._server.primary:
            self._break()
            return
        replies = self._server.answer(commands)
        if around.chance.strikes(f"{PORT}: done twice", process.name):
            replies = self._server.answer(commands)
        done = self._server.done()
        if process.alive and around.chance.strikes(f"{PORT}: killed after", process.name):
            around.kill(process)
            return
        if around.chance.strikes(f"{PORT}: answer lost", process.name, commands[0][0]):
            self._lose()
            return
        self._after(
            around.delay(f"{PORT}: answer delayed", process), self._deliver, (replies, done)
        )

    def _after(self, delay: float, step: Callable[[Any], None], what: object) -> None:
        """Nothing overtakes anything on one connection."""
        self._free_at = max(self._free_at, self._around.loop.now + delay)
        self._around.loop.outside(self._free_at - self._around.loop.now, step, what)

    def _deliver(self, answer: tuple[bytes, Done | None]) -> None:
        replies, done = answer
        if self._primary != self._server.primary:
            self._break()
            return
        if done is not None:
            self._server.answered(done)
        self._around.loop.inside(self._process, self._receive, replies)

    def _receive(self, replies: bytes) -> None:
        if not self._closing:
            self._protocol.data_received(replies)

    def _lose(self) -> None:
        """The connection breaks, or it stays and nobody answers on it any more."""
        if self._around.chance.draw.random() < 0.5:
            self._silent = True
        else:
            self._break()

    def _break(self) -> None:
        self._around.loop.inside(self._process, self._end, ConnectionResetError("reset"))

    def _end(self, error: Exception | None) -> None:
        if not self._closing:
            self._closing = True
            self._protocol.connection_lost(error)

    def close(self) -> None:
        self._around.loop.inside(self._process, self._end, None)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._closing

    def get_protocol(self) -> Any:
        return self._protocol


def _written(reply: object) -> bytes:
    """A reply in RESP3."""
    match reply:
        case None:
            return b"_\r\n"
        case int():
            return b":%d\r\n" % reply
        case str():
            data = reply.encode("latin-1")
            return b"$%d\r\n%s\r\n" % (len(data), data)
        case dict():
            pairs = [each for pair in reply.items() for each in pair]
            return b"%%%d\r\n%s" % (len(reply), b"".join(map(_written, pairs)))
        case Status(text) | Refusal(text):
            sign = "+" if isinstance(reply, Status) else "-"
            return f"{sign}{text}\r\n".encode("latin-1")
    assert isinstance(reply, list)
    return b"*%d\r\n%s" % (len(reply), b"".join(map(_written, reply)))
