"""One question to a server and its answer, with everything that may go wrong on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from simulated.chance import Chance
from simulated.loop import RUNNING, Process, VirtualLoop
from simulated.trace import Trace

T = TypeVar("T")


@dataclass(slots=True)
class Surroundings:
    """What every double lives in. `kill` and `pause` act on a process at once."""

    loop: VirtualLoop
    chance: Chance
    trace: Trace
    kill: Callable[[Process], None]
    pause: Callable[[Process], None]

    def running(self) -> Process:
        """The process that asks. The world outside asks nothing."""
        process = RUNNING.get()
        assert process is not None
        return process

    def struck_before(self, port: str, process: Process) -> bool:
        """Whether the process dies right before it asks; it may be paused instead."""
        if self.chance.strikes(f"{port}: killed before", process.name):
            self.kill(process)
            return True
        if self.chance.strikes(f"{port}: paused", process.name):
            self.pause(process)
        return False

    def delay(self, kind: str, process: Process) -> float:
        usual = self.chance.latency()
        return usual + (self.chance.delay() if self.chance.strikes(kind, process.name) else 0.0)


class Port:
    """The way of one kind of server. `away`: it refuses everybody just now."""

    def __init__(self, name: str, around: Surroundings, down: type[Exception]) -> None:
        """`down` is what the adapter raises when it does not know what became of a question."""
        self.name = name
        self._around = around
        self._down = down
        self.away = False

    async def ask(self, what: str, do: Callable[[], T]) -> T:
        """Have `do` done at the server. Raises the adapter's error; it may have been done then."""
        around = self._around
        process = around.running()
        answer: asyncio.Future[T] = around.loop.create_future()
        if process.alive and not around.struck_before(self.name, process):
            around.trace.add(process.name, f"{self.name} < {what}")
            delay = around.delay(f"{self.name}: request delayed", process)
            if around.chance.strikes(f"{self.name}: request lost", process.name, what):
                self._fail(process, answer, self._patience())
            else:
                around.loop.outside(delay, self._arrive, process, answer, do)
        return await answer

    def _arrive(self, process: Process, answer: asyncio.Future[Any], do: Callable[[], Any]) -> None:
        around = self._around
        if self.away:
            self._fail(process, answer, self._patience())
            return
        found = do()
        if around.chance.strikes(f"{self.name}: done twice", process.name):
            found = do()
        if process.alive and around.chance.strikes(f"{self.name}: killed after", process.name):
            around.kill(process)
            return
        if around.chance.strikes(f"{self.name}: answer lost", process.name):
            self._fail(process, answer, self._patience())
            return
        delay = around.delay(f"{self.name}: answer delayed", process)
        around.loop.call_later(delay, _settle, answer, found, context=process.context)

    def _patience(self) -> float:
        """A connection that breaks is noticed at once, one that is silent after a time-out."""
        draw = self._around.chance.draw
        return draw.choice((0.001, 2.0))

    def _fail(self, process: Process, answer: asyncio.Future[Any], delay: float) -> None:
        error = self._down(f"{self.name} did not answer")
        self._around.loop.call_later(delay, _refuse, answer, error, context=process.context)


def _settle(answer: asyncio.Future[Any], found: object) -> None:
    if not answer.done():
        answer.set_result(found)


def _refuse(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
