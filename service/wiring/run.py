"""The life of one worker process: start, run until a signal, stop in good order."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Literal

from msgspec import structs

from service import REFUSED
from service.config.call_budget import CallBudget, call_budget, raise_open_files
from service.config.per_slug import silence_seconds
from service.config.schema import Config
from service.observe.collector import calm_the_collector
from service.observe.events import Event
from service.observe.log import emit
from service.preflight.judgement import Refused
from service.upkeep.own_core import OwnCore
from service.wiring.assemble import Worker, assemble
from service.wiring.connect import connect
from service.wiring.lines import Works
from service.wiring.process import UNFIT, Beat, asked_or_unfit, keep_beating, on_signals


def run(config: Config, beat: Beat, others: Works = ()) -> int:
    """Run one worker process until SIGTERM or SIGINT; returns its exit code.

    `beat` is called every second as long as the event loop turns, and once with `works`.
    `others`: what it does besides asking couriers.
    1: a background task keeps ending. 2: a server was refused because it can lose acknowledged
    work.
    """
    return asyncio.run(_run(config, beat, others))


async def _run(config: Config, beat: Beat, others: Works) -> int:
    config, budget = _fitting(config)
    stopped = on_signals()
    async with contextlib.AsyncExitStack() as closing:
        closing.callback(asyncio.create_task(keep_beating(beat, silence_seconds(config))).cancel)
        starting = asyncio.create_task(_start(config, closing, others))
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return 0
        try:
            worker = starting.result()
        except Refused as error:
            for each in error.findings:
                emit(Event.REFUSED_START, server=each.server, error=each.what, fix=each.fix)
            return REFUSED
        calm_the_collector()
        emit(
            Event.STARTED,
            slugs=len(worker.slugs),
            concurrency=budget.calls,
            bound_by=budget.bound_by,
        )
        beat(works=True)
        return await work(worker, stopping, config.worker.grace_seconds)


async def work(worker: Worker, stopping: asyncio.Task[Literal[True]], grace: float) -> int:
    """Work until a signal, or until this process is unfit; then stop in good order."""
    await asked_or_unfit(stopping, worker.background)
    emit(Event.STOPPING)
    handed_back = await worker.stop(grace)
    emit(Event.STOPPED, handed_back=handed_back)
    return UNFIT if worker.background.unfit.is_set() else 0


def _fitting(config: Config) -> tuple[Config, CallBudget]:
    """Lower the concurrency to what this machine carries, with as many open files as it allows."""
    raise_open_files(config.worker)
    budget = call_budget(config.worker)
    worker = structs.replace(config.worker, concurrency=budget.calls)
    return structs.replace(config, worker=worker), budget


async def _start(config: Config, closing: contextlib.AsyncExitStack, others: Works) -> Worker:
    """Connect to everything, build the flow, and begin to take jobs."""
    worker = assemble(config, await connect(config, closing, others))
    worker.background.start("own core", OwnCore().run)
    closing.push_async_callback(worker.requests.close)
    closing.push_async_callback(worker.drains.close)
    worker.requests.start()
    worker.drains.start()
    return worker
