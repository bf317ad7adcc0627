"""What is seen of Redis during a fault run, dated no later and no longer than it was seen."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import redis
from chaos.arena import Arena
from chaos.sampler import PERIOD, Sampler

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
    scale = SimpleNamespace(couriers=[SimpleNamespace(slug="named")])
    sampler = Sampler(cast("Arena", SimpleNamespace(scale=scale, redis=lambda: client)))

    sampler.start()
    while client.asked < 4:
        time.sleep(PERIOD)
    sampler.stop()

    lease = sampler.leases["named", "call-1"]
    assert lease.last - lease.first <= LEASE_SECONDS
