"""Parts of a worker in which a defect comes up: in the background now and then, over some jobs."""

from __future__ import annotations

import asyncio
from typing import Any

from service.ports import Job
from service.worker.flow.drain import Drainer
from service.worker.tubes.envelope import request_in
from service.worker.tubes.payload import Resolve
from service.worker.upkeep.sweeper import Sweeper
from simulated.chance import Chance
from tracking.line import Line
from tracking.request import TrackingRequest

KIND = "background task breaks"
STUMBLED_OVER = "STUMBLE"
"""Begins the numbers of jobs over which a defect comes up whenever one is read."""

DEFECT = "a defect of the module"


class Idle:
    """Tested on real servers: here nothing hangs on it, and the worlds of old seeds stay."""

    def __init__(self, *_: object) -> None: ...

    async def run(self) -> None:
        await asyncio.Event().wait()


class IdleTallying(Idle):
    def count(self) -> None: ...

    async def write(self) -> None: ...


def stumbling(chance: Chance) -> dict[str, Any]:
    """The parts, for `service.worker.wiring.worker`."""

    def stumble(where: str) -> None:
        if chance.strikes(KIND, detail=where):
            raise KeyError(DEFECT)

    class StumblingSweeper(Sweeper):
        async def sweep(self) -> None:
            stumble("sweeper")
            await super().sweep()

    class StumblingDrainer(Drainer):
        async def run(self) -> None:
            stumble("drainer")
            await super().run()

        async def _ask_for(self, line: Line, *, has_slot: bool) -> None:
            stumble(f"drainer, {line}")
            await super()._ask_for(line, has_slot=has_slot)

    async def stumbling_request_in(job: Job, resolve: Resolve) -> TrackingRequest:
        if STUMBLED_OVER.encode() in job.body:
            raise KeyError(DEFECT)
        return await request_in(job, resolve)

    return {
        "Tallying": IdleTallying,
        "request_in": stumbling_request_in,
        "Sweeper": StumblingSweeper,
        "Drainer": StumblingDrainer,
    }
