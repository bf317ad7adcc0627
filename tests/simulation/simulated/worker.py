"""One worker process: built as `service.worker.wiring` builds it, on doubles."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Any

from limits.admin.snapshot import LineSnapshots
from limits.admin.statistics import Tallies
from limits.connect import open_redis
from limits.jobs import Defects
from limits.server import RedisAddress
from limits.workers import Planners, WorkerInfo, is_known
from service.config import schema
from service.worker.flow.tasks import keep_trying
from service.worker.preflight.judgement import Finding
from service.worker.wiring.connect import Parts, _limiter, _policy
from service.worker.wiring.lines import AllLines, CourierLines
from service.worker.wiring.worker import assemble
from simulated.exchange import Surroundings
from simulated.intake import SimulatedPutter, Tubes
from simulated.mongodb import SimulatedStore
from simulated.plan import Plan
from simulated.together import RulesOfGroups
from tracking.errors import MalformedJob
from tracking.request import Slug

GRACE_SECONDS = 2.0


class NoServices:
    """Stands in for `service.worker.wiring.webhooks.Webhooks`, and for what a worker knows of
    services: there are none."""

    outbox = work = None
    longest_seconds = 0.0

    def __init__(self, *_: object) -> None:
        self.ends = self

    def join(self, *_: object) -> None:
        """Bring nothing in."""

    async def refused(self, *_: object) -> None:
        """Have nobody hear of it."""


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
    return schema.Config(
        worker=schema.Worker(concurrency=plan.concurrency, grace_seconds=GRACE_SECONDS),
        limits=schema.Limits(
            call_timeout_seconds=plan.call_timeout, lease_seconds=plan.lease, slugs=slugs
        ),
        retry=schema.Retry(
            attempts=plan.attempts, first_seconds=1.0, cap_seconds=20.0, deaths=plan.deaths
        ),
    )


async def _all_is_well() -> list[Finding]:
    return []


async def run_worker(
    plan: Plan, tubes: Tubes, store: SimulatedStore, stop: asyncio.Event, around: Surroundings
) -> None:
    """Live until `stop`: connect, take jobs, hand back what is held."""
    config = config_for(plan)
    redis = open_redis(RedisAddress())
    who = WorkerInfo(around.running().name, 1, "", around.loop.now)
    registry: Any = SimulatedRegistry([each.slug for each in plan.slugs])
    lines = AllLines(CourierLines(config, registry))
    book = RulesOfGroups(lines.rules_of, plan)
    policy = replace(_policy(config, who, lines), mark_of=lambda _: "")
    none: Any = NoServices()
    limiter = _limiter(config, redis, policy, book, none)
    await keep_trying(limiter.start)
    without_http: Any = None
    putter: Any = SimulatedPutter(tubes)
    defects = Defects(redis, plan.deaths)
    parts = Parts(
        registry,
        lines,
        (),
        none,
        limiter,
        LineSnapshots(redis, book.rules_of, book),
        Planners(redis, who.host),
        store,
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
    worker.requests.start()
    worker.drains.start()
    await stop.wait()
    handed_back = await worker.stop(config.worker.grace_seconds)
    around.trace.repair("handed back at a stop", handed_back)
    await worker.requests.close()
    await worker.drains.close()
    await limiter.close()
    await redis.aclose()
