"""One worker process: built as `service.worker.wiring` builds it, on doubles."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from limits.admin.snapshot import LineSnapshots
from limits.admin.statistics import Tallies
from limits.archive import ToArchive
from limits.connect import open_redis
from limits.ends import EndStream
from limits.jobs import Defects
from limits.pipeline import unconfirmed
from limits.rules import unchanged
from limits.server import RedisAddress
from limits.workers import Planners, WorkerInfo, is_known
from service.config import schema
from service.config.schema import delivery_lease_seconds
from service.observe.background import Background
from service.worker.deliveries.keeper import PERIOD_SECONDS, Bounds, Keeper
from service.worker.deliveries.lines import ServiceLines
from service.worker.deliveries.operation_ends import Drains, OperationEnds
from service.worker.deliveries.subscriptions import Subscriptions, announce
from service.worker.flow.tasks import keep_trying
from service.worker.preflight.judgement import Finding
from service.worker.upkeep.archiver import Archiver, Ears, Telling
from service.worker.wiring.connect import Hooked, Parts, _limiter, _policy, _read_rules
from service.worker.wiring.lines import AllLines, CourierLines, KindLines
from service.worker.wiring.worker import assemble
from simulated.destinations import Destinations
from simulated.exchange import Surroundings
from simulated.hooks import KEYS, TIMEOUT_SECONDS
from simulated.intake import SimulatedPutter, Tubes
from simulated.mongodb import SimulatedStore
from simulated.plan import Plan
from simulated.together import RulesOfGroups
from tracking.errors import MalformedJob
from tracking.line import DELIVERY
from tracking.request import Slug

GRACE_SECONDS = 2.0
BEFORE_AN_ATTEMPT = 2.0
"""At least, for what MongoDB is asked first: an attempt is sent a second late at most."""


class NoServices:
    """Stands in for `service.worker.wiring.webhooks.Webhooks`, and for what a worker knows of
    services: there are none."""

    outbox = work = None
    longest_seconds = 0.0

    def __init__(self, *_: object) -> None:
        self.ends = self.intake = self

    def join(self, *_: object) -> None:
        """Bring nothing in."""

    async def refused(self, *_: object) -> None:
        """Have nobody hear of it."""

    async def take(self, *_: object) -> None:
        """Take nothing: no door puts anything."""


class SimulatedRegistry:
    """As much of `couriers.registry.Registry` as the wiring asks for."""

    def __init__(self, slugs: Collection[str]) -> None:
        self.slugs = tuple(map(Slug, slugs))

    def named(self, text: str) -> tuple[Slug, str]:
        if text not in self.slugs:
            raise MalformedJob("unknown_slug", text)
        return Slug(text), ""

    def settings(self, _: Slug) -> schema.Courier:
        return schema.Courier()


def config_for(plan: Plan) -> schema.Config:
    """The settings of one world."""
    slugs = {
        each.slug: schema.SlugLimits(
            concurrent=each.concurrent, per_second=each.per_second, max_waiting=each.max_waiting
        )
        for each in plan.slugs
    }
    webhooks = schema.Webhooks(keys=KEYS, timeout_seconds=TIMEOUT_SECONDS)
    return schema.Config(
        worker=schema.Worker(concurrency=plan.concurrency, grace_seconds=GRACE_SECONDS),
        limits=schema.Limits(
            call_timeout_seconds=plan.call_timeout, lease_seconds=plan.lease, slugs=slugs
        ),
        webhooks=webhooks if plan.services else schema.Webhooks(),
        retry=schema.Retry(
            attempts=plan.attempts, first_seconds=1.0, cap_seconds=20.0, deaths=plan.deaths
        ),
    )


def lease_of_deliveries(plan: Plan) -> float:
    """For how long a call of a service's line is held, but for what comes before its attempt."""
    lease = delivery_lease_seconds(config_for(plan), TIMEOUT_SECONDS)
    return lease - BEFORE_AN_ATTEMPT


def look_after(parts: Parts, background: Background) -> None:
    """Archive, and keep deliveries as their services are; workers do here what a door does."""
    store, redis, known = parts.store, parts.hooked.redis, parts.hooked.subscriptions
    ends = OperationEnds(store, known, Drains(parts.putter.put_drain).ask)  # type: ignore[arg-type]
    ears: Any = Ears(EndStream(redis), _nobody_listens)
    archiver = Archiver(ToArchive(unconfirmed(redis), parts.who.host), store, Telling(ends, ears))
    keeper = Keeper(store, Bounds(), partial(announce, store, redis))
    background.start("archiver", archiver.run)
    works = partial(getattr, archiver, "works")
    background.keep_looking("held deliveries", keeper.look, PERIOD_SECONDS, works)


async def _nobody_listens() -> bool:
    """An end is looked for every few seconds, and by no blocking read."""
    return False


async def _all_is_well() -> list[Finding]:
    return []


class Servers(NamedTuple):
    """The servers of a world, and the ways to them of one process."""

    tubes: Tubes
    store: SimulatedStore
    destinations: Destinations


async def run_worker(
    plan: Plan, servers: Servers, stop: asyncio.Event, around: Surroundings
) -> None:
    """Live until `stop`: connect, take jobs, hand back what is held."""
    config = config_for(plan)
    redis, store = open_redis(RedisAddress()), servers.store
    who = WorkerInfo(around.running().name, 1, "", around.loop.now)
    registry: Any = SimulatedRegistry([each.slug for each in plan.slugs])
    known: Any = Subscriptions(store) if plan.services else NoServices()  # type: ignore[arg-type]
    services = [KindLines(DELIVERY, ServiceLines(config, known))] if plan.services else []
    lines = AllLines(CourierLines(config, registry), services)
    read = partial(_read_rules, store, known) if plan.services else unchanged  # type: ignore[arg-type]
    book = RulesOfGroups(lines.rules_of, plan, read)
    policy = replace(_policy(config, who, lines), mark_of=lambda _: "")
    limiter = _limiter(config, redis, policy, book, known)
    if plan.services:
        await keep_trying(known.learn)
    await keep_trying(lambda: limiter.start(lines.known() if plan.services else ()))
    hooked: Any = Hooked(known, servers.destinations, redis, book.learn)  # type: ignore[arg-type]
    without_http: Any = None
    putter: Any = SimulatedPutter(servers.tubes)
    defects = Defects(redis, plan.deaths)
    parts = Parts(
        registry,
        lines,
        (),
        hooked,
        limiter,
        LineSnapshots(redis, book.rules_of, book),
        Planners(redis, who.host),
        store,  # type: ignore[arg-type]
        without_http,
        putter,
        b"",
        who,
        defects,
        Tallies(redis),
        partial(is_known, redis),
        _all_is_well,
    )
    worker = assemble(config, parts)
    if plan.services:
        look_after(parts, worker.background)
    for intake in worker.intakes[:2]:  # nobody puts what the third one takes
        intake.start()
    await stop.wait()
    handed_back = await worker.stop(config.worker.grace_seconds)
    around.trace.repair("handed back at a stop", handed_back)
    for intake in worker.intakes:
        await intake.close()
    await limiter.close()
    await redis.aclose()
