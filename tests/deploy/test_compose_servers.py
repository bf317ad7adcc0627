"""The flags and the healthcheck of docker-compose.yml, tried on the real servers."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import greenstalk
import pytest
import redis

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
