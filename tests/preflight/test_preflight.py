"""Which servers a worker refuses, and which it only warns of."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import greenstalk
import pytest
import redis
from pymongo import MongoClient
from redis.asyncio import Redis as AsyncRedis

from devstack.kinds import BEANSTALKD, Durability
from devstack.kinds import REDIS as REDIS_SERVER
from devstack.servers import Server, running
from limits.connect import open_redis
from limits.server import Memory, RedisAddress
from service.config.schema import Beanstalkd, Config, Mongodb
from service.config.schema import Redis as RedisSection
from service.worker.preflight.judgement import (
    BeanstalkdFacts,
    Finding,
    Grade,
    MongodbFacts,
    RedisFacts,
    UnsafeServer,
    allowed,
    insist,
    judge_beanstalkd,
    judge_mongodb,
    judge_redis,
)
from service.worker.preflight.survey import read_beanstalkd, read_redis, survey, vet_redis, watch
from tracking.errors import LimitsDown

TUBES = BeanstalkdFacts(
    "h:1", "1.12", binlog=True, jobs=5, records=7, draining=False, job_most=65_535
)
REDIS = RedisFacts(
    version="Redis 7.0.15",
    role="master",
    cluster=False,
    ahead=0.0,
    appendonly="yes",
    appendfsync="always",
    no_appendfsync_on_rewrite="no",
    maxmemory_policy="noeviction",
    aof_last_write="ok",
)
MONGODB = MongodbFacts("6.0.5", writable=True, ahead=0.0, persistent=True)


def grades(findings: Iterable[Finding]) -> set[Grade]:
    return {each.grade for each in findings}


@pytest.mark.parametrize(
    ("replicas", "priorities", "least"),
    [
        (1, (), 1),
        (2, (), 1),
        (3, (), 2),
        (4, (100,) * 4, 2),
        (5, (100,) * 5, 3),
        # What only one has that is never promoted would be lost.
        (2, (0, 100), 2),
        (4, (0, 0, 100, 100), 3),
        (2, (0, 0), 1),
    ],
)
def test_so_many_replicas_must_confirm_that_most_servers_have_it(
    replicas: int, priorities: tuple[int, ...], least: int
) -> None:
    facts = replace(REDIS, replicas=replicas, priorities=priorities, min_replicas_max_lag="10")
    few = replace(facts, min_replicas_to_write=str(least - 1))
    enough = [replace(facts, min_replicas_to_write=str(n)) for n in (least, least + 1)]

    (told,) = [each for each in judge_redis(few) if each.grade is Grade.LOSES]
    assert f"min-replicas-to-write {least} " in told.fix
    assert all(grades(judge_redis(each)) == {Grade.FINE} for each in enough)


@pytest.mark.parametrize(
    ("priorities", "own", "refused"),
    [
        ((100, 100), 100, False),
        ((100, 100), None, False),
        ((0, 100), 100, False),
        ((10, 100), 100, True),
        ((100, 100), 50, True),
        ((0, 0), 100, False),
        ((), 50, False),
    ],
)
def test_servers_of_different_priority_are_refused(
    priorities: tuple[int, ...],
    own: int | None,
    refused: bool,  # noqa: FBT001
) -> None:
    facts = replace(
        REDIS,
        replicas=2,
        priorities=priorities,
        own_priority=own,
        min_replicas_to_write="2",
        min_replicas_max_lag="10",
    )

    assert (Grade.LOSES in grades(judge_redis(facts))) == refused


def test_servers_that_keep_everything_are_fine() -> None:
    assert grades(judge_redis(REDIS)) == {Grade.FINE}
    assert grades(judge_mongodb(MONGODB)) == {Grade.FINE}


def test_what_beanstalkd_cannot_tell_is_for_doctor_and_no_warning_at_each_start() -> None:
    findings = list(judge_beanstalkd(TUBES))
    assert grades(findings) == {Grade.FINE, Grade.UNREAD}
    assert findings[-1].fix == "Make sure that it was started with -f 0."


@pytest.mark.parametrize(
    ("change", "grade"),
    [
        ({"binlog": False}, Grade.LOSES),
        ({"records": 4}, Grade.LOSES),
        ({"draining": True}, Grade.UNSURE),
    ],
)
def test_a_beanstalkd_that_forgets_is_refused(change: dict[str, Any], grade: Grade) -> None:
    assert grade in grades(judge_beanstalkd(dataclasses.replace(TUBES, **change)))


@pytest.mark.parametrize(
    ("change", "grade"),
    [
        ({"appendonly": "no"}, Grade.LOSES),
        ({"appendfsync": "everysec"}, Grade.LOSES),
        ({"no_appendfsync_on_rewrite": "yes"}, Grade.LOSES),
        ({"maxmemory_policy": "allkeys-lru"}, Grade.LOSES),
        ({"cluster": True}, Grade.UNFIT),
        ({"role": "slave"}, Grade.AWAY),
        ({"aof_last_write": "err"}, Grade.AWAY),
        ({"appendfsync": None}, Grade.UNREAD),
        ({"memory": Memory(2, 1, full=True)}, Grade.FULL),
        ({"ahead": -3.0}, Grade.UNSURE),
    ],
)
def test_a_redis_that_forgets_or_cannot_work_is_refused(
    change: dict[str, Any], grade: Grade
) -> None:
    findings = list(judge_redis(dataclasses.replace(REDIS, **change)))
    assert grade in grades(findings)
    assert all(each.fix for each in findings if each.grade is not Grade.FINE)


@pytest.mark.parametrize(
    ("least", "lag", "grade"),
    [
        ("1", "10", Grade.FINE),
        ("2", "1", Grade.FINE),
        ("0", "10", Grade.LOSES),
        ("1", "0", Grade.LOSES),
        ("1", "60", Grade.LOSES),
        (None, None, Grade.UNREAD),
    ],
)
@pytest.mark.parametrize("replicas", [0, 1])
def test_a_redis_with_replicas_must_ask_for_one_that_keeps_up(
    least: str | None, lag: str | None, grade: Grade, replicas: int
) -> None:
    facts = dataclasses.replace(
        REDIS, replicas=replicas, min_replicas_to_write=least, min_replicas_max_lag=lag
    )
    assert grades(judge_redis(facts, watched=not replicas)) == {Grade.FINE, grade}


def test_a_redis_that_stands_alone_needs_no_replica() -> None:
    facts = dataclasses.replace(REDIS, min_replicas_to_write="0", min_replicas_max_lag="10")
    assert grades(judge_redis(facts)) == {Grade.FINE}


async def test_a_redis_that_took_over_is_judged_like_the_first(redis_url: str) -> None:
    section = RedisSection(url=redis_url)
    with redis.Redis.from_url(redis_url, decode_responses=True) as admin:
        run_id = admin.info("server")["run_id"]
        client = open_redis(RedisAddress(redis_url))
        try:
            assert grades(await vet_redis(client, section, run_id)) == {Grade.FINE}
            with pytest.raises(LimitsDown, match="was replaced again"):
                await vet_redis(client, section, "another")
            admin.config_set("appendfsync", "everysec")
            with pytest.raises(LimitsDown, match="has appendfsync everysec"):
                await vet_redis(client, section, run_id)
        finally:
            admin.config_set("appendfsync", "always")
            await client.aclose()


@pytest.mark.parametrize(
    ("change", "grade"),
    [
        ({"persistent": False}, Grade.LOSES),
        ({"journal": False}, Grade.LOSES),
        ({"majority_journal": False}, Grade.LOSES),
        ({"writable": False}, Grade.AWAY),
        ({"persistent": None}, Grade.UNREAD),
    ],
)
def test_a_mongodb_that_forgets_is_refused(change: dict[str, Any], grade: Grade) -> None:
    assert grade in grades(judge_mongodb(dataclasses.replace(MONGODB, **change)))


def test_what_can_lose_work_is_refused_unless_it_is_allowed() -> None:
    findings = list(judge_redis(dataclasses.replace(REDIS, appendonly="no")))
    with pytest.raises(UnsafeServer, match="appendonly no"):
        insist(allowed(findings, permitted=False))
    insist(allowed(findings, permitted=True))


def test_a_cluster_is_refused_even_where_loss_is_allowed() -> None:
    findings = list(judge_redis(dataclasses.replace(REDIS, cluster=True)))
    with pytest.raises(UnsafeServer, match="hash slots"):
        insist(allowed(findings, permitted=True))


async def test_real_servers_as_they_must_run_are_accepted(
    redis_url: str, mongo_uri: str, beanstalkd: Server
) -> None:
    config = Config(beanstalkd=Beanstalkd(servers=(beanstalkd.url,)))
    client = open_redis(RedisAddress(redis_url))
    mongodb: MongoClient[dict[str, Any]]
    with MongoClient(mongo_uri) as mongodb:
        findings = await survey(config, client, mongodb)
    await client.aclose()
    insist(findings)
    servers = {f"beanstalkd {beanstalkd.url}", "Redis", "MongoDB"}
    assert {each.server for each in findings if each.grade is Grade.FINE} == servers
    # Nothing that a worker would warn of at its start.
    assert grades(findings) <= {Grade.FINE, Grade.UNREAD}


async def test_servers_that_are_away_are_findings_with_a_fix() -> None:
    config = Config(
        beanstalkd=Beanstalkd(servers=("127.0.0.1:1",)),
        redis=RedisSection(url="redis://127.0.0.1:1"),
        mongodb=Mongodb(uri="mongodb://127.0.0.1:1"),
    )
    client = redis.asyncio.Redis.from_url("redis://127.0.0.1:1")
    mongodb: MongoClient[dict[str, Any]]
    with MongoClient("mongodb://127.0.0.1:1", serverSelectionTimeoutMS=300) as mongodb:
        findings = await survey(config, client, mongodb)
    await client.aclose()
    assert [each.grade for each in findings] == [Grade.AWAY] * 3
    assert [(each.server, each.what, each.fix) for each in findings] == [
        (
            "beanstalkd 127.0.0.1:1",
            "does not answer (Connection refused)",
            "Start it, or correct beanstalkd.servers.",
        ),
        (
            "Redis",
            "does not answer (Connection refused) at redis://127.0.0.1:1",
            "Start it, or correct redis.url.",
        ),
        (
            "MongoDB",
            "does not answer (127.0.0.1:1: Connection refused) at mongodb://127.0.0.1:1",
            "Start it, or correct mongodb.uri.",
        ),
    ]


def test_a_real_beanstalkd_without_a_binlog_is_seen() -> None:
    with running(BEANSTALKD, Durability.NONE) as server:
        assert not read_beanstalkd(server.url).binlog


def test_a_real_beanstalkd_that_works_hard_is_not_taken_for_broken(beanstalkd: Server) -> None:
    with greenstalk.Client((beanstalkd.host, beanstalkd.port)) as client:
        for _ in range(100):
            client.put("x")
        for _ in range(50):
            job = client.reserve()
            client.release(job, delay=1)
    facts = read_beanstalkd(beanstalkd.url)
    assert facts.binlog
    assert facts.records >= facts.jobs == 100
    beanstalkd.kill()
    beanstalkd.start()
    assert Grade.LOSES not in grades(judge_beanstalkd(read_beanstalkd(beanstalkd.url)))


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("appendfsync", "everysec", "appendfsync everysec"),
        ("maxmemory-policy", "allkeys-lru", "maxmemory-policy allkeys-lru"),
        ("no-appendfsync-on-rewrite", "yes", "no-appendfsync-on-rewrite yes"),
    ],
)
async def test_a_real_redis_with_another_setting_is_seen(
    redis_url: str, name: str, value: str, word: str
) -> None:
    with redis.Redis.from_url(redis_url, decode_responses=True) as admin:
        before = admin.config_get(name)[name]
        admin.config_set(name, value)
        client = open_redis(RedisAddress(redis_url))
        try:
            findings = list(judge_redis(await read_redis(client)))
        finally:
            admin.config_set(name, before)
            await client.aclose()
    assert [word in each.what for each in findings if each.refused] == [True]


async def test_a_redis_that_does_not_tell_its_settings_is_left_to_doctor(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as admin:
        admin.execute_command("ACL", "SETUSER", "limited", "on", ">pw", "~*", "+@all", "-config")
        client = open_redis(RedisAddress(redis_url.replace("://", "://limited:pw@")))
        try:
            facts = await read_redis(client)
        finally:
            await client.aclose()
            admin.execute_command("ACL", "DELUSER", "limited")
    assert facts.appendfsync is None
    # INFO tells these all the same.
    assert (facts.appendonly, facts.maxmemory_policy) == ("yes", "noeviction")
    findings = list(judge_redis(facts))
    insist(findings)
    assert grades(findings) == {Grade.FINE, Grade.UNREAD}


async def test_what_a_server_loses_while_workers_run_is_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("service.worker.preflight.survey.LOOK_SECONDS", 0.01)
    told: list[str] = []
    first, again = asyncio.Event(), asyncio.Event()

    with running(REDIS_SERVER) as server:
        async with AsyncRedis.from_url(server.url, decode_responses=True) as client:

            async def look() -> list[Finding]:
                found = list(judge_redis(await read_redis(client)))
                (again if told else first).set()
                return found

            watching = asyncio.create_task(watch(look, lambda each: told.append(each.what)))
            await first.wait()
            await client.config_set("appendfsync", "everysec")
            async with asyncio.timeout(10):
                await again.wait()
            watching.cancel()

    assert told == ["has appendfsync everysec"]
