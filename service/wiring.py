"""Builds a worker out of its parts and runs it: the only module that knows all concrete classes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
import signal
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
from redis.asyncio import Redis

from couriers.fetch import Fetch
from couriers.registry import BadCourierSettings, Registry
from couriers.session import open_session
from couriers.tokens import TokenCache
from limits import keys
from limits.clock import Clock
from limits.connect import RedisAddress, open_redis, shared_secret
from limits.epoch import Epoch
from limits.limiter import Limiter, Policy
from limits.scripts import Scripts
from service.config.address import host_and_port
from service.config.handover import courier_settings, rules_for
from service.config.schema import Config
from service.flow.answer import Asker, Spare, Stores, Track
from service.flow.consume import Consumer
from service.flow.crew import Crew
from service.flow.drain import Drainer
from service.flow.handle import Decode, Handler
from service.flow.persist import persist
from service.flow.turns import Turns
from service.flow.verdicts import RetryRules
from service.observe.events import Event
from service.observe.failpoints import FailPoints
from service.observe.log import emit
from service.ports import Job
from service.store.connection import Names, Store
from service.store.dead import Dead
from service.store.trackings import Trackings
from service.tubes.envelope import (
    DRAINS_TUBE,
    REQUESTS_TUBE,
    decode_drain,
    decode_request,
    encode_request,
    needs_age,
)
from service.tubes.intake import Intake
from service.tubes.job import ReservedJob
from service.tubes.links import Source
from service.tubes.putter import Putter
from service.upkeep.sweeper import Sweeper
from tracking.call import Call
from tracking.checkpoint import Tracking
from tracking.request import Slug, TrackingRequest

JOBS_SHARE = 0.8
"""Of what a process may carry, jobs of the tube take this share; the rest is for draining."""

DRAIN_JOBS = 64
BEAT_SECONDS = 1.0
REFUSED = 2
"""The exit code that tells the parent that starting again would not help."""


def run_worker(config: Config, beat: Callable[[], None]) -> int:
    """Run one worker process until SIGTERM or SIGINT; returns its exit code.

    `beat` is called every second as long as the event loop turns. 2: the configuration cannot be
    used, or a server was refused because it can lose acknowledged work.
    """
    return asyncio.run(_run(config, beat))


async def _run(config: Config, beat: Callable[[], None]) -> int:
    stopped = _on_signals()
    async with contextlib.AsyncExitStack() as closing:
        closing.callback(asyncio.create_task(_beat(beat)).cancel)
        starting = asyncio.create_task(_start(config, closing))
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return 0
        try:
            worker = starting.result()
        except BadCourierSettings as error:
            emit(Event.REFUSED_START, error=error)
            return REFUSED
        emit(Event.STARTED, slugs=len(worker.slugs))
        await stopping
        emit(Event.STOPPING)
        handed_back = await worker.stop(config.worker.grace_seconds)
        emit(Event.STOPPED, handed_back=handed_back)
    return 0


@dataclass(frozen=True, slots=True)
class Worker:
    """A running worker: what takes, what runs, and how it stops in good order."""

    slugs: tuple[Slug, ...]
    requests: Intake
    drains: Intake
    drainer: Drainer
    turns: Turns
    crew: Crew
    background: tuple[asyncio.Task[None], ...]

    async def stop(self, grace_seconds: float) -> int:
        """Take nothing more, finish or hand back. Returns how many calls were handed back."""
        await asyncio.gather(self.requests.stop(), self.drains.stop())
        for task in self.background:
            task.cancel()
        await asyncio.gather(*self.background, return_exceptions=True)
        self.crew.take_no_more()
        await self.drainer.hand_over(self.turns)
        return await self.crew.stop(grace_seconds)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What is connected, for the flow to be built of."""

    registry: Registry
    limiter: Limiter
    store: Store
    http: aiohttp.ClientSession
    putter: Putter
    secret: bytes


async def _start(config: Config, closing: contextlib.AsyncExitStack) -> Worker:
    """Connect to everything, in the order in which a worker needs it, and begin to take jobs."""
    registry = Registry(courier_settings(config).values())
    redis = open_redis(_redis_address(config))
    closing.push_async_callback(redis.aclose)
    limiter = _limiter(config, redis)
    closing.push_async_callback(limiter.close)
    await persist(limiter.start)
    secret = await persist(lambda: shared_secret(redis, keys.SECRET, secrets.token_hex(32)))
    store = Store(_names(config), functools.partial(_notice, "mongodb"))
    closing.push_async_callback(store.close)
    await persist(store.prepare)
    http = open_session()
    closing.push_async_callback(http.close)
    putter = Putter(config.beanstalkd.servers)
    closing.callback(putter.close)
    parts = _Parts(registry, limiter, store, http, putter, secret.encode())
    worker = _assemble(config, parts)
    closing.push_async_callback(worker.requests.close)
    closing.push_async_callback(worker.drains.close)
    worker.requests.start()
    worker.drains.start()
    return worker


