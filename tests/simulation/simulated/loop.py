"""An event loop on virtual time: nothing waits, nothing runs beside it, one seed gives one run.

Every callback belongs to the process whose context scheduled it, or to the world outside. A process
that died is never called again; one that is paused is called later, all at once, as after SIGCONT.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from random import Random
from typing import Any

TURN_SECONDS = 0.000_02
"""What one turn of the loop takes, so that a circle of callbacks does not stop the clock."""


@dataclass(slots=True, eq=False)
class Process:
    """Whatever can be killed and paused as one."""

    name: str
    skew: float = 0.0
    alive: bool = True
    paused: bool = False
    held: list[asyncio.Handle] = field(default_factory=list)
    context: Context = field(default_factory=Context)

    def __post_init__(self) -> None:
        self.context.run(RUNNING.set, self)


RUNNING: ContextVar[Process | None] = ContextVar("RUNNING", default=None)
"""The process that runs just now; None is the world outside."""


Connect = Callable[[asyncio.Protocol], Awaitable[asyncio.Transport]]
"""Opens a connection in memory; the only server that is spoken to over one is Redis."""


class StillError(Exception):
    """Nothing is left to happen, and somebody still waits."""


class _Task(asyncio.Task[Any]):
    """A task that sets order by its number: by its address no two runs would be the same."""

    def __init__(self, number: int, *args: Any, **kwargs: Any) -> None:
        self.number = number
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self.number


class VirtualLoop(asyncio.BaseEventLoop):
    """`shuffle`: callbacks of different processes that are due together come in any order."""

    def __init__(self, shuffle: Random | None) -> None:
        super().__init__()
        self.now = 0.0
        self.turns = 0
        self.tasks: list[asyncio.Task[Any]] = []
        self._shuffle = shuffle
        self._due: list[tuple[asyncio.Handle, Process | None]] = []
        self._later: list[tuple[float, int, asyncio.TimerHandle, Process | None]] = []
        self._numbers = itertools.count()
        self._outside = Context()
        self.connect: Connect = _nobody_there
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]

    def time(self) -> float:
        return self.now

    def call_soon(  # type: ignore[override] # typeshed's is variadic
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        context = copy_context() if context is None else context
        handle = asyncio.Handle(callback, args, self, context)
        self._due.append((handle, context.get(RUNNING)))
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        context = copy_context() if context is None else context
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        entry = (when, next(self._numbers), handle, context.get(RUNNING))
        heapq.heappush(self._later, entry)
        return handle

    def outside(self, delay: float, callback: Callable[..., Any], *args: Any) -> asyncio.Handle:
        """Have the world do something in `delay` seconds, outside of every worker."""
        return self.call_later(delay, callback, *args, context=self._outside)

    def inside(self, process: Process, callback: Callable[..., Any], *args: Any) -> None:
        """Have a process called: at once, after its pause, or never."""
        self.call_soon(callback, *args, context=process.context)

    def resume(self, process: Process) -> None:
        process.paused = False
        self._due.extend((handle, process) for handle in process.held)
        process.held.clear()

    def _run_once(self) -> None:
        self._fetch_due()
        due, self._due = self._due, []
        if self._shuffle is not None and len(due) > 1:
            due = _shuffled(due, self._shuffle)
        for handle, process in due:
            if process is not None and not handle.cancelled():
                if not process.alive:
                    continue
                if process.paused:
                    process.held.append(handle)
                    continue
            if not handle.cancelled():
                handle._run()  # noqa: SLF001 - as every loop of asyncio does
        self.turns += 1
        self.now += TURN_SECONDS

    def _fetch_due(self) -> None:
        later = self._later
        while later and later[0][2].cancelled():
            heapq.heappop(later)
        stopping: bool = self._stopping  # type: ignore[attr-defined]
        if not self._due and not stopping:
            if not later:
                raise StillError
            self.now = max(self.now, later[0][0])
        while later and later[0][0] <= self.now:
            _, _, handle, process = heapq.heappop(later)
            if not handle.cancelled():
                self._due.append((handle, process))

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.Protocol], *_: Any, **__: Any
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        protocol = protocol_factory()
        return await self.connect(protocol), protocol

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, Any],
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        context = copy_context() if context is None else context
        task = _Task(next(self._numbers), work, loop=loop, context=context)
        self.tasks.append(task)
        return task

    def dispose(self) -> None:
        """End what never ended, quietly: most of it belongs to processes that were killed."""
        self.set_exception_handler(lambda *_: None)
        # What ends may start something, and would look for a loop to start it on.
        asyncio._set_running_loop(self)  # noqa: SLF001
        while self.tasks:
            task = self.tasks.pop()
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
                with contextlib.suppress(RuntimeError, BaseExceptionGroup):
                    task.get_coro().close()
        asyncio._set_running_loop(None)  # noqa: SLF001
        self.close()

    def call_soon_threadsafe(self, *_: Any, **__: Any) -> asyncio.Handle:  # type: ignore[override]
        raise NotImplementedError("no threads here: a double is missing")

    def run_in_executor(self, *_: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        raise NotImplementedError("no threads here: a double is missing")


def _shuffled(
    due: list[tuple[asyncio.Handle, Process | None]], draw: Random
) -> list[tuple[asyncio.Handle, Process | None]]:
    """One process's callbacks keep their order, which asyncio promises."""
    order: dict[Process | None, float] = {}
    for _, process in due:
        if process not in order:
            order[process] = draw.random()
    return sorted(due, key=lambda each: order[each[1]]) if len(order) > 1 else due


async def _nobody_there(_: asyncio.Protocol) -> asyncio.Transport:
    raise ConnectionRefusedError
