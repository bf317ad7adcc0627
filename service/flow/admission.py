"""Admission: the admitter asks Redis for a call, and waits while no request can be taken.

Two servers may keep a request waiting, with its job reserved and touched: MongoDB, while no answer
could be stored, and a full Redis. One waiting task asks the full Redis once a second; when its
request is taken the others follow one by one.
"""

from __future__ import annotations

import asyncio
import time

from service.flow.tasks import CallSlots, keep_trying
from service.observe.events import Event
from service.observe.log import emit
from service.ports import Limits, Results
from tracking.call import Admission, Granted, NoMemory
from tracking.request import TrackingRequest

ASK_AGAIN_SECONDS = 1.0
"""How soon a full Redis is asked again."""

SAY_AGAIN_SECONDS = 60.0
"""How often a Redis that stays full, or is full again, is logged."""


class Admitter:
    """Admits requests, one at a time while Redis is full. One per process."""

    def __init__(self, limits: Limits, results: Results, slots: CallSlots) -> None:
        self._limits, self._results = limits, results
        self._slots = slots
        # One waiting task polls a full Redis; the others queue behind this lock.
        self._turns = asyncio.Lock()
        self._said = -SAY_AGAIN_SECONDS

    async def admit(self, request: TrackingRequest, job_key: str) -> Admission:
        """Ask for a call. This task holds a slot for it only if it is granted."""
        # One id for all tries: a call that was granted in a lost reply is granted again.
        call_id = next(self._limits.ids)
        admission = await self._ask(call_id, request, job_key)
        if not isinstance(admission, NoMemory):
            return admission
        async with self._turns:
            while isinstance(admission := await self._ask(call_id, request, job_key), NoMemory):
                self._say(admission)
                await asyncio.sleep(ASK_AGAIN_SECONDS)
        return admission

    async def _ask(
        self, call_id: str, request: TrackingRequest, job_key: str
    ) -> Admission | NoMemory:
        await self._results.available()
        max_age = self._limits.max_age if request.max_age is None else request.max_age
        kept = None
        if max_age > self._limits.remembers_seconds:
            kept = await keep_trying(lambda: self._results.fresh(request, max_age))
        full = self._slots.reserve(1) <= 0
        admission = await keep_trying(
            lambda: self._limits.admit(call_id, request, job_key, kept, full=full)
        )
        if not isinstance(admission, Granted):
            self._slots.give_back()
        return admission

    def _say(self, refusal: NoMemory) -> None:
        if (now := time.monotonic()) - self._said >= SAY_AGAIN_SECONDS:
            self._said = now
            emit(Event.NO_MEMORY, server="redis", fix=refusal.fix)