def _assemble(config: Config, parts: _Parts) -> Worker:
    reach = FailPoints.from_environment().reach
    crew = Crew(config.worker.concurrency)
    results = Trackings(parts.store)
    stores = Stores(parts.limiter, results, Dead(parts.store))
    retry = RetryRules(config.retry.attempts, config.retry.first_seconds, config.retry.cap_seconds)
    track = _track(parts.registry, parts.http)
    asker = Asker(track, stores, retry, encode_request, Spare(crew.room, reach))
    drainer = Drainer(parts.limiter, results.available, crew.room, reach)
    turns = Turns(asker, crew, parts.putter, drainer.look_again, reach)
    resolve = _resolve(parts.registry)
    handler = Handler(_decode(resolve), stores, asker, turns, reach)
    consumer = Consumer(handler, drainer, turns, crew, lambda job: decode_drain(job.body, resolve))
    sweeper = Sweeper(parts.limiter, turns, parts.registry.slugs, reach)
    jobs = max(1, round(config.worker.concurrency * JOBS_SHARE))
    return Worker(
        slugs=parts.registry.slugs,
        requests=_intake(config, parts, REQUESTS_TUBE, jobs, consumer.on_requests),
        drains=_intake(config, parts, DRAINS_TUBE, DRAIN_JOBS, consumer.on_drains),
        drainer=drainer,
        turns=turns,
        crew=crew,
        background=(
            asyncio.create_task(drainer.run(turns)),
            asyncio.create_task(sweeper.run()),
        ),
    )


def _intake(
    config: Config,
    parts: _Parts,
    tube: str,
    room: int,
    on_jobs: Callable[[list[ReservedJob]], None],
) -> Intake:
    sources = [Source(server, tube) for server in config.beanstalkd.servers]
    return Intake(sources, room, parts.secret, on_jobs)


def _limiter(config: Config, redis: Redis) -> Limiter:
    clock = Clock()
    scripts = Scripts(redis, clock, functools.partial(_notice, "redis"))
    epoch = Epoch(scripts, config.limits.call_timeout_seconds)
    policy = Policy(max_age=config.requests.max_age_seconds, deaths=config.retry.deaths)
    return Limiter(
        scripts, clock, epoch, functools.cache(functools.partial(rules_for, config)), policy
    )


def _track(registry: Registry, http: aiohttp.ClientSession) -> Track:
    tokens = TokenCache()

    async def track(call: Call) -> Tracking:
        slug = call.request.slug
        fetch = Fetch(http, registry.settings(slug), call.permit, tokens)
        return await registry.courier(slug).track(fetch, call.request)

    return track


def _resolve(registry: Registry) -> Callable[[str], tuple[Slug, str] | None]:
    def resolve(text: str) -> tuple[Slug, str] | None:
        slug = registry.resolve(text)
        return (slug, registry.settings(slug).keep) if slug else None

    return resolve


def _decode(resolve: Callable[[str], tuple[Slug, str] | None]) -> Decode:
    async def decode(job: Job) -> TrackingRequest:
        age = await job.age() if needs_age(job.body) else 0.0
        return decode_request(job.body, resolve, age)

    return decode


def _redis_address(config: Config) -> RedisAddress:
    sentinels = tuple(host_and_port(each) for each in config.redis.sentinels)
    return RedisAddress(config.redis.url, sentinels, config.redis.service)


def _names(config: Config) -> Names:
    mongodb = config.mongodb
    return Names(
        uri=mongodb.uri,
        database=mongodb.database,
        tracking=mongodb.collection,
        past=mongodb.past_collection,
        dead=mongodb.dead_collection,
        dead_keep_days=config.dead.keep_days,
    )


def _notice(server: str, error: Exception | None) -> None:
    if error is None:
        emit(Event.BACK, server=server)
    else:
        emit(Event.AWAY, server=server, error=error)


async def _beat(beat: Callable[[], None]) -> None:
    while True:
        beat()
        await asyncio.sleep(BEAT_SECONDS)


def _on_signals() -> asyncio.Event:
    """The first signal asks for a stop in good order, a second one ends the process at once."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        if stopped.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(signal.Signals(number))
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return stopped
