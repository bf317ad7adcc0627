"""A primary that takes over is checked like the first one, before anything is asked of it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
import redis

from devstack.sentinels import PASSWORD, SERVICE, Watched
from devstack.servers import Server
from service.config.schema import Beanstalkd, Config, Mongodb
from service.config.schema import Redis as RedisSection
from service.worker.flow.tasks import keep_trying
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
