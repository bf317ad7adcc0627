"""The processes that a parent watches: what they share, and the life of the process that archives.

Each gives signs of life, hears signals, and stops where a background task keeps ending. The process
that archives says nothing of servers that are away: the workers beside it do.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
import signal
import time
from typing import TYPE_CHECKING, Literal, Protocol

from redis.asyncio import Redis

from limits.admin.proof import Judge
from limits.archive import ToArchive
from limits.connect import open_redis
from limits.ends import EndStream
from limits.pipeline import Pipeline, unconfirmed
from limits.rules import RuleBook
from service.config.domain import courier_settings, redis_address, rules_for
from service.config.machine import calm_the_collector
from service.config.schema import Config, silence_seconds
from service.observe.background import Background, rest
from service.worker.deliveries.operation_ends import Drains, OperationEnds
from service.worker.deliveries.subscriptions import Subscriptions
from service.worker.results.connection import Store
from service.worker.results.database import names_of
from service.worker.results.limit_changes import read_rules
from service.worker.tubes.payload import Resolve
from service.worker.tubes.put_servers import Putter
from service.worker.upkeep import lost_records, purge
from service.worker.upkeep.archiver import Archiver, Ears, Telling
from service.worker.upkeep.lost_records import LostRecords
from service.worker.upkeep.purge import Purge
from service.worker.wiring.alerting import Asked, start_looking_after
from tracking.request import Slug

if TYPE_CHECKING:
    from couriers.registry import Registry

UNFIT = 1
"""The exit code of a process whose background tasks keep ending."""

BEATS = 3
"""So many in the time after which a silent process is killed: some may be late."""


class Beat(Protocol):
    """A sign of life for the parent; `works`: this process is connected and does its work."""

    def __call__(self, *, works: bool = False) -> None:
        """Give the sign."""


async def keep_beating(beat: Beat, silence: float) -> None:
    """Beat until cancelled; `silence`: seconds after which the parent kills a silent process."""
    while True:
        beat()
        await rest(silence / BEATS)


FIRST_SERVICE_SECONDS = 15.0
"""How often a process that archives looks whether there is a service, as long as there is none: it
would be much of what its idling costs. Nothing is lost: ends are archived in any case, and those
of the first seconds are heard of a little later."""


async def asked_or_unfit(stopping: asyncio.Task[Literal[True]], background: Background) -> None:
    """Return when a signal asks for a stop, or when a background task keeps ending."""
    unfit = asyncio.create_task(background.unfit.wait())
    await asyncio.wait({stopping, unfit}, return_when=asyncio.FIRST_COMPLETED)
    unfit.cancel()


def on_signals() -> asyncio.Event:
    """A signal asks for a stop in good order. Repeated ones change nothing here.

    A service manager signals the whole group, and the parent passes its own on: that is one wish
    told twice. "At once" is the parent's to decide, which kills.
    """
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()

    def stop() -> None:
        stopped.set()
        # Else a signal that finds the loop closing writes lines into the log that are no JSON.
        signal.set_wakeup_fd(-1)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    return stopped


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
        servers = config.beanstalkd.servers
        putter = Putter(servers)
        closing.callback(putter.close)
        steps = unconfirmed(redis)
        to_archive = ToArchive(steps, secrets.token_hex(8))
        services = Subscriptions(store, config.webhooks.timeout_seconds)
        telling = _telling(services, store, redis, putter)
        archiver = Archiver(to_archive, store, telling, mirrored=config.redis.mirror)
        background.start("archiver", archiver.run)
        names, works = names_of(config), lambda: archiver.works
        asked = Asked(store, redis, services, works)
        look = Purge(store, names, servers).look
        background.keep_looking("purge", look, purge.PERIOD_SECONDS, works)
        look = LostRecords(store, names, servers, _names_of_couriers(config)).look
        background.keep_looking("lost records", look, lost_records.PERIOD_SECONDS, works)
        start_looking_after(background, config, asked)
        background.start("judge", _judge(config, steps, store).run)
        calm_the_collector()
        await asked_or_unfit(asyncio.create_task(stopped.wait()), background)
        background.retire()
    return UNFIT if background.unfit.is_set() else 0


def _judge(config: Config, steps: Pipeline, store: Store) -> Judge:
    """Make what judges calls: here, as in a worker it would take from calls."""
    # It asks several times, and must hear the same then.
    plain_of = functools.cache(functools.partial(rules_for, config))
    read = functools.partial(store.on_reader, read_rules, store.limits, store.accounts)
    return Judge(steps, RuleBook(plain_of, read), secrets.token_hex(8), rest)


def _names_of_couriers(config: Config) -> Resolve:
    """Resolve slugs as the workers do; the first one loads every courier's module.

    That is a tenth of this process's start, and hardly ever is a job buried without a record.
    """

    @functools.cache
    def registry() -> Registry:
        from couriers.registry import Registry  # noqa: PLC0415 - as said above

        return Registry(courier_settings(config).values())

    def named(text: str) -> tuple[Slug, str]:
        return registry().named(text)

    return named


def _telling(known: Subscriptions, store: Store, redis: Redis, putter: Putter) -> Telling:
    looked = -FIRST_SERVICE_SECONDS

    async def has_services() -> bool:
        nonlocal looked
        now = time.monotonic()
        if known.all() or now - looked >= FIRST_SERVICE_SECONDS:
            looked = now
            await known.look()
        return bool(known.all())

    ends = OperationEnds(store, known, Drains(putter.put_drain).ask)
    return Telling(ends, Ears(EndStream(redis), has_services))
