"""Survey of all servers of a configuration: each is probed and judged, and nothing is changed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC
from typing import Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError
from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from limits.connect import watched_priorities
from limits.failure import redis_down
from limits.server import memory_in
from service.config.address import masked
from service.config.schema import Config
from service.config.schema import Redis as RedisSection
from service.observe.background import rest
from service.worker.preflight.judgement import (
    BeanstalkdFacts,
    Finding,
    Grade,
    MongodbFacts,
    RedisFacts,
    allowed,
    judge_beanstalkd,
    judge_conflicts,
    judge_mongodb,
    judge_redis,
)
from service.worker.results.database import Collections, Names, names_of
from service.worker.results.failure import UNAUTHORIZED, mongodb_down
from service.worker.results.schema_conflicts import Conflict, schema_conflicts
from service.worker.tubes.blocking import BlockingClient, Timeouts
from tracking.errors import LimitsDown, StoreError

TIMEOUTS = Timeouts(connect=3.0, reply=3.0)


def read_beanstalkd(address: str) -> BeanstalkdFacts:
    """Ask one beanstalkd, blocking. Raises TubesDown."""
    with contextlib.closing(BlockingClient.open(address, timeouts=TIMEOUTS)) as connection:
        stats = connection.stats
    return BeanstalkdFacts(
        server=address,
        version=str(stats["version"]).strip('"'),
        # Files are numbered from 1; 0 is what a server without a binlog tells.
        binlog=stats["binlog-current-index"] > 0,
        jobs=stats["total-jobs"],
        records=stats["binlog-records-written"],
        draining=stats.get("draining") == "true",
        job_most=stats["max-job-size"],
    )


async def read_redis(redis: Redis) -> RedisFacts:
    """Ask the Redis. Raises LimitsDown; what it must not tell is None."""
    try:
        before = time.time()
        seconds, micros = await redis.time()
        ahead = _ahead(int(seconds) + int(micros) / 1_000_000, before)
        info: Mapping[str, Any] = await redis.info()
        config = await _config_of(redis)
        priorities = await watched_priorities(redis)
    except (RedisError, OSError) as error:
        raise redis_down(error) from error
    return RedisFacts(
        version=_version(info),
        role=str(info.get("role", "unknown")),
        cluster=bool(info.get("cluster_enabled")) or info.get("redis_mode") == "cluster",
        ahead=ahead,
        run_id=str(info.get("run_id", "-")),
        replicas=max(int(info.get("connected_slaves", 0)), len(priorities)),
        priorities=tuple(priorities),
        own_priority=int(config["replica-priority"]) if "replica-priority" in config else None,
        min_replicas_to_write=config.get("min-replicas-to-write"),
        min_replicas_max_lag=config.get("min-replicas-max-lag"),
        appendonly=config.get("appendonly", _yes_or_no(info.get("aof_enabled"))),
        appendfsync=config.get("appendfsync"),
        no_appendfsync_on_rewrite=config.get("no-appendfsync-on-rewrite"),
        maxmemory_policy=info.get("maxmemory_policy"),
        aof_last_write=info.get("aof_last_write_status"),
        memory=memory_in(info),
    )


def read_mongodb(client: MongoClient[dict[str, Any]]) -> MongodbFacts:
    """Ask the MongoDB, blocking. Raises ResultsDown; what it must not tell is None."""
    admin = client.admin
    try:
        before = time.time()
        hello = admin.command("hello")
        ahead = _ahead(hello["localTime"].replace(tzinfo=UTC).timestamp(), before)
        version = str(admin.command("buildInfo")["version"])
        engine = _if_allowed(lambda: admin.command("serverStatus").get("storageEngine", {}))
        options = _if_allowed(lambda: admin.command("getCmdLineOpts").get("parsed", {}))
        members: Mapping[str, Any] = {}
        if "setName" in hello:
            members = _if_allowed(lambda: admin.command("replSetGetConfig").get("config", {}))
    except (PyMongoError, OSError) as error:
        raise mongodb_down(error) from error
    return MongodbFacts(
        version=version,
        writable=bool(hello.get("isWritablePrimary")),
        ahead=ahead,
        replica_set=str(hello.get("setName", "")),
        persistent=engine.get("persistent"),
        journal=options.get("storage", {}).get("journal", {}).get("enabled"),
        majority_journal=members.get("writeConcernMajorityJournalDefault"),
    )


def read_conflicts(client: MongoClient[dict[str, Any]], names: Names) -> list[Conflict]:
    """Find the schema conflicts that keep the worker from writing, blocking. Raises ResultsDown.

    What this user must not see is not looked at.
    """
    try:
        return schema_conflicts(Collections(client, names), names)
    except OperationFailure as error:
        if error.code == UNAUTHORIZED:
            return []
        raise mongodb_down(error) from error
    except (PyMongoError, OSError) as error:
        raise mongodb_down(error) from error


async def _config_of(redis: Redis) -> dict[str, str]:
    try:
        found = await redis.config_get("*append*", "min-replicas-*", "replica-priority")
    except ResponseError:
        # Not allowed to this user, or not offered by this provider.
        return {}
    return {str(name): str(value) for name, value in found.items()}


def _version(info: Mapping[str, Any]) -> str:
    if "valkey_version" in info:
        return f"Valkey {info['valkey_version']}"
    return f"Redis {info.get('redis_version', 'of unknown version')}"


def _if_allowed(ask: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    try:
        return ask()
    except OperationFailure:
        return {}


def _yes_or_no(flag: object) -> str | None:
    return None if flag is None else "yes" if flag else "no"


def _ahead(theirs: float, before: float) -> float:
    """Tell how far their clock is ahead; the time of the answer is no difference."""
    after = time.time()
    return theirs - after if theirs > after else min(0.0, theirs - before)


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
        await rest(LOOK_SECONDS)
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
