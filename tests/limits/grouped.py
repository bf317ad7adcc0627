"""What the tests of groups share: numbers that wait, and go with one call."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from limits_bench import FAST, KEYS, Worker, a_second_goes_by, asked, redis_us
from redis.asyncio import Redis

from limits import keys
from limits.rules import Rules
from tracking.call import Call, Parked, TakeResult
from tracking.request import Origin

AUTOMATIC = {"origin": Origin.AUTOMATIC}
NEAR = 0.5
"""Seconds that a busy machine may take for what a test does between two looks at a clock."""

THREE = replace(FAST, together=3)
"""Three numbers, at most, go with one call."""


def of_three(**limits: Any) -> Rules:
    """The same with further limits."""
    return replace(THREE, **limits)


async def wait(worker: Worker, *numbers: str, **fields: object) -> None:
    """Have numbers wait in this order, each with an operation op-NUMBER."""
    for number in numbers:
        request = asked(number, id=f"op-{number}", **fields)
        admission = await worker.limiter.admit(
            next(worker.limiter.ids), request, f"job-{number}", full=True
        )
        assert isinstance(admission, Parked), admission


async def group_of(worker: Worker, *numbers: str) -> tuple[Call, ...]:
    """The group of these numbers, which nobody else waits before."""
    await wait(worker, *numbers)
    (group,) = (await worker.take()).groups
    assert numbers_of(group) == list(numbers)
    return group


def numbers_of(group: tuple[Call, ...]) -> list[str]:
    return [each.request.number for each in group]


def groups_in(turn: TakeResult) -> list[list[str]]:
    return [numbers_of(group) for group in turn.groups]


async def line_of_numbers(redis: Redis) -> list[str]:
    """Who stands in the list of MANUAL requests, gaps left out."""
    return [each for each in await redis.lrange(KEYS.wait_list, 0, -1) if each]


async def slots(redis: Redis) -> tuple[list[str], int]:
    """The leases, and what operators see of them."""
    calls = await redis.get(KEYS.calls_number)
    return await redis.zrange(KEYS.calls_leases, 0, -1), int(calls or 0)


async def time_goes_by(redis: Redis, seconds: float) -> None:
    """Those who wait have waited for so much longer, and starts are so much longer ago."""
    for number, text in (await redis.hgetall(KEYS.wait_requests)).items():
        earlier = json.loads(text)["since"] - round(seconds * 1000)
        since = re.sub(r'"since":[\d.e+]+', f'"since":{earlier}', text)
        await redis.hset(KEYS.wait_requests, number, since)
    for start, at in await redis.zrange(KEYS.calls_hour, 0, -1, withscores=True):
        await redis.zadd(KEYS.calls_hour, {start: at - round(seconds * 1e6)})
    await a_second_goes_by(redis)


async def spend(worker: Worker, redis: Redis, calls: int, seconds_ago: float) -> None:
    """So many calls of the quota are spent since then."""
    for n in range(calls):
        call = await worker.granted(f"SPENT{n}")
        await worker.finish(call)
    starts = await redis.zrange(KEYS.calls_hour, 0, -1)
    at = await redis_us(redis) - round(seconds_ago * 1e6)
    await redis.zadd(KEYS.calls_hour, dict.fromkeys(starts, at))
    await a_second_goes_by(redis)


async def look(worker: Worker) -> tuple[list[list[str]], str, float | None]:
    """What a process with a drain job is granted, what binds then, and when it is to ask again."""
    now, grants, why, ask, _ = await worker.raw("take", next(worker.limiter.ids), 10, 1)
    groups: list[list[str]] = []
    for grant in grants:
        number = json.loads(grant[3])["n"]
        if keys.rides(grant):
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups, why, (int(ask) - now) / 1e6 if int(ask) else None


def soon(seconds: float) -> object:
    """About so many, and not more."""
    return pytest.approx(seconds - NEAR / 2, abs=NEAR / 2 + 0.001)


async def drainer(redis: Redis) -> tuple[str, float]:
    """Who asks next for the line, and in how many seconds."""
    token, at = (await redis.get(KEYS.wait_drainer)).split(" ")
    return token, (int(at) - await redis_us(redis)) / 1e6
