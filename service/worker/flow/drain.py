"""The drainer takes the waiting requests of each line exactly when its next call may start.

It has one heap of (instant, line) and one timer. All lines that are due are taken from together, in
one round trip to Redis. The drain job of a line stays reserved for as long as this process drains
the line: when the process vanishes, beanstalkd gives the job to another process at once. After a
minute the drainer releases the job, and any process may drain the line. Two drainers of one line
are harmless, because each `take` is safe by itself; the sweeper repairs a line without a drainer.

Only one take of a line is under way at a time. In a busy process replies come late; calls that end
meanwhile schedule their line again, and each further take would find less.

When the process is at its concurrency limit, the line queues for a slot; meanwhile the drainer
tells Redis now and then that it drains the line. A process that could not store an answer counts as
full: it keeps its drain jobs, and the sweeper puts no others.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from service.observe.log import emit_unexpected
from service.ports import Job, Limits
from service.worker.flow.call import CallRunner
from service.worker.flow.tasks import CallSlots, keep_trying
from tracking.call import NO_ROOM, TakeResult
from tracking.errors import AWAY
from tracking.line import Line

SHARE_AFTER_SECONDS = 60.0
SHARE_SPREAD = 0.25
"""Lines that began together do not change hands together: that would hold all of them up."""

FEWEST_IN_ONE_TAKE = 2
MOST_IN_ONE_TAKE = 64
"""A take may bring twice as many calls as the last take of its line, and at least a courier's usual
two. Slots that a take cannot fill are missing elsewhere while its reply is under way."""

UNREPORTED_SECONDS = 1.0
"""How long a line may wait for a slot before Redis hears of it: nearly all get a slot sooner. Redis
waits three seconds for a drainer that is late."""

NEVER = float("inf")

AFTER_DEFECT_SECONDS = 5.0
"""When a line is asked for again after a defect came up over it."""


class Drainer:
    """Drains lines, each at the instant for which it is scheduled. One per process."""

    def __init__(self, limits: Limits, slots: CallSlots, runner: CallRunner) -> None:
        """The `runner` schedules lines here, and free `slots` wake the drainer."""
        self._limits = limits
        self._slots = slots
        self._runner = runner
        self._heap: list[tuple[float, Line]] = []
        self._due: dict[Line, float] = {}
        self._asked: dict[Line, float] = {}
        """Lines whose take is under way, and when they are to be asked for after it."""
        self._since: dict[Line, float] = {}
        self._jobs: dict[Line, Job] = {}
        self._brought: dict[Line, int] = {}
        self._sooner = asyncio.Event()
        self._retired = False
        self.claimed: Callable[[Line], None] = lambda _: None
        """Hears of each line for which a drain job came, whether anything waits there or not."""
        slots.waiting.wake = self._sooner.set
        runner.schedule = self.schedule

    def schedule(self, line: Line, at: float) -> None:
        """Ask for `line` at this instant of `time.monotonic()`; the sooner instant holds."""
        if line in self._asked:
            self._asked[line] = min(at, self._asked[line])
            return
        if at >= self._due.get(line, NEVER):
            return
        self._due[line] = at
        if line not in self._since:
            spread = SHARE_SPREAD * SHARE_AFTER_SECONDS * random.uniform(-1.0, 1.0)
            self._since[line] = time.monotonic() + spread
        heapq.heappush(self._heap, (at, line))
        if self._heap[0] == (at, line):
            self._sooner.set()

    async def claim(self, line: Line, job: Job) -> None:
        """Begin to drain `line`, because `job` of the tube `wait_list` says so; settles the job."""
        # A full process keeps the job: to refuse it would send it round without end.
        room = self._slots.reserve(FEWEST_IN_ONE_TAKE, line)
        result = await self._take(line, room, claims=True)
        await self._go_on(line, result, job)
        self.claimed(line)

    async def retry_later(self, line: Line, job: Job) -> None:
        """Schedule `line` again after a defect came up over it. One drain job of it is kept."""
        self.schedule(line, time.monotonic() + AFTER_DEFECT_SECONDS)
        if self._jobs.setdefault(line, job) is not job:
            await job.delete()

    async def run(self) -> None:
        """Take from each line when it is due, until `retire`."""
        async with asyncio.TaskGroup() as asking:
            while not self._retired:
                for line in self._pop_waiting():
                    task = asking.create_task(self._ask(line, has_slot=True))
                    self._slots.assign(task, line, FEWEST_IN_ONE_TAKE)
                for line in self._pop_due():
                    # Nobody waits for the slowest: the next lines are due meanwhile.
                    asking.create_task(self._ask(line))
                self._sooner.clear()
                wait = self._heap[0][0] - time.monotonic() if self._heap else None
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._sooner.wait()

    def retire(self) -> None:
        """Let `run` end after the takes under way: calls that they are granted must not be lost."""
        self._retired = True
        self._sooner.set()

    async def hand_over(self) -> None:
        """Give all lines back to the tube, because this process stops."""
        lines = list(self._due)
        self._due.clear()
        self._heap.clear()
        for line in lines:
            try:
                result = await self._limits.take(next(self._limits.ids), line, 0)
                await self._go_on(line, result)
            except AWAY:
                return  # the jobs go back with their connections
            except Exception as error:  # noqa: BLE001 - the other lines are to be handed over too
                emit_unexpected(error, slug=line)

    def _pop_waiting(self) -> Iterator[Line]:
        while line := self._slots.next_waiting_line():
            if line in self._asked:
                self.schedule(line, time.monotonic())
            else:
                self._due.pop(line, None)
                self._asked[line] = NEVER
                yield line

    def _pop_due(self) -> list[Line]:
        now, due = time.monotonic(), []
        while self._heap and self._heap[0][0] <= now:
            at, line = heapq.heappop(self._heap)
            # An entry that a sooner one replaced is passed over.
            if self._due.get(line) == at:
                del self._due[line]
                self._asked[line] = NEVER
                due.append(line)
        return due

    async def _ask(self, line: Line, *, has_slot: bool = False) -> None:
        try:
            await self._ask_for(line, has_slot=has_slot)
        except Exception as error:  # noqa: BLE001 - a defect over one line must not stop the others
            emit_unexpected(error, slug=line)
            self.schedule(line, time.monotonic() + AFTER_DEFECT_SECONDS)
        finally:
            self.schedule(line, self._asked.pop(line))

    async def _ask_for(self, line: Line, *, has_slot: bool) -> None:
        now = time.monotonic()
        room = 0
        if has_slot or now - self._since.get(line, 0.0) < SHARE_AFTER_SECONDS:
            most = max(FEWEST_IN_ONE_TAKE, 2 * self._brought.get(line, 1))
            room = self._slots.reserve(min(most, MOST_IN_ONE_TAKE), line)
        if room == NO_ROOM and self._slots.waiting.add(line):
            self.schedule(line, now + UNREPORTED_SECONDS)
            return
        result = await self._take(line, room)
        if room > 0:
            self._brought[line] = max(1, len(result.groups))
        if result.ask_again is None:
            self._since.pop(line, None)
            self._brought.pop(line, None)
        if room and not result.full:  # handed over it goes on waiting: its job may come back
            self._slots.waiting.leave(line)
        await self._go_on(line, result)

    async def _take(self, line: Line, room: int, *, claims: bool = False) -> TakeResult:
        # One id for all tries: calls that were granted in a lost reply are granted again.
        base = next(self._limits.ids)
        return await keep_trying(lambda: self._limits.take(base, line, room, claims=claims))

    async def _go_on(self, line: Line, result: TakeResult, job: Job | None = None) -> None:
        """Apply a result; keep the line's drain job while we drain the line, else let go of it."""
        jobs = [each for each in (self._jobs.pop(line, None), job) if each is not None]
        if result.ask_again is not None and jobs:
            self._jobs[line] = jobs.pop(0)
        # To release the drain job at hand does the same as to put another.
        handed = jobs.pop(0) if result.put_drain and jobs else None
        await self._runner.apply(
            line, result._replace(put_drain=result.put_drain and handed is None)
        )
        if handed is not None:
            await handed.release()
        for other in jobs:
            await other.delete()
