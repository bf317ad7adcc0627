"""A worker process: built of what is connected, run until a signal, stopped in good order."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from msgspec import structs

from couriers.http.fetch import Tracker
from limits.connect import TIMEOUT_SECONDS
from service import REFUSED
from service.config.machine import CallBudget, call_budget, calm_the_collector, raise_open_files
from service.config.schema import Config, recheck_for, silence_seconds
from service.observe.background import Background
from service.observe.events import Event
from service.observe.log import emit
from service.ports import Job, Work
from service.worker.deliveries.foreign_request import WEBHOOKS_TUBE
from service.worker.deliveries.relay_intake import ROOM
from service.worker.flow.bring import Bringing
from service.worker.flow.call import CallRunner, Stores, WorkOf
from service.worker.flow.drain import Drainer
from service.worker.flow.group import GroupRunner
from service.worker.flow.handle import Decode, Handler
from service.worker.flow.receive import Receiver, TakeForeign
from service.worker.flow.tasks import CallSlots, Tasks
from service.worker.flow.tracking_work import Asks, RetryRules, TrackingWork
from service.worker.preflight.judgement import UnsafeServer
from service.worker.preflight.survey import watch
from service.worker.results.dead import Dead
from service.worker.results.operations import Mirror
from service.worker.results.statistics import CodeCounts
from service.worker.results.trackings import Trackings
from service.worker.tubes.envelope import (
    DRAINS_TUBE,
    REQUESTS_TUBE,
    encode_request,
    line_in,
    request_in,
)
from service.worker.tubes.held import HELD_MOST, ReservedJob, Source
from service.worker.tubes.intake import Intake
from service.worker.tubes.payload import Resolve
from service.worker.upkeep.own_core import OwnCore
from service.worker.upkeep.recheck import PERIOD_SECONDS, Recheck
from service.worker.upkeep.sweeper import Sweeper
from service.worker.upkeep.tallies import Tallying
from service.worker.wiring.connect import Parts, connect, warn_of
from service.worker.wiring.failpoints import FailPoints
from service.worker.wiring.lines import LINES_MOST, MirrorOfOperations, Works
from service.worker.wiring.process import UNFIT, Beat, asked_or_unfit, keep_beating, on_signals
from service.worker.wiring.webhooks import Webhooks
from tracking.line import DELIVERY, TRACKING, Line
from tracking.request import Slug, TrackingRequest

JOBS_ADMITTED = 400
"""Jobs between a reserve and their grant or delete: with fewer the batches get small, and more only
wait for each other. A job whose call runs is none of them."""

DRAIN_JOBS = 3_000
"""As many slugs a process may drain at once: their jobs stay reserved meanwhile."""

LAST_TAKE_SECONDS = TIMEOUT_SECONDS
"""What Redis grants while we stop listening would be held until its lease ends. So we listen within
the grace for as long as Redis may take to answer; beyond that it is away, and grants nothing."""

LEAST_LAST_TAKE_SECONDS = 1.0
"""Where the grace is shorter: Redis answers in milliseconds mostly."""

LAST_ANSWERS_SECONDS = 2.0
"""Beyond the grace, for the answers to deletes. A job whose delete is not answered may come again,
and its operation is known to have ended. The parent kills 5 s after the grace: the rest of these is
for what comes before and after."""

LAST_COUNTS_SECONDS = 1.0
"""For counts, which are for people: those of the last seconds may be missing."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A running worker: what takes, what runs, and how it stops in good order."""

    slugs: tuple[Slug, ...]
    intakes: tuple[Intake, ...]
    drainer: Drainer
    tasks: Tasks
    slots: CallSlots
    codes: CodeCounts
    tallying: Tallying
    draining: asyncio.Task[None]
    background: Background

    async def stop(self, grace_seconds: float) -> int:
        """Take nothing more, finish or hand back. Returns how many calls were handed back.

        The grace begins now. What comes after it has a bound of its own, but for two waits, which
        the parent's kill ends, STOP_MARGIN_SECONDS after the grace or at a second signal, or the
        kernel where no parent is left: a call is handed back once Redis answers, and a beanstalkd
        that is slow, but never silent for 5 s, is waited for until it has answered what was asked
        before the stop.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + grace_seconds
        await asyncio.gather(*(each.stop() for each in self.intakes))
        self.slots.stop()
        self.background.retire()
        self.drainer.retire()
        listening = max(LEAST_LAST_TAKE_SECONDS, min(LAST_TAKE_SECONDS, ends - loop.time()))
        await asyncio.wait([self.draining], timeout=listening)
        await self.background.stop()
        await self.drainer.hand_over()
        handed_back = await self.tasks.stop(ends - loop.time())
        # A claim that Redis answered meanwhile left its line, and its drain job, with this process.
        await self.drainer.hand_over()
        answers = (each.all_answered() for each in self.intakes)
        await _within(max(LAST_ANSWERS_SECONDS, ends - loop.time()), *answers)
        await _within(LAST_COUNTS_SECONDS, self.codes.write(), self.tallying.write())
        return handed_back


async def _within(seconds: float, *waits: Awaitable[None]) -> None:
    """Wait for all of them, but for no longer."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*waits)


