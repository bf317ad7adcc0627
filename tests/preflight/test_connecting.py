"""A worker connects: it waits for what passes, ends where it must, and checks a new primary too."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
import redis

from devstack.kinds import REDIS
from devstack.sentinels import PASSWORD, SERVICE, Watched
from devstack.servers import Server, running
from service.config.schema import Beanstalkd, Config, Mongodb
from service.config.schema import Redis as RedisSection
from service.worker.flow.tasks import keep_trying
from service.worker.preflight.judgement import UnsafeServer
from service.worker.wiring.connect import connect
from tracking.call import Granted, Parked
from tracking.errors import LimitsDown
from tracking.request import Number, Slug, TrackingRequest

PATIENCE = 20.0


def asked(number: str) -> TrackingRequest:
    return TrackingRequest(slug=Slug("usps"), number=Number(number), given=number)


@pytest.mark.prove
async def test_nothing_is_asked_of_a_promoted_redis_that_may_lose_it(
    watched: Watched, beanstalkd: Server, mongo_uri: str, database: str
) -> None:
    config = Config(
        beanstalkd=Beanstalkd(servers=(beanstalkd.url,)),
        redis=RedisSection(
            sentinels=tuple(watched.addresses), service=SERVICE, sentinel_password=PASSWORD
        ),
        mongodb=Mongodb(uri=mongo_uri, database=database),
    )
    replica = watched.other(watched.primary())
    with redis.Redis.from_url(replica.url) as admin:
        admin.config_set("appendfsync", "everysec")
    async with contextlib.AsyncExitStack() as closing:
        limiter = (await connect(config, closing)).limiter
        assert isinstance(await limiter.admit("call-1", asked("N001"), "job-1"), Granted)
        await asyncio.to_thread(watched.fail_over)
        await asyncio.to_thread(watched.mend)

        told = ""
        async with asyncio.timeout(PATIENCE):
            while told != "Redis has appendfsync everysec":
                # At first perhaps what a connection to the old primary tells.
                with pytest.raises(LimitsDown) as caught:
                    await limiter.admit("call-2", asked("N002"), "job-2")
                told = caught.value.message
        with redis.Redis.from_url(replica.url) as admin:
            admin.config_set("appendfsync", "always")
        async with asyncio.timeout(PATIENCE):
            admitted = await keep_trying(lambda: limiter.admit("call-2", asked("N002"), "job-2"))

        assert admitted == Parked("quiet", put_drain=True)


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


async def test_a_mongodb_uri_that_the_driver_refuses_is_refused_with_the_setting() -> None:
    config = Config(mongodb=Mongodb(uri="mongodb://h/?tls=true&ssl=false"))

    async with contextlib.AsyncExitStack() as closing:
        with pytest.raises(UnsafeServer) as caught:
            await connect(config, closing)

    told = "MongoDB cannot be asked at its address (Can not specify conflicting values"
    assert str(caught.value).startswith(told)
    assert str(caught.value).endswith("Correct mongodb.uri.")
