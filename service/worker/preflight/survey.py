"""All servers of a configuration, asked and judged together."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from pymongo import MongoClient
from redis.asyncio import Redis

from service.config.address import masked
from service.config.schema import Config
from service.config.schema import Redis as RedisSection
from service.worker.preflight.judgement import (
    Finding,
    Grade,
    allowed,
    judge_beanstalkd,
    judge_conflicts,
    judge_mongodb,
    judge_redis,
)
from service.worker.preflight.probe import read_beanstalkd, read_conflicts, read_mongodb, read_redis
from service.worker.results.database import Names, names_of
from tracking.errors import LimitsDown, StoreError

LOOK_SECONDS = 300.0
"""Between two looks of one process at what may have changed since its start."""

_WORSE = {Grade.LOSES, Grade.UNFIT, Grade.UNSURE}

Look = Callable[[], Awaitable[list[Finding]]]


async def watch(look: Look, tell: Callable[[Finding], None]) -> None:
    """Tell what servers have come to since the last look; never returns.

    A setting may be changed while they run, a replica added.
    """
    known = {str(each) for each in await look()}
    while True:
        await asyncio.sleep(LOOK_SECONDS * random.uniform(0.8, 1.2))
        found = {str(each): each for each in await look() if each.grade in _WORSE}
        for text in found.keys() - known:
            tell(found[text])
        known = set(found)


async def survey(
    config: Config, redis: Redis, mongodb: MongoClient[dict[str, Any]]
) -> list[Finding]:
    """Ask every server at once; one that is away is a finding too. `allow_loss` is applied."""
    asked = [
        *(_beanstalkd(server) for server in config.beanstalkd.servers),
        _redis(redis, config.redis),
        _mongodb(mongodb, names_of(config)),
    ]
    *tubes, limits, results = await asyncio.gather(*asked)
    return [
        *allowed(
            [each for found in tubes for each in found], permitted=config.beanstalkd.allow_loss
        ),
        *allowed(limits, permitted=config.redis.allow_loss),
        *allowed(results, permitted=config.mongodb.allow_loss),
    ]


async def _beanstalkd(server: str) -> Iterable[Finding]:
    try:
        return judge_beanstalkd(await asyncio.to_thread(read_beanstalkd, server))
    except StoreError as error:
        return _away(f"beanstalkd {server}", error)


async def vet_redis(redis: Redis, section: RedisSection, run_id: str) -> list[Finding]:
    """Judge a Redis that took over, as at the start. Raises LimitsDown: nothing may be asked of it.

    `run_id` names it; by now another one may serve.
    """
    facts = await read_redis(redis)
    if facts.run_id != run_id:
        raise LimitsDown("Redis was replaced again", "")
    judged = judge_redis(facts, watched=bool(section.sentinels))
    findings = allowed(judged, permitted=section.allow_loss)
    for each in findings:
        if each.refused or each.grade is Grade.AWAY:
            raise LimitsDown(f"{each.server} {each.what}", each.fix)
    return findings


async def _redis(redis: Redis, section: RedisSection) -> Iterable[Finding]:
    try:
        return judge_redis(await read_redis(redis), watched=bool(section.sentinels))
    except StoreError as error:
        return _away("Redis", error, " ".join(section.sentinels) or section.url)


async def _mongodb(mongodb: MongoClient[dict[str, Any]], names: Names) -> Iterable[Finding]:
    try:
        facts = await asyncio.to_thread(read_mongodb, mongodb)
        found = await asyncio.to_thread(read_conflicts, mongodb, names) if facts.writable else ()
    except StoreError as error:
        return _away("MongoDB", error, names.uri)
    return [*judge_mongodb(facts), *judge_conflicts(found)]


def _away(server: str, error: StoreError, address: str = "") -> list[Finding]:
    what = error.message.removeprefix(f"{server} ")
    what += f" at {masked(address)}" if address else ""
    return [Finding(server, Grade.AWAY, what, error.fix or "Wait, or look at its log.")]
