"""Asks for a call on behalf of one request, and waits while no request can be taken.

Two servers may keep it waiting, with its job reserved and touched: MongoDB, while no answer could
be stored, and a Redis that is full. One of those that wait asks the full Redis once a second; when
that one is taken the others follow one by one.
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
"""A Redis that stays full, or is so time and again, is logged so often."""


class Admitter:
    """One per process."""

    def __init__(self, limits: Limits, results: Results, slots: CallSlots) -> None:
        self._limits, self._results = limits, results
        self._slots = slots
        # Of those that a full Redis refused one asks at a time, in the order in which they came.
        self._turns = asyncio.Lock()
        self._said = -SAY_AGAIN_SECONDS

    async def admit(self, request: TrackingRequest, job_key: str) -> Admission:
        """Ask for a call. This task has a place for it only if it is granted."""
        # One id for all tries: what was granted by one whose reply was lost is granted again.
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
