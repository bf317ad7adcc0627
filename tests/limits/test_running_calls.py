"""What runs is listed by its start, with what began and never ended."""

from __future__ import annotations

from limits_bench import KEYS, USPS, Hire, Worker, redis_us, the_lease_ends
from redis.asyncio import Redis

from limits.admin.running import running_calls
from limits.limiter import Policy
from limits.workers import WorkerInfo
from tracking.request import Slug


async def test_what_runs_on_all_lines_is_listed_by_its_start(hire: Hire, redis: Redis) -> None:
    worker = await hire(policy=Policy(who=WorkerInfo("host-1", 11, "9.9.9", 0.0)))
    await worker.granted("N001", id="op-1")
    await worker.granted("N002", job="job-2", slug=Slug("dpd-uk"))
    await worker.parked("N001", id="op-2", max_age=0.0)
    now = await redis_us(redis) / 1e6

    first, second = await running_calls(redis)

    assert (first.line, first.number, first.operations) == (USPS, "N001", ("op-1",))
    assert (second.line, second.operations) == ("dpd-uk", ("dpd-uk:N002:job-2",))
    assert 0 <= first.seconds < 10
    assert abs(now - first.started) < 10
    assert first.lease_seconds is not None
    assert 50 < first.lease_seconds <= 60
    assert {(each.worker, each.attempt, each.requests) for each in (first, second)} == {
        ("host-1 11", 1, 1)
    }


async def test_a_call_that_began_and_never_ended_is_listed_until_a_sweep(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted("N001", id="op-1")
    await the_lease_ends(redis, call)

    (lost,) = await running_calls(redis)

    assert (lost.call, lost.lease_seconds, lost.worker) == (call.id, None, "")
    await worker.raw("sweep", "s")
    assert await running_calls(redis) == []


async def test_everybody_who_waits_for_a_call_is_counted_and_the_newest_are_named(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    for n in range(20):
        await busy.parked("N001", id=f"op-{n}")
    await busy.parked("N001", job="job-1")
    await busy.parked("N001", job="job-2")
    await free.repeat(await free.taken(), 0.0)
    await redis.zadd(KEYS.wait_later, {"N001": 1})
    await free.taken()

    _, last = await running_calls(redis)

    assert (last.requests, last.attempt, len(last.operations)) == (22, 2, 17)
    assert {"op-19", "usps:N001:job-1"} <= set(last.operations)
