"""What went wrong in the original system, and must hold here. "F7" numbers the original's flaws."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from limits_bench import (
    ANSWERED,
    FAST,
    KEYS,
    USPS,
    Hire,
    Worker,
    again_in,
    counted,
    redis_us,
    sent,
    state,
    the_lease_ends,
)
from redis.asyncio import Redis

from limits.rules import Rules
from tracking.call import Call, Granted
from tracking.operation import State

NO_EXPIRY = -1
AHEAD_US = 150_000


async def test_a_request_that_was_popped_and_lost_its_worker_is_still_held(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    """F3: after LPOP nothing else held the request."""
    await busy.parked("N001", id="op-1")
    lost = await free.taken()
    assert await redis.llen(KEYS.wait_list) == 0

    await the_lease_ends(redis, lost)
    await free.raw("sweep", "s")

    assert (await free.taken()).operations == ("op-1",)


async def test_forty_who_look_at_once_at_one_free_slot_are_one_call(
    hire: Hire, redis: Redis
) -> None:
    """F4: each drain timer read 19, and all 40 passed."""
    workers = [await hire() for _ in range(4)]
    for n in range(19):
        await workers[0].granted(f"B{n:03}")
    await redis.rpush(KEYS.wait_list, *(f"N{n:03}" for n in range(40)))

    turns = await asyncio.gather(*(worker.take(1) for worker in workers for _ in range(10)))

    assert sum(len(turn.calls) for turn in turns) == 1


async def test_who_waited_counts_against_the_rate_like_everybody_else(
    usps: Worker, redis: Redis
) -> None:
    """F5: the drain neither read nor counted the calls of the last second."""
    await redis.rpush(KEYS.wait_list, *(f"N{n:03}" for n in range(5)))

    assert len((await usps.take()).calls) == 2
    assert (await usps.take()).calls == ()
    assert await redis.get(KEYS.sec_calls) == "2"


async def test_the_flag_never_exists_without_its_expiry(busy: Worker, redis: Redis) -> None:
    """F6: INCR and EXPIRE were two steps; a flag without an end stopped the list for ever."""
    await busy.parked("N001")

    assert await redis.pttl(KEYS.wait_list_activated) > 0


async def test_a_flag_that_is_up_for_ever_stops_nobody(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    """F6, F7: a worker that found the flag up went away, and nothing drained the list again."""
    await redis.set(KEYS.wait_list_activated, "2")

    parked = await busy.parked("N001")
    turn = await free.take(claims=True)

    assert parked.put_drain
    assert [call.request.number for call in turn.calls] == ["N001"]
    assert not await redis.exists(KEYS.wait_list_activated)


async def test_after_its_drainer_died_a_list_of_thousands_is_drained_again_within_seconds(
    usps: Worker, redis: Redis
) -> None:
    """F8: all timers lived in one process, and the flag stayed up for 83 minutes."""
    await redis.rpush(KEYS.wait_list, *(f"N{n:05}" for n in range(10_000)))
    await usps.take(claims=True)
    assert await redis.pttl(KEYS.wait_list_activated) > 4_000_000

    assert 0 < await redis.pttl(KEYS.wait_drainer) <= 35_000
    await redis.delete(KEYS.wait_drainer)  # as its time to live does
    (swept,) = await usps.limiter.sweep([USPS])

    assert swept.put_drain


async def test_ten_drainers_at_once_keep_the_limits(hire: Hire, redis: Redis) -> None:
    """F9: two drainers were only kept apart by the flag."""
    workers = [await hire(Rules()) for _ in range(5)]
    await redis.rpush(KEYS.wait_list, *(f"N{n:03}" for n in range(30)))

    turns = await asyncio.gather(
        *(worker.take(claims=True) for worker in workers for _ in range(2))
    )

    assert sum(len(turn.calls) for turn in turns) == 2


async def test_the_calls_of_the_last_second_never_lose_their_expiry(
    usps: Worker, redis: Redis
) -> None:
    """F10: the key expired between GET and INCR, and the counter stood at 1 for ever."""
    for n in range(4):
        await usps.admit(f"N{n:03}", slug="usps")
        assert await redis.pttl(KEYS.sec_calls) != NO_EXPIRY
        await redis.delete(KEYS.sec_calls)
        await usps.take()

        assert await redis.pttl(KEYS.sec_calls) != NO_EXPIRY


async def test_a_count_that_expired_during_slow_calls_is_right_again_after_them(
    worker: Worker, redis: Redis
) -> None:
    """F11: DECR after the expiry made -1, and the limit was 21 from then on."""
    first, second = await worker.granted("N001"), await worker.granted("N002")
    await redis.delete(KEYS.calls_number)

    await worker.finish(first)
    assert await redis.get(KEYS.calls_number) == "1"
    assert 0 < await redis.pttl(KEYS.calls_number) <= 60_000

    await worker.finish(second)
    assert not await redis.exists(KEYS.calls_number)


async def test_slots_of_the_dead_come_back_under_steady_traffic(hire: Hire, redis: Redis) -> None:
    """F12: each new call renewed the expiry of the one counter, so leaked slots stayed for ever."""
    worker = await hire(replace(FAST, concurrent=3))
    dead = [await worker.granted(f"D{n:03}") for n in range(2)]
    await the_lease_ends(redis, *dead)

    calls = [await worker.granted(f"N{n:03}") for n in range(3)]

    assert len(calls) == 3
    assert await redis.get(KEYS.calls_number) == "3"


async def test_a_call_that_failed_in_any_way_gives_its_slot_back(
    worker: Worker, redis: Redis
) -> None:
    """F13: an exception between INCR and DECR burnt a slot."""
    limiter = worker.limiter

    await worker.finish(await worker.granted("N001"), ANSWERED._replace(state=State.ERROR))
    await limiter.retry(await worker.granted("N002"), again_in(60.0), 0)
    await limiter.hand_back([await sent(await worker.granted("N003"))], 0)

    assert await redis.exists(KEYS.calls_leases, KEYS.calls_number) == 0


async def test_a_refused_request_changes_no_count(usps: Worker, redis: Redis) -> None:
    """F14: what was refused rolled back an expired counter to -1."""
    await usps.granted("N001")
    await usps.granted("N002")
    await redis.delete(KEYS.sec_calls)

    for n in range(5):
        await usps.parked(f"M{n:03}")

    assert await redis.get(KEYS.sec_calls) is None
    assert await redis.zcard(KEYS.call_starts) == 2


@pytest.mark.parametrize("gap_us", [7_000, 500_000, 993_000])
async def test_the_second_slides_and_is_not_a_second_of_the_calendar(
    usps: Worker, redis: Redis, gap_us: int
) -> None:
    """F15: starts at 0.0, 0.993, 1.002 and 1.004 were three inside 12 ms."""
    await usps.raw_admit("a", "N001")
    await usps.raw_admit("b", "N002")
    first = await redis_us(redis) - 1_021_000
    second = first + gap_us

    await usps.raw("started", reports=["a", first, "b", second])
    _, _, third = await usps.raw_admit("c", "N003")
    await redis.rpush(KEYS.wait_list, "N004")
    _, grants, *_ = await usps.raw("take", "t", 1, 0)

    assert int(third[1]) - first >= 1_020_000
    assert all(int(fourth[1]) - second >= 1_020_000 for fourth in grants)
    assert grants or gap_us > AHEAD_US


async def test_starts_at_the_end_of_a_calendar_second_keep_their_lanes_in_the_next(
    usps: Worker, redis: Redis
) -> None:
    """F15, at the very boundary: a counter of calendar seconds would start from zero."""
    await usps.raw_admit("a", "N001")
    await usps.raw_admit("b", "N002")
    while (now := await redis_us(redis)) % 1_000_000 > 300_000:  # noqa: ASYNC110 - a clock
        await asyncio.sleep(0.05)
    just_before = now - now % 1_000_000 - 10_000

    await usps.raw("started", reports=["a", just_before, "b", just_before])
    _, third, why, _ = await usps.raw_admit("c", "N003")

    assert (third, why) == ("parked", "rate")


async def test_a_second_worker_that_repeats_a_slow_call_leaves_one_end(
    hire: Hire, redis: Redis
) -> None:
    """F16: the job came back to another worker while the first one's call was still running."""
    slow, second = await hire(), await hire()
    first_call = await slow.granted("N001", job="job-1", id="op-1")
    second_call = await second.granted("N001", job="job-1", id="op-1")

    for worker, call in ((slow, first_call), (second, second_call)):
        await worker.finish(call)

    assert await state(redis, "op-1") == "SUCCESS"
    assert await counted(redis, "SUCCESS") == (1,)
    assert await redis.exists(KEYS.wait_inflight, KEYS.calls_leases) == 0


