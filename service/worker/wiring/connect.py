"""Connections to everything a worker needs, in the order in which it needs them."""

from __future__ import annotations

import asyncio
import functools
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import aiohttp
from redis.asyncio import Redis

from couriers.http.session import open_session
from couriers.registry import Registry
from limits import keys
from limits.admin.accounts import older_workers, part_accounts
from limits.admin.pause import Pauses
from limits.admin.snapshot import LineSnapshots
from limits.admin.statistics import Tallies
from limits.clock import Clock
from limits.connect import open_redis, shared_secret
from limits.epoch import Epoch, Loss, Vet
from limits.failure import redis_down
from limits.jobs import Defects
from limits.limiter import Limiter, Policy
from limits.pipeline import Pipeline, confirmations
from limits.rules import Changes, RuleBook
from limits.workers import Planners, WorkerInfo, is_known
from service import VERSION
from service.config.domain import courier_settings, redis_address
from service.config.machine import kept_below
from service.config.schema import Config, delivery_lease_seconds, limits_for
from service.observe.events import Event
from service.observe.log import emit
from service.worker.deliveries.destination import allowed_of, own_names_of
from service.worker.deliveries.lines import ServiceLines
from service.worker.deliveries.sender import Sender
from service.worker.deliveries.subscriptions import Subscriptions
from service.worker.flow.tasks import keep_trying
from service.worker.preflight.judgement import Finding, Grade, UnsafeServer, insist
from service.worker.preflight.survey import Look, survey, vet_redis
from service.worker.results.connection import Store
from service.worker.results.database import names_of
from service.worker.results.failure import is_lasting, mongodb_down
from service.worker.results.limit_changes import read_rules
from service.worker.tubes.put_servers import Putter
from service.worker.wiring.lines import (
    AllLines,
    CourierLines,
    KindLines,
    Works,
    resume_where_changed,
)
from tracking.errors import ResultsDown, StoreError
from tracking.line import DELIVERY

LOOK_SECONDS = 0.5
"""How often a worker looks for servers that are not up yet."""


@dataclass(frozen=True, slots=True)
class Hooked:
    """What deliveries need. `learn` reads the services again, and limits; raises ResultsDown."""

    subscriptions: Subscriptions
    sender: Sender
    redis: Redis
    learn: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Parts:
    """The connected parts of which the flow is built."""

    registry: Registry
    lines: AllLines
    others: Works
    hooked: Hooked
    limiter: Limiter
    standings: LineSnapshots
    planners: Planners
    store: Store
    http: aiohttp.ClientSession
    putter: Putter
    secret: bytes
    who: WorkerInfo
    defects: Defects
    tallies: Tallies
    knows: Callable[[str], Awaitable[bool]]
    look: Look


async def connect(config: Config, closing: AsyncExitStack, others: Works = ()) -> Parts:
    """Wait for every server that a worker cannot do without; `closing` ends the connections.

    `others`: what it does besides asking couriers. UnsafeServer: do not try again.
    """
    registry = Registry(courier_settings(config).values())
    redis, store, sender = _opened(config, closing)
    subscriptions = Subscriptions(store, config.webhooks.timeout_seconds)
    lines = _lines(config, registry, subscriptions, others)
    async with open_redis(redis_address(config)) as unchecked:
        await _preflight(config, unchecked, store)
    who = WorkerInfo(socket.gethostname(), os.getpid(), VERSION, round(time.time(), 3))
    book = RuleBook(lines.rules_of, functools.partial(_read_rules, store, subscriptions))
    limiter = _limiter(config, redis, _policy(config, who, lines), book, subscriptions)
    closing.push_async_callback(limiter.close)
    await keep_trying(lambda: _prepared(store))
    await _after_older_versions(redis, book)
    await keep_trying(subscriptions.learn)
    await _started(limiter, lines, Pauses(redis, book.rules_of))
    secret = await keep_trying(lambda: shared_secret(redis, keys.SECRET, secrets.token_hex(32)))
    putter = Putter(config.beanstalkd.servers)
    closing.callback(putter.close)
    return Parts(
        registry,
        lines,
        others,
        Hooked(subscriptions, sender, redis, book.learn),
        limiter,
        LineSnapshots(redis, book.rules_of, book),
        Planners(redis, secrets.token_hex(8)),
        store,
        await closing.enter_async_context(open_session(kept_below(config.worker))),
        putter,
        secret.encode(),
        who,
        Defects(redis, config.retry.deaths),
        Tallies(redis),
        functools.partial(is_known, redis),
        functools.partial(survey, config, redis, store.client),
    )


async def _started(limiter: Limiter, lines: AllLines, brakes: Pauses) -> None:
    await keep_trying(lambda: limiter.start(lines.known()))
    await keep_trying(lambda: resume_where_changed(brakes, lines))


def _opened(config: Config, closing: AsyncExitStack) -> tuple[Redis, Store, Sender]:
    """Open what is closed last; nothing is asked yet."""
    redis, store = open_redis(redis_address(config)), _store(config)
    closing.push_async_callback(redis.aclose)
    closing.push_async_callback(store.close)
    allowed = functools.cache(functools.partial(allowed_of, config))
    sender = Sender(allowed, own_names_of(config), kept_below(config.worker))
    closing.push_async_callback(sender.close)
    return redis, store, sender


