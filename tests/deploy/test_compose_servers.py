"""The flags and the healthcheck of docker-compose.yml, tried on the real servers."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import greenstalk
import pymongo
import pytest
import redis
from pymongo.errors import OperationFailure

from devstack.servers import Server

PUT_BEFORE_THE_KILL = 50


def test_jobs_outlive_a_killed_beanstalkd(composed_beanstalkd: Server) -> None:
    address = (composed_beanstalkd.host, composed_beanstalkd.port)
    with greenstalk.Client(address) as client:
        for number in range(PUT_BEFORE_THE_KILL):
            client.put(str(number))

    composed_beanstalkd.kill()
    composed_beanstalkd.start()

    with greenstalk.Client(address) as client:
        assert client.stats()["current-jobs-ready"] == PUT_BEFORE_THE_KILL


def test_acknowledged_writes_outlive_a_killed_redis(composed_redis: Server) -> None:
    with redis.Redis.from_url(composed_redis.url) as client:
        assert client.config_get("appendfsync") == {"appendfsync": "always"}
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("save") == {"save": ""}
        client.rpush("wait_list:usps", *range(PUT_BEFORE_THE_KILL))

    composed_redis.kill()
    composed_redis.start()

    with redis.Redis.from_url(composed_redis.url) as client:
        assert client.llen("wait_list:usps") == PUT_BEFORE_THE_KILL


def test_redis_asks_for_the_password_that_the_worker_has(composed_redis: Server) -> None:
    stranger = redis.Redis(composed_redis.host, composed_redis.port)
    with stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()
    with redis.Redis.from_url(composed_redis.url) as worker:
        assert worker.ping()


def test_the_password_of_redis_stands_in_no_list_of_processes(composed_redis: Server) -> None:
    arguments = Path(f"/proc/{composed_redis.pid}/cmdline").read_bytes()

    assert b"valkey-server" in arguments
    assert urlsplit(composed_redis.url).password.encode() not in arguments  # type: ignore[union-attr]


def test_mongodb_asks_for_the_password_that_the_worker_has(composed_mongodb: Server) -> None:
    client: pymongo.MongoClient[dict[str, Any]]
    address = f"mongodb://{composed_mongodb.host}:{composed_mongodb.port}"
    with pymongo.MongoClient(address) as client, pytest.raises(OperationFailure):
        client.bucket.tracking.insert_one({})
    with pymongo.MongoClient(composed_mongodb.url) as client:
        assert client.bucket.tracking.insert_one({}).acknowledged


@pytest.fixture
def healthy(compose: dict[str, Any], composed_beanstalkd: Server) -> Callable[[], bool]:
    """Runs beanstalkd's healthcheck as the container would."""
    port = str(composed_beanstalkd.port)
    check = compose["services"]["beanstalkd"]["healthcheck"]["test"][1:]
    command = [word.replace("$$", "$").replace("11300", port) for word in check]

    def run() -> bool:
        done = subprocess.run(command, capture_output=True, check=False)
        return done.returncode == 0

    return run


def test_the_healthcheck_tells_a_serving_beanstalkd_from_a_dead_one(
    healthy: Callable[[], bool], composed_beanstalkd: Server
) -> None:
    assert healthy()

    composed_beanstalkd.kill()

    assert not healthy()


def test_the_healthcheck_gives_up_on_a_frozen_beanstalkd(
    healthy: Callable[[], bool], composed_beanstalkd: Server
) -> None:
    composed_beanstalkd.pause()

    assert not healthy()

    composed_beanstalkd.resume()
    assert healthy()
