"""The flow, built of what is connected."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from couriers.tracker import Tracker
from service.config.per_slug import recheck_for
from service.config.schema import Config
from service.flow.call import Asker, Spare, Stores, WorkOf
from service.flow.call_room import CallRoom
from service.flow.dispatch import Dispatcher
from service.flow.drain import Drainer
from service.flow.failure_policy import RetryRules
from service.flow.handle import Handler
from service.flow.receive import Receiver
from service.flow.tasks import Tasks
from service.flow.tracking_work import TrackingWork
from service.observe.background import Background
from service.observe.failpoints import FailPoints
from service.ports import Work
from service.preflight.survey import watch
from service.results.dead import Dead
from service.results.operations import Mirror
from service.results.statistics import CodeCounts
from service.results.trackings import Trackings
from service.tubes.client import HELD_MOST
from service.tubes.envelope import DRAINS_TUBE, REQUESTS_TUBE, encode_request
from service.tubes.intake import Intake
from service.tubes.job import ReservedJob, line_in, request_in
from service.tubes.pool import Source
from service.upkeep.recheck import Recheck
from service.upkeep.sweeper import Sweeper
from service.upkeep.tallies import Tallying
from service.wiring.connect import Parts, warn_of
from tracking.line import TRACKING, Line, kind_of
from tracking.request import Slug

JOBS_ADMITTED = 400
"""Jobs between a reserve and their grant or delete: with fewer the batches get small, and more only
wait for each other. A job whose call runs is none of them."""

DRAIN_JOBS = 3_000
"""As many slugs a process may drain at once: their jobs stay reserved meanwhile."""

LAST_TAKE_SECONDS = 1.0
"""What Redis grants while we stop listening would be held until its lease ends. Redis answers in
milliseconds, or is away and grants nothing."""

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
    requests: Intake
    drains: Intake
    drainer: Drainer
    dispatcher: Dispatcher
    tasks: Tasks
    room: CallRoom
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
        await asyncio.gather(self.requests.stop(), self.drains.stop())
        self.room.stop()
        self.background.retire()
        self.drainer.retire()
        await asyncio.wait([self.draining], timeout=LAST_TAKE_SECONDS)
        await self.background.stop()
        await self.drainer.hand_over(self.dispatcher)
        handed_back = await self.tasks.stop(ends - loop.time())
        # A claim that Redis answered meanwhile left its line, and its drain job, with this process.
        await self.drainer.hand_over(self.dispatcher)
        answers = (self.requests.all_answered(), self.drains.all_answered())
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
    reach = FailPoints.from_environment().reach
    recheck_of = functools.cache(functools.partial(recheck_for, config))
    results = Trackings(parts.store, recheck_of)
    tasks, room = Tasks(), CallRoom(config.worker.concurrency, lambda: results.is_available)
    codes, tallying = CodeCounts(parts.store), Tallying(parts.tallies, parts.store)
    dead, knows, mirror = Dead(parts.store), parts.knows, _mirror(config, parts)
    stores = Stores(parts.limiter, results, dead, parts.defects, tallying, knows, mirror)
    asker = Asker(_works(config, parts, results, codes), stores, Spare(room, reach))
    drainer = Drainer(parts.limiter, room, reach)
    parts.store.returned = room.waiting.wake
    dispatcher = Dispatcher(asker, tasks, parts.putter, drainer.look_again, reach)
    decode = functools.partial(request_in, resolve=parts.registry.named)
    handler = Handler(decode, stores, asker, dispatcher, reach)
    decode_drain = functools.partial(line_in, resolve=parts.registry.named)
    receiver = Receiver(handler, drainer, dispatcher, tasks, decode_drain)
    sweeper = Sweeper(parts.limiter, dispatcher, parts.registry.slugs, reach)
    background = Background(parts.who.report)
    background.start("sweeper", sweeper.run)
    background.start("code counts", codes.run)
    background.start("servers", functools.partial(watch, parts.look, warn_of))
    background.start("statistics", tallying.run)
    if rechecked := frozenset(slug for slug in parts.registry.slugs if recheck_of(slug).enabled):
        recheck = Recheck(parts.store, parts.putter, rechecked, parts.standings)
        background.start("re-checks", recheck.run)
    return Worker(
        slugs=parts.registry.slugs,
        requests=_intake(config, parts, REQUESTS_TUBE, JOBS_ADMITTED, receiver.on_requests),
        drains=_intake(config, parts, DRAINS_TUBE, DRAIN_JOBS, receiver.on_drains),
        drainer=drainer,
        dispatcher=dispatcher,
        tasks=tasks,
        room=room,
        codes=codes,
        tallying=tallying,
        draining=background.start("drainer", functools.partial(drainer.run, dispatcher)),
        background=background,
    )


def _works(config: Config, parts: Parts, results: Trackings, codes: CodeCounts) -> WorkOf:
    track = Tracker(parts.registry, parts.http).track
    tracking = TrackingWork(track, results, codes, _retry(config), encode_request)
    # Every call asks several times, and a line keeps its kind.
    return functools.cache(functools.partial(_work_of, {TRACKING.name: tracking}))


def _work_of(works: Mapping[str, Work], line: Line) -> Work:
    kind = kind_of(line)
    if kind is None:
        raise LookupError(f"a call was granted on {line}, a line of no kind that is known here")
    return works[kind.name]


def _mirror(config: Config, parts: Parts) -> Mirror | None:
    return Mirror(parts.store, encode_request) if config.redis.mirror else None


def _retry(config: Config) -> RetryRules:
    retry = config.retry
    return RetryRules(retry.attempts, retry.first_seconds, retry.cap_seconds, retry.give_up_days)


def _intake(
    config: Config,
    parts: Parts,
    tube: str,
    room: int,
    on_jobs: Callable[[list[ReservedJob]], None],
) -> Intake:
    # Jobs of running calls stay reserved too; one connection more waits for the next job.
    connections = math.ceil((room + config.worker.concurrency) / HELD_MOST) + 1
    sources = [Source(server, tube, connections) for server in config.beanstalkd.servers]
    return Intake(sources, room, parts.secret, on_jobs)