def assemble(config: Config, parts: Parts) -> Worker:
    """Build the flow and start what runs in the background; jobs are not taken yet."""
    points = FailPoints.from_environment()
    recheck_of = functools.cache(functools.partial(recheck_for, config))
    hooks = Webhooks(config, parts, points)
    results = Trackings(parts.store, recheck_of, hooks.outbox)
    slots = CallSlots(config.worker.concurrency, results, parts.lines.yields)
    codes, tallying = CodeCounts(parts.store), Tallying(parts.tallies, parts.store)
    stores, tasks = _stores(config, parts, results, tallying, points), Tasks()
    stores = dataclasses.replace(stores, tells=points.port("tells", hooks.ends))
    tracking = _tracking(config, parts, results, codes)
    works: dict[str, Work] = {DELIVERY.name: hooks.work, TRACKING.name: tracking}
    runner = _runner(_work_of(parts, works, points), stores, tasks, slots)
    drainer = Drainer(stores.limits, slots, runner)
    parts.store.returned = slots.waiting.wake
    resolve = parts.registry.named
    decode = points.step("requests.decode", _decode_of(parts.others, resolve))
    handler = Handler(decode, stores, slots, runner)
    read_drain = functools.partial(line_in, resolve=resolve, knows=parts.lines.knows)
    receiver = Receiver(handler, drainer, tasks, points.step("wait_list.decode", read_drain))
    background = _unasked(parts, codes, tallying)
    background.start("sweeper", Sweeper(stores.limits, runner, parts.lines).run)
    hooks.join(Bringing(stores.limits, runner, tasks, slots), drainer, background)
    if rechecked := frozenset(slug for slug in parts.registry.slugs if recheck_of(slug).enabled):
        recheck = Recheck(parts.store, parts.putter, rechecked, parts.standings, parts.planners)
        background.keep_looking("re-checks", recheck.look, PERIOD_SECONDS)
    return Worker(
        slugs=parts.registry.slugs,
        intakes=_intakes(config, parts, points, receiver, hooks.intake.take),
        drainer=drainer,
        tasks=tasks,
        slots=slots,
        codes=codes,
        tallying=tallying,
        draining=background.start("drainer", drainer.run),
        background=background,
    )


def _unasked(parts: Parts, codes: CodeCounts, tallying: Tallying) -> Background:
    background = Background(parts.who.report)
    background.start("code counts", codes.run)
    background.start("servers", functools.partial(watch, parts.look, warn_of))
    background.start("statistics", tallying.run)
    return background


def _runner(work_of: WorkOf, stores: Stores, tasks: Tasks, slots: CallSlots) -> CallRunner:
    runner = CallRunner(work_of, stores, tasks, slots)
    GroupRunner(runner, work_of, stores.limits, slots)
    return runner


def _tracking(config: Config, parts: Parts, results: Trackings, codes: CodeCounts) -> Work:
    retry = config.retry
    rules = RetryRules(retry.attempts, retry.first_seconds, retry.cap_seconds, retry.give_up_days)
    tracker = Tracker(parts.registry, parts.http)
    asks = Asks(tracker.track, tracker.track_many)
    return TrackingWork(asks, results, codes, rules, encode_request)


def _work_of(parts: Parts, known: dict[str, Work], points: FailPoints) -> WorkOf:
    lines, named = parts.lines, {each.kind.name: each.work for each in parts.others} | known
    works = {name: points.port("work", work) for name, work in named.items()}

    @functools.lru_cache(LINES_MOST)  # every call asks several times, and a line keeps its kind
    def work_of(line: Line) -> Work:
        kind = lines.kind_of(line)
        if kind is None:
            raise LookupError(f"a call was granted on {line}, a line of no kind that is known here")
        return works[kind.name]

    return work_of


def _decode_of(others: Works, resolve: Resolve) -> Decode:
    """Choose what reads a job of the tube `requests_flow`, whatever is to be done on its line."""
    read_tracking = functools.partial(request_in, resolve=resolve)
    if not others:
        return read_tracking

    async def decode(job: Job) -> TrackingRequest:
        for each in others:
            if (request := each.read(job)) is not None:
                return request
        return await read_tracking(job)

    return decode


def _stores(
    config: Config, parts: Parts, results: Trackings, tallying: Tallying, points: FailPoints
) -> Stores:
    limits = points.port("limits", parts.limiter)
    dead, drains = points.port("dead", Dead(parts.store)), points.port("drains", parts.putter)
    mirror = None
    if config.redis.mirror:
        mirror = MirrorOfOperations(Mirror(parts.store, encode_request), parts.lines)
    return Stores(limits, results, dead, parts.defects, tallying, drains, parts.knows, mirror)


def _intakes(
    config: Config, parts: Parts, points: FailPoints, receiver: Receiver, take: TakeForeign
) -> tuple[Intake, ...]:
    on_foreign = functools.partial(receiver.on_foreign, take)
    tubes = (
        (REQUESTS_TUBE, JOBS_ADMITTED, points.jobs("requests", receiver.on_requests)),
        (DRAINS_TUBE, DRAIN_JOBS, points.jobs("wait_list", receiver.on_drains)),
        (WEBHOOKS_TUBE, ROOM, points.jobs("webhooks", on_foreign)),
    )
    return tuple(_intake(config, parts, *each) for each in tubes)


def _intake(
    config: Config, parts: Parts, tube: str, room: int, on_jobs: Callable[[list[ReservedJob]], None]
) -> Intake:
    # Jobs of running calls stay reserved too; one connection more waits for the next job.
    connections = math.ceil((room + config.worker.concurrency) / HELD_MOST) + 1
    sources = [
        Source(server, tube, connections, secret=parts.secret)
        for server in config.beanstalkd.servers
    ]
    return Intake(sources, room, on_jobs)


def run(config: Config, beat: Beat, others: Works = ()) -> int:
    """Run one worker process until SIGTERM or SIGINT; returns its exit code.

    `beat` is called as long as the event loop turns, and once with `works`.
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
        except UnsafeServer as error:
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
    for intake in worker.intakes:
        closing.push_async_callback(intake.close)
        intake.start()
    return worker
