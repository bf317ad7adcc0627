"""The life of the process that archives and purges: start, run until a signal, stop.

It says nothing of servers that are away: the workers beside it do.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets

from couriers.registry import Registry
from limits.archive import ToArchive
from limits.connect import open_redis
from service.config.handover import courier_settings, redis_address
from service.config.per_slug import silence_seconds
from service.config.schema import Config
from service.observe.background import Background
from service.results.connection import Store
from service.results.names import names_of
from service.upkeep.archiver import Archiver
from service.upkeep.lost_records import LostRecords
from service.upkeep.purge import Purge
from service.wiring.process import UNFIT, Beat, asked_or_unfit, keep_beating, on_signals


def run(config: Config, beat: Beat) -> int:
    """Archive until SIGTERM or SIGINT; returns the exit code, 1: a background task keeps ending."""
    return asyncio.run(live(config, beat))


async def live(config: Config, beat: Beat) -> int:
    """As `run`, in an event loop."""
    stopped = on_signals()
    async with contextlib.AsyncExitStack() as closing:
        closing.callback(asyncio.create_task(keep_beating(beat, silence_seconds(config))).cancel)
        redis = open_redis(redis_address(config))
        closing.push_async_callback(redis.aclose)
        store = Store(names_of(config))
        closing.push_async_callback(store.close)
        background = Background()
        closing.push_async_callback(background.stop)
        archiver = Archiver(
            ToArchive(redis, secrets.token_hex(8)), store, mirrored=config.redis.mirror
        )
        background.start("archiver", archiver.run)
        servers = config.beanstalkd.servers
        purge = Purge(store, names_of(config), servers, lambda: archiver.works)
        background.start("purge", purge.run)
        couriers = Registry(courier_settings(config).values())
        lost = LostRecords(store, names_of(config), servers, couriers.named, lambda: archiver.works)
        background.start("lost records", lost.run)
        await asked_or_unfit(asyncio.create_task(stopped.wait()), background)
        background.retire()
    return UNFIT if background.unfit.is_set() else 0