async def _read_rules(store: Store, subscriptions: Subscriptions) -> Changes:
    """Read what goes by the revision of the rules: limits, quotas, services. Raises ResultsDown."""
    changes = await store.on_reader(read_rules, store.limits, store.accounts)
    await subscriptions.learn()
    return changes


async def _after_older_versions(redis: Redis, book: RuleBook) -> None:
    """Wait until no worker runs that shares records among accounts; then part those."""
    told: set[str] = set()
    while found := await keep_trying(lambda: older_workers(redis)):
        for worker in set(found) - told:
            emit(Event.OLDER_WORKER, worker=worker)
            told.add(worker)
        await asyncio.sleep(LOOK_SECONDS)
    again = bool(told)
    if parted := await keep_trying(lambda: part_accounts(redis, book.rules_of, again=again)):
        emit(Event.PARTED, records=parted)


async def _preflight(config: Config, redis: Redis, store: Store) -> None:
    """Wait for the servers, and refuse those that can lose acknowledged work.

    Several beanstalkd may be named, and one that answers is enough to begin with.
    """
    told: set[str] = set()
    while True:
        findings = await survey(config, redis, store.client)
        insist(findings)
        away = [finding for finding in findings if finding.grade is Grade.AWAY]
        for finding in away:
            if str(finding) not in told:
                told.add(str(finding))
                emit(Event.AWAY, server=finding.server, error=finding.what, fix=finding.fix)
        tubes = [finding for finding in away if finding.server.startswith("beanstalkd")]
        if len(away) == len(tubes) and len(tubes) < len(config.beanstalkd.servers):
            break
        await asyncio.sleep(LOOK_SECONDS)
    _warn(findings)


def _warn(findings: Iterable[Finding]) -> None:
    for finding in findings:
        if finding.grade is Grade.UNSURE:
            warn_of(finding)


def warn_of(finding: Finding) -> None:
    """Log what is unwise, or has become so."""
    emit(Event.DURABILITY, server=finding.server, why=finding.what, fix=finding.fix)


def _vetting(config: Config) -> Vet:
    """Check every Redis that takes over like the first one, before anything is asked of it."""
    fit: dict[str, int] = {}

    async def vet(run_id: str) -> int:
        if run_id not in fit:
            async with open_redis(redis_address(config)) as redis:
                findings = await vet_redis(redis, config.redis, run_id)
                least = await confirmations(redis)
            if fit:  # of the first one the preflight has told
                _warn(findings)
            fit[run_id] = least
        return fit[run_id]

    return vet


def _policy(config: Config, who: WorkerInfo, lines: AllLines) -> Policy:
    return Policy(
        max_age=config.requests.max_age_seconds,
        deaths=config.retry.deaths,
        who=who,
        mark_of=lines.mark_of,
        kind_of=lines.kind_of,
    )


def _lines(
    config: Config, registry: Registry, subscriptions: Subscriptions, others: Works
) -> AllLines:
    services = KindLines(DELIVERY, ServiceLines(config, subscriptions))
    return AllLines(CourierLines(config, registry), [*others, services])


def _limiter(
    config: Config, redis: Redis, policy: Policy, book: RuleBook, subscriptions: Subscriptions
) -> Limiter:
    clock = Clock()
    pipeline = Pipeline(redis, clock, functools.partial(_notice, "redis", redis_down))
    tables = [config.limits, *(limits_for(config, slug) for slug in config.limits.slugs)]
    timeout = max(limits.call_timeout_seconds for limits in tables)
    lease = max(limits.lease_seconds for limits in tables)
    lease = max(lease, delivery_lease_seconds(config, config.webhooks.timeout_seconds))
    watched = bool(config.redis.sentinels)
    epoch = Epoch(pipeline, timeout, _lost, watched=watched, vet=_vetting(config))
    epoch.outlast = lambda: subscriptions.longest_seconds
    pipeline.quiet_after_leap(lease, functools.partial(_lost, Loss.LEAPT))
    return Limiter(pipeline, clock, epoch, book, policy)


async def _prepared(store: Store) -> None:
    """Make the indexes. Raises ResultsDown; UnsafeServer where to try again is no use."""
    try:
        await store.prepare()
    except ResultsDown as error:
        if not is_lasting(error.__cause__):
            raise
        what = f"makes no index that the worker needs: {error.message.removeprefix('MongoDB ')}"
        fix = error.fix or "Change that in MongoDB, then start the worker again."
        raise UnsafeServer([Finding("MongoDB", Grade.UNFIT, what, fix)]) from error


def _lost(loss: Loss) -> None:
    emit(Event.STATE_LOST, server="redis", why=_LOSSES[loss])


_LOSSES = {
    Loss.NEW: "it was emptied, or its data was lost",
    Loss.REPLACED: "another server took over, or it was demoted for a while",
    Loss.LEAPT: "its clock leapt forward",
}


def _store(config: Config) -> Store:
    try:
        return Store(names_of(config), functools.partial(_notice, "mongodb", mongodb_down))
    except ResultsDown as down:
        what = down.message.removeprefix("MongoDB ")
        raise UnsafeServer([Finding("MongoDB", Grade.UNFIT, what, down.fix)]) from down


def _notice(
    server: str, worded: Callable[[Exception], StoreError], error: Exception | None
) -> None:
    if error is None:
        emit(Event.BACK, server=server)
    else:
        down = worded(error)
        emit(Event.AWAY, server=server, error=down.message, fix=down.fix)
