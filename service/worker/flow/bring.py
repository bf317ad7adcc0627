"""Brings requests in that have no job: what its own store has, and brings in again.

::

    bring → admit ─granted→ run its call
                  ├─parked→ put a drain job, if asked
                  └─held, ended, the line or Redis is full, Redis is away → nothing

Nothing is kept here: a request that is not admitted is brought in by the next who looks. So nobody
waits for room, and jobs never wait behind what is brought in. To bring in what waits or runs
changes nothing, as each request has a key of its own that is the same each time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from service.observe.log import emit_unexpected
from service.ports import Limits
from service.worker.flow.call import CallRunner
from service.worker.flow.tasks import CallSlots, Tasks, keep_trying
from tracking.call import Dying, Full, Granted, Parked, TakeResult
from tracking.errors import AWAY, LimitsBroken
from tracking.line import Line, line_of
from tracking.request import TrackingRequest

Wish = tuple[TrackingRequest, str]
"""A request, and the key that stands in for that of its job."""

AT_ONCE = 16
"""Requests of which Redis is asked at the same time: what comes beyond waits in this process."""

WAITING_MOST = 20_000
"""Requests that wait here at most, some 10 MB; others come with the next look of their store."""

FULL_SECONDS = 2.0
"""For so long nothing is brought in on a line that was full: what comes is its store's."""

TRIED_SECONDS = 5.0
"""How long a Redis that is away is asked: a call that was granted in a lost reply is found so."""


class Bringing:
    """The door beside the tube `requests_flow`. One per process."""

    def __init__(self, limits: Limits, runner: CallRunner, tasks: Tasks, slots: CallSlots) -> None:
        self._limits, self._runner = limits, runner
        self._tasks, self._slots = tasks, slots
        self._waiting: dict[str, TrackingRequest] = {}
        self._full: dict[Line, float] = {}
        """Lines that were full, and until when that is believed."""
        self._bringing = 0

    def bring(self, wishes: Iterable[Wish]) -> None:
        """Ask for calls, in this order, without waiting for that."""
        for request, key in wishes:
            if len(self._waiting) >= WAITING_MOST:
                break
            self._waiting[key] = request
        while self._bringing < min(AT_ONCE, len(self._waiting)):
            self._bringing += 1
            self._tasks.start(self._run())

    async def _run(self) -> None:
        try:
            while self._waiting:
                key = next(iter(self._waiting))
                await self._admit(self._waiting.pop(key), key)
        finally:
            self._bringing -= 1

    async def _admit(self, request: TrackingRequest, key: str) -> None:
        call_id, line = next(self._limits.ids), line_of(request)
        if time.monotonic() < self._full.get(line, 0.0):
            return
        full = self._slots.reserve(1, line) <= 0
        until = time.monotonic() + TRIED_SECONDS
        try:
            admission = await keep_trying(
                lambda: self._limits.admit(call_id, request, key, full=full), until
            )
            match admission:
                case Granted(call):
                    self._slots.transfer(self._tasks.start(self._runner.run([call])))
                case Parked(_, put_drain, ask_again):
                    duty = TakeResult(ask_again=ask_again, put_drain=put_drain)
                    await self._runner.apply(line, duty)
                case Full():
                    self._full[line] = time.monotonic() + FULL_SECONDS
                case Dying(call):
                    await self._runner.give_up(call)
        except AWAY:
            return
        except LimitsBroken as error:
            emit_unexpected(error, slug=request.slug)
        finally:
            self._slots.give_back()
