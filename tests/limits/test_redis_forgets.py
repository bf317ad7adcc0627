"""Redis may forget its scripts, its data, or what time it is."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace

from limits_bench import (
    FAST,
    KEYS,
    USPS,
    Hire,
    Worker,
    counted,
    redis_us,
    until,
)
from redis.asyncio import Redis

from limits.script_file import BATCH, load
from tracking.call import Granted, Parked
from tracking.errors import LimitsDown

QUIET = 1.0
HOUR_US = 3_600_000_000


async def test_scripts_that_redis_forgot_are_loaded_again(worker: Worker, redis: Redis) -> None:
    await redis.script_flush()

    call = await worker.granted("N001")

    assert await counted(redis, "calls") == (1,)
    assert call.request.number == "N001"


async def test_of_a_batch_only_what_redis_refused_is_sent_again(
    worker: Worker, redis: Redis
) -> None:
    await redis.script_flush()
    await redis.script_load(load()[BATCH].text)

    admissions, found, turn = await asyncio.gather(
        asyncio.gather(*(worker.admit(f"N{n:03}") for n in range(5))),
        worker.pipeline.run("survey", [KEYS.lines], [""]),
        worker.take(),
    )

    assert all(isinstance(admission, Granted) for admission in admissions)
    assert (found, turn.calls) == ([USPS], ())
    assert await counted(redis, "calls") == (5,)


async def test_scripts_that_are_forgotten_all_the_time_change_nothing(
    worker: Worker, redis: Redis
) -> None:
    over = asyncio.Event()
    flushing = asyncio.create_task(_flush_until(over, redis))

    done = 0
    try:
        for n in range(40):
            with suppress(LimitsDown):  # forgotten twice in one step: the flow repeats it
                await worker.granted(f"N{n:03}", slug=f"slug-{n}")
                done += 1
    finally:
        over.set()
        await flushing

    assert done > 0
    counts = [await redis.hget(f"tracking:counts:slug-{n}", "calls") for n in range(40)]
    assert counts.count("1") == done


async def _flush_until(over: asyncio.Event, redis: Redis) -> None:
    """A cancel may be lost in the client, where its reply comes in the same turn of the loop."""
    while not over.is_set():
        await redis.script_flush()


async def test_the_first_worker_begins_an_epoch_without_any_quiet(hire: Hire) -> None:
    first = await hire(quiet_seconds=30.0)
    second = await hire(quiet_seconds=30.0)

    assert first.epoch.name == second.epoch.name != ""
    assert isinstance(await second.admit(), Granted)


async def test_after_redis_lost_its_state_nobody_starts_for_the_quiet_time(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(quiet_seconds=QUIET)
    await worker.granted("N001")
    began = time.monotonic()
    await redis.flushdb()

    parked = await worker.parked("N002")
    assert parked == Parked("quiet", put_drain=True)

    async def taken() -> bool:
        return bool((await worker.take(claims=True)).calls)

    await until(taken)
    assert time.monotonic() - began >= QUIET
    assert worker.epoch.losses == 1


async def test_a_call_that_ran_when_redis_lost_its_state_can_end(hire: Hire, redis: Redis) -> None:
    worker = await hire(quiet_seconds=QUIET)
    call = await worker.granted("N001", id="op-1")
    await redis.flushdb()

    turn = await worker.finish(call)

    assert turn.calls == ()
    assert await redis.exists(KEYS.calls_leases, KEYS.calls_number) == 0


async def test_workers_agree_on_one_new_epoch(hire: Hire, redis: Redis) -> None:
    one, other = await hire(quiet_seconds=QUIET), await hire(quiet_seconds=QUIET)
    before = one.epoch.name
    await redis.flushdb()

    await asyncio.gather(one.admit("N001"), other.admit("N002"))
    late = await hire(quiet_seconds=QUIET)

    assert one.epoch.name == other.epoch.name == late.epoch.name != before
    assert (await late.parked("N003")).why == "queue"


async def test_a_loss_that_many_steps_find_at_once_is_one_loss(hire: Hire, redis: Redis) -> None:
    worker = await hire(quiet_seconds=QUIET)
    await redis.flushdb()

    await asyncio.gather(*(worker.admit(f"N{n:03}") for n in range(10)))

    assert worker.epoch.losses == 1


async def test_a_worker_that_only_drains_learns_the_new_epoch_too(hire: Hire, redis: Redis) -> None:
    worker = await hire(quiet_seconds=QUIET)
    await redis.flushdb()
    await redis.rpush(KEYS.wait_list, "N001")

    async def taken() -> bool:
        return bool((await worker.take(claims=True)).calls)

    await until(taken)
    assert worker.epoch.losses == 1


async def test_a_call_in_mid_way_ends_when_redis_has_lost_its_lease(
    worker: Worker, redis: Redis
) -> None:
    await worker.raw_admit("c")
    await redis.flushdb()

    _, word = await worker.raw("again", "c#2", "c")

    assert word == "gone"


async def test_leases_and_lanes_of_a_clock_that_stepped_back_are_clamped(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(FAST)
    call = await worker.granted("N001")
    ahead = await redis_us(redis) + HOUR_US
    await redis.zadd(KEYS.calls_leases, {call.id: ahead})
    await redis.zadd(KEYS.call_starts, {call.id: ahead})

    now, *_ = await worker.raw("sweep", "s")

    assert await redis.zscore(KEYS.calls_leases, call.id) == now + 60_000_000
    assert await redis.zscore(KEYS.call_starts, call.id) == now + 150_000 + 1_000_000 + 1_020_000


async def test_a_lane_of_a_clock_that_stepped_back_binds_for_seconds_only(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(replace(FAST, per_second=1))
    call = await worker.granted("N001")
    await redis.zadd(KEYS.call_starts, {call.id: await redis_us(redis) + HOUR_US})
    await redis.rpush(KEYS.wait_list, "N002")

    now, _, why, ask, _ = await worker.raw("take", "t", 5, 1)

    assert (why, int(ask) <= now + 3_000_000) == ("rate", True)


async def test_a_quiet_time_of_a_clock_that_stepped_back_is_clamped(
    worker: Worker, redis: Redis
) -> None:
    ahead = await redis_us(redis) + HOUR_US
    await redis.set(KEYS.epoch, f"{worker.epoch.name} {ahead}")
    await redis.rpush(KEYS.wait_list, "N001")

    now, _, why, *_ = await worker.raw("take", "t", 5, 1)
    name, quiet = (await redis.get(KEYS.epoch)).split()

    assert why == "quiet"
    assert (name, int(quiet)) == (worker.epoch.name, now + 60_000_000)


async def test_an_answer_of_a_clock_that_stepped_back_is_not_fresh(
    worker: Worker, redis: Redis
) -> None:
    await worker.finish(await worker.granted("N001"))
    key = f"{KEYS.answer}N001"
    text = await redis.get(key)
    observed = text.split('"observed":')[1].split(",")[0]
    await redis.set(key, text.replace(observed, str(int(observed) + 3_600_000)))

    assert isinstance(await worker.admit("N001"), Granted)
