"""What the tests of groups share: numbers that wait, and go with one call."""

from __future__ import annotations

from dataclasses import replace

from limits_bench import FAST, KEYS, Worker, asked
from redis.asyncio import Redis

from limits.rules import Rules
from tracking.call import Call, Parked, TakeResult

THREE = replace(FAST, together=3)
"""Three numbers, at most, go with one call."""


def of_three(**limits: int) -> Rules:
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
