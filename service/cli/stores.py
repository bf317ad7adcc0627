"""Connections to our servers for the length of one verb."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.asyncio import Redis

from limits.clock import Clock
from limits.connect import open_redis
from limits.epoch import Epoch
from limits.limiter import Limiter, Policy
from limits.scripts import Scripts
from limits.view import View
from service.config.handover import redis_address, rules_for
from service.config.schema import Config
from service.store.connection import Names, Store
from service.upkeep.preflight import Finding
from service.upkeep.survey import survey


@asynccontextmanager
async def redis_of(config: Config) -> AsyncIterator[Redis]:
    """Open the Redis; connects at the first command."""
    redis = open_redis(redis_address(config))
    try:
        yield redis
    finally:
        await redis.aclose()


@asynccontextmanager
async def view_of(config: Config) -> AsyncIterator[View]:
    """Open what reads Redis for people. Its methods raise LimitsDown."""
    async with redis_of(config) as redis:
        yield View(redis, functools.partial(rules_for, config))


@asynccontextmanager
async def store_of(config: Config) -> AsyncIterator[Store]:
    """Open the MongoDB; connects at the first command. `Store.run` raises ResultsDown."""
    mongodb = config.mongodb
    store = Store(
        Names(
            uri=mongodb.uri,
            database=mongodb.database,
            tracking=mongodb.collection,
            past=mongodb.past_collection,
            dead=mongodb.dead_collection,
            dead_keep_days=config.dead.keep_days,
        )
    )
    try:
        yield store
    finally:
        await store.close()


async def findings_of(config: Config) -> list[Finding]:
    """Ask all servers about themselves."""
    async with redis_of(config) as redis, store_of(config) as store:
        return await survey(config, redis, store.client)


@asynccontextmanager
async def limiter_of(config: Config) -> AsyncIterator[Limiter]:
    """Open what decides in Redis. Its methods raise LimitsDown."""
    async with redis_of(config) as redis:
        clock = Clock()
        scripts = Scripts(redis, clock)
        epoch = Epoch(scripts, config.limits.call_timeout_seconds)
        policy = Policy(max_age=config.requests.max_age_seconds, deaths=config.retry.deaths)
        limiter = Limiter(scripts, clock, epoch, functools.partial(rules_for, config), policy)
        try:
            await limiter.start()
            yield limiter
        finally:
            await limiter.close()