async def test_a_call_that_was_taken_over_is_not_repeated_when_its_lease_ends(
    hire: Hire, redis: Redis
) -> None:
    """F16: who took the job over has answered it; the first worker is never heard of again."""
    lost, second = await hire(), await hire()
    lost_call = await lost.granted("N001", job="job-1", id="op-1")
    await second.finish(await second.granted("N001", job="job-1", id="op-1"))

    await the_lease_ends(redis, lost_call)
    _, swept, *_ = await second.raw("sweep", "s")

    assert swept == 0
    assert (await second.take()).calls == ()


async def test_a_call_that_was_taken_over_into_a_full_line_waits_there_once(
    hire: Hire, redis: Redis
) -> None:
    """F16: the lost call's own slot is what the line is full of."""
    narrow = replace(FAST, concurrent=1)
    lost, second = await hire(narrow), await hire(narrow)
    lost_call = await lost.granted("N001", job="job-1", id="op-1")
    await second.parked("N001", job="job-1", id="op-1")

    await the_lease_ends(redis, lost_call)
    _, swept, *_ = await second.raw("sweep", "s")
    await second.finish(await second.taken())

    assert swept == 0
    assert (await second.take()).calls == ()


async def test_everything_about_a_request_waits_with_it(busy: Worker, free: Worker) -> None:
    """F17: only the number was parked."""
    fields = {"tracking_postal_code": "10115"}
    await busy.parked("N001", id="op-1", given="n-001", fields=fields, traceparent="00-1-2-01")

    call: Call = await free.taken()

    assert call.operations == ("op-1",)
    assert (call.request.given, call.request.traceparent) == ("n-001", "00-1-2-01")
    assert call.request.fields == fields


async def test_a_slug_that_fails_all_the_time_costs_others_nothing(
    usps: Worker, redis: Redis
) -> None:
    """F13: limits are kept per courier, and so is everything that goes wrong with one."""
    for n in range(4):
        await usps.admit(f"N{n:03}", slug="broken")

    assert isinstance(await usps.admit("N001"), Granted)
    assert await redis.llen("wait_list:broken") == 2
