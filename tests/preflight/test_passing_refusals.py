"""What a server may be for a moment keeps a worker waiting, and does not end it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
import redis

from devstack.kinds import REDIS
from devstack.servers import Server, running
from service.config.schema import Beanstalkd, Config, Mongodb
from service.config.schema import Redis as RedisSection
from service.worker.wiring.connect import connect

PATIENCE = 10.0


async def test_a_worker_waits_for_a_redis_that_is_a_replica_for_a_moment(
    beanstalkd: Server, mongo_uri: str, database: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with running(REDIS) as server:
        config = Config(
            beanstalkd=Beanstalkd(servers=(beanstalkd.url,)),
            redis=RedisSection(url=server.url),
            mongodb=Mongodb(uri=mongo_uri, database=database),
        )
        with redis.Redis.from_url(server.url) as admin:
            admin.replicaof("127.0.0.1", "1")
            async with contextlib.AsyncExitStack() as closing:
                connecting = asyncio.create_task(connect(config, closing))
                told = ""
                async with asyncio.timeout(PATIENCE):
                    while "is a replica and takes no writes" not in told:
                        assert not connecting.done(), connecting.exception()
                        await asyncio.sleep(0.02)
                        told += "".join(capfd.readouterr())  # a test before may have set the log up
                admin.replicaof("NO", "ONE")

                async with asyncio.timeout(PATIENCE):
                    await connecting
