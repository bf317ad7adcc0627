"""What is seen of Redis during a fault run, dated no later and no longer than it was seen."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import redis
from chaos.arena import Arena
from chaos.sampler import PERIOD, Sampler
from chaos.scale import Courier

LEASE_SECONDS = 4 * PERIOD
STOP_SECONDS = 2 * LEASE_SECONDS


class Stopping(redis.Redis):
    """Redis as somebody sees it who is told the time, and the rest only after a stop."""

    asked = 0

    def time(self, **kwargs: Any) -> Any:
        told = super().time(**kwargs)
        self.asked += 1
        if self.asked == 2:  # in the second look, so that the first has seen the lease begin
            time.sleep(STOP_SECONDS)
        return told


def test_a_stop_of_redis_in_the_middle_of_a_look_makes_no_lease_longer(redis_url: str) -> None:
    client = Stopping.from_url(redis_url, decode_responses=True)
    client.flushall()
    seconds, micros = redis.Redis.time(client)
    ends_us = int(seconds) * 1_000_000 + int(micros) + round(LEASE_SECONDS * 1_000_000)
    client.zadd("calls_leases:named", {"call-1": ends_us})
    scale = SimpleNamespace(couriers=[Courier("named", concurrent=1, per_second=1, pace=1.0)])
    sampler = Sampler(cast("Arena", SimpleNamespace(scale=scale, redis=lambda: client)))

    sampler.start()
    while client.asked < 4:
        time.sleep(PERIOD)
    sampler.stop()

    lease = sampler.leases["named", "call-1"]
    assert lease.last - lease.first <= LEASE_SECONDS


def test_a_place_of_a_rider_and_a_group_that_is_too_large_are_seen(redis_url: str) -> None:
    client = redis.Redis.from_url(redis_url, decode_responses=True)
    client.flushall()
    ends_us = (int(client.time()[0]) + 60) * 1_000_000
    client.zadd("calls_leases:named", {"w:1": ends_us, "w:1~2": ends_us})
    client.hset(
        "wait_inflight:named", mapping={"#w:1": 3, "w:1": "{}", "w:1~2": "{}", "=A1": "w:1"}
    )
    courier = Courier("named", concurrent=1, per_second=1, pace=1.0, together=2)
    scale = SimpleNamespace(couriers=[courier])
    sampler = Sampler(cast("Arena", SimpleNamespace(scale=scale, redis=lambda: client)))

    sampler.start()
    while not sampler.looks:
        time.sleep(PERIOD)
    sampler.stop()

    assert sampler.faults[:3] == [
        "2 places of named are taken",
        "riders of named have places of their own: ['w:1~2']",
        "3 numbers of named go with #w:1",
    ]
