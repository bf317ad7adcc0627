"""Lanes (lua/lib/lanes.lua) and slots: two starts in any second, twenty calls in flight, quotas.

Reports name instants of the past, so that nothing here has to wait for a second to go by.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest
from limits_bench import (
    FAST,
    KEYS,
    USPS,
    Hire,
    Worker,
    again_in,
    failed,
    raw,
    redis_us,
    sent,
    the_lease_ends,
)
from redis.asyncio import Redis

from limits.rules import Rules
from tracking.call import Granted, Parked

WINDOW_US = 1_020_000
LATE_US = 1_000_000
AHEAD_US = 150_000

LOOKS_FAR_AHEAD = {"ahead_us": 5_000_000}
"""So that no test is too slow for what it wants to see."""


async def free_at(redis: Redis) -> dict[str, int]:
    """When each lane that is taken is free again, by the start that took it."""
    lanes = await redis.zrange(KEYS.call_starts, 0, -1, withscores=True)
    return {name: int(score) for name, score in lanes}


async def two_starts(worker: Worker) -> None:
    await worker.raw_admit("a", "N001")
    await worker.raw_admit("b", "N002")


async def test_two_calls_start_in_a_second_and_the_third_waits(usps: Worker) -> None:
    await usps.granted("N001")
    await usps.granted("N002")

    parked = await usps.parked("N003")

    assert parked.why == "rate"


async def test_a_lane_without_a_report_counts_as_used_at_the_last_permitted_instant(
    usps: Worker, redis: Redis
) -> None:
    now, *_ = await usps.raw_admit("a")

    assert await free_at(redis) == {"a": now + LATE_US + WINDOW_US}


async def test_a_report_frees_the_lane_a_second_and_the_guard_after_the_send(
    usps: Worker, redis: Redis
) -> None:
    now, *_ = await usps.raw_admit("a")

    await usps.raw("started", reports=["a", now + 3_000])

    assert await free_at(redis) == {"a": now + 3_000 + WINDOW_US}


async def test_the_guard_is_a_rule_of_the_courier(hire: Hire, redis: Redis) -> None:
    worker = await hire(Rules(guard_ms=100))
    now, *_ = await worker.raw_admit("a")

    await worker.raw("started", reports=["a", now])

    assert await free_at(redis) == {"a": now + 1_100_000}


async def test_a_report_for_a_lane_that_went_to_another_start_changes_nothing(
    usps: Worker, redis: Redis
) -> None:
    await usps.raw("started", reports=["long-gone", await redis_us(redis)])

    assert await free_at(redis) == {}


async def test_a_call_is_granted_ahead_for_the_instant_its_lane_is_free(
    usps: Worker, redis: Redis
) -> None:
    patient = replace(usps, told=LOOKS_FAR_AHEAD)
    await two_starts(patient)
    free = await redis_us(redis) + 1_000_000

    await patient.raw("started", reports=["a", free - WINDOW_US])
    now, _, grant = await patient.raw_admit("c", "N003")

    assert now < free
    assert int(grant[1]) == free
    assert (await free_at(redis)).keys() == {"b", "c"}


async def test_nothing_is_granted_further_ahead_than_150_ms(usps: Worker, redis: Redis) -> None:
    await two_starts(usps)
    free = await redis_us(redis) + 1_000_000
    await usps.raw("started", reports=["a", free - WINDOW_US])
    await usps.parked("N003")

    _, grants, why, ask, _ = await usps.raw("take", "t", 5, 1)

    assert (grants, why) == ([], "rate")
    assert int(ask) == free - AHEAD_US


async def test_two_lanes_go_to_two_calls_each_at_its_own_instant(
    usps: Worker, redis: Redis
) -> None:
    patient = replace(usps, told=LOOKS_FAR_AHEAD)
    await two_starts(patient)
    await redis.rpush(KEYS.wait_list, "N003", "N004", "N005")
    free = await redis_us(redis) + 1_000_000

    reports = ["a", free - WINDOW_US, "b", free + 40_000 - WINDOW_US]
    _, grants, *_ = await patient.raw("take", "t", 2, 1, reports=reports)

    assert [int(at) for _, at, *_ in grants] == [free, free + 40_000]


async def test_a_drainer_that_waits_for_an_unreported_lane_asks_when_the_report_may_be_there(
    usps: Worker,
) -> None:
    await usps.raw_admit("a", "N001")
    start, *_ = await usps.raw_admit("b", "N002")
    await usps.parked("N003")

    now, _, _, ask, _ = await usps.raw("take", "t", 5, 1)

    # A send that is up to 30 ms late is reported by then, and its lane near enough to be granted.
    assert now + 50_000 <= int(ask) <= start + WINDOW_US - AHEAD_US + 30_000


async def test_a_call_that_was_not_sent_gives_its_start_back(usps: Worker, redis: Redis) -> None:
    await two_starts(usps)

    await usps.raw("hand_back", "b", 1, "t", 0)

    assert (await free_at(redis)).keys() == {"a"}


async def test_a_start_given_back_before_its_instant_leaves_its_lane_taken_until_then(
    usps: Worker, redis: Redis
) -> None:
    """The request that used the lane before went out less than a second before that instant."""
    patient = replace(usps, told=LOOKS_FAR_AHEAD)
    await two_starts(patient)
    free = await redis_us(redis) + 1_000_000
    await patient.raw("started", reports=["a", free - WINDOW_US])
    await patient.raw_admit("c", "N003")

    _, (grant,), *_ = await patient.raw("hand_back", "c", 1, "t", 1)

    assert int(grant[1]) >= free


async def test_a_call_that_may_have_left_keeps_its_start_spent(usps: Worker, redis: Redis) -> None:
    await two_starts(usps)

    await usps.raw("hand_back", "a", 0, "t", 0)
    await usps.raw("retry", "b", raw(again_in(5.0)), "u", 0)

    assert (await free_at(redis)).keys() == {"a", "b"}


async def test_every_further_request_of_a_call_takes_a_lane_of_its_own(
    usps: Worker, redis: Redis
) -> None:
    await usps.raw_admit("a", "N001")

    await usps.raw("again", "a#2", "a")

    assert (await free_at(redis)).keys() == {"a", "a#2"}
    assert (await usps.parked("N002")).why == "rate"


async def test_a_lower_rate_holds_as_soon_as_it_is_set(usps: Worker, redis: Redis) -> None:
    await two_starts(usps)
    now = await redis_us(redis)
    await usps.raw("started", reports=["a", now - 500_000, "b", now + 900_000])

    slower = replace(usps, told={**LOOKS_FAR_AHEAD, "per_second": 1})
    _, _, grant = await slower.raw_admit("c", "N003")

    assert int(grant[1]) == now + 900_000 + WINDOW_US


async def test_sec_calls_tells_how_many_started_in_the_last_second(
    usps: Worker, redis: Redis
) -> None:
    await two_starts(usps)

    assert await redis.get(KEYS.sec_calls) == "2"
    assert 0 < await redis.pttl(KEYS.sec_calls) <= 1_000


async def test_rules_that_change_between_two_requests_of_one_script_let_no_more_start(
    usps: Worker,
) -> None:
    newer = replace(usps, told={"deaths": 3})
    asking = [usps, newer, usps, newer]

    replies = await asyncio.gather(
        *(worker.raw_admit(f"call-{n}", f"N00{n}") for n, worker in enumerate(asking))
    )

    assert [reply[1] for reply in replies] == ["granted", "granted", "parked", "parked"]


HOUR_US = 3_600_000_000


async def twenty(worker: Worker) -> list[str]:
    return [(await worker.granted(f"N{n:03}")).id for n in range(20)]


async def test_twenty_calls_run_at_once_and_the_next_one_waits(
    worker: Worker, redis: Redis
) -> None:
    await twenty(worker)

    assert (await worker.parked("N999")).why == "concurrency"
    assert await redis.get(KEYS.calls_number) == "20"
    assert 0 < await redis.pttl(KEYS.calls_number) <= 60_000


async def test_of_forty_at_once_with_one_free_slot_one_is_granted(hire: Hire) -> None:
    workers = [await hire() for _ in range(4)]
    for n in range(19):
        await workers[0].granted(f"N{n:03}")

    admissions = await asyncio.gather(
        *(worker.admit(f"M{i}{n:03}") for i, worker in enumerate(workers) for n in range(10))
    )

    assert sum(isinstance(admission, Granted) for admission in admissions) == 1


async def test_a_freed_slot_goes_to_the_next_in_line_in_the_same_reply(hire: Hire) -> None:
    worker = await hire(replace(FAST, concurrent=1))
    running = await worker.granted("N001")
    await worker.parked("N002")

    turn = await worker.finish(running, room=5)

    assert [call.request.number for call in turn.calls] == ["N002"]


async def test_the_slot_of_a_dead_worker_comes_back_when_its_lease_ends(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(replace(FAST, concurrent=1))
    dead = await worker.granted("N001")
    await worker.parked("N002")

    await the_lease_ends(redis, dead)
    turn = await worker.take()

    assert [call.request.number for call in turn.calls] == ["N002"]


async def test_a_lease_lasts_as_long_as_the_rules_say(hire: Hire, redis: Redis) -> None:
    worker = await hire(replace(FAST, lease_seconds=40.0))

    now, _, grant = await worker.raw_admit("c")

    assert await redis.zscore(KEYS.calls_leases, grant[0]) == now + 40_000_000


async def test_leases_that_nobody_ends_leave_redis(worker: Worker, redis: Redis) -> None:
    await worker.granted()

    assert 0 < await redis.pttl(KEYS.calls_leases) <= 60_000


async def test_a_drainer_without_a_slot_asks_when_the_oldest_lease_ends(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(replace(FAST, concurrent=2))
    await worker.raw_admit("a", "N001")
    await worker.raw_admit("b", "N002")
    ends = await redis_us(redis) + 3_000_000
    await redis.zadd(KEYS.calls_leases, {"b": ends})
    await worker.parked("N003")

    _, _, why, ask, _ = await worker.raw("take", "t", 5, 1)

    assert (why, int(ask)) == ("concurrency", ends)


async def test_a_pause_stops_the_courier_for_every_worker(hire: Hire, redis: Redis) -> None:
    one, other = await hire(), await hire()
    call = await sent(await one.granted("N001"))

    turn = await one.limiter.retry(call, failed("rate_limited", named=20.0, delay=1.0), 5)

    assert turn.calls == ()
    assert turn.ask_again is not None
    assert turn.ask_again - time.monotonic() == pytest.approx(20.0, abs=2.0)
    assert (await other.parked("N002")).why == "paused"
    _, grants, why, *_ = await other.raw("take", "t", 5, 1)
    assert (grants, why) == ([], "paused")
    assert await redis.get(KEYS.calls_paused) == "rate_limited"


async def test_a_shorter_pause_does_not_shorten_a_longer_one(worker: Worker, redis: Redis) -> None:
    first, second = await worker.granted("N001"), await worker.granted("N002")

    await worker.limiter.retry(first, failed("rate_limited", named=60.0), 0)
    await worker.limiter.retry(second, failed("rate_limited", named=1.0), 0)

    assert await redis.pttl(KEYS.calls_paused) > 50_000


async def quota(hire: Hire, **of: int) -> Worker:
    return await hire(replace(FAST, **of))


async def test_an_hourly_quota_slides_by_the_single_start(hire: Hire, redis: Redis) -> None:
    worker = await quota(hire, per_hour=2)
    await worker.raw_admit("a", "N001")
    await worker.raw_admit("b", "N002")
    assert (await worker.parked("N003")).why == "per_hour"

    frees = await redis_us(redis) + 5_000_000
    await redis.zadd(KEYS.calls_hour, {"a": frees - HOUR_US})
    _, _, why, ask, _ = await worker.raw("take", "t", 5, 1)
    assert why == "per_hour"
    assert 0 <= int(ask) - frees <= 20_000  # and the guard

    await redis.zadd(KEYS.calls_hour, {"a": await redis_us(redis) - HOUR_US - 100_000})
    (call,) = (await worker.take()).calls
    assert call.request.number == "N003"
    assert await redis.pttl(KEYS.calls_hour) <= 2 * HOUR_US / 1000 + 2_000


async def test_an_hour_begins_with_the_send_and_not_with_the_grant(
    hire: Hire, redis: Redis
) -> None:
    worker = await quota(hire, per_hour=1)
    now, *_ = await worker.raw_admit("a", "N001")
    unreported = await redis.zscore(KEYS.calls_hour, "a")

    await worker.raw("started", reports=["a", now + 700_000])

    assert unreported == now + 1_000_000
    assert await redis.zscore(KEYS.calls_hour, "a") == now + 700_000


async def test_a_daily_quota_ends_at_the_couriers_reset(hire: Hire, redis: Redis) -> None:
    day = 86_400_000_000
    now = await redis_us(redis)
    resets_at = (now // 1_000_000 + 7_200) % 86_400
    worker = await quota(hire, per_day=1, day_resets_at_seconds=resets_at)
    await worker.granted("N001")

    assert (await worker.parked("N002")).why == "per_day"
    ends = await redis.pexpiretime(KEYS.calls_day) * 1000
    assert (ends - resets_at * 1_000_000) % day == 0
    assert now < ends <= now + 7_200_000_000

    await redis.delete(KEYS.calls_day)  # as at the reset
    assert (await worker.taken()).request.number == "N002"


async def test_no_call_is_granted_that_could_start_after_the_reset_it_is_counted_before(
    hire: Hire, redis: Redis
) -> None:
    now = await redis_us(redis)
    resets_at = (now // 1_000_000 + 1_800) % 86_400
    worker = await quota(hire, per_day=5, day_resets_at_seconds=resets_at)

    _, _, in_time = await worker.raw_admit("a", "N001")
    could_be_late = replace(worker, told={"late_us": HOUR_US})
    _, _, why, _ = await could_be_late.raw_admit("b", "N002")

    assert in_time[0] == "a"
    assert why == "per_day"


@pytest.mark.parametrize("rules", [Rules(per_hour=1), Rules(per_day=1)], ids=str)
async def test_a_quota_gets_back_what_certainly_did_not_start(
    hire: Hire, redis: Redis, rules: Rules
) -> None:
    worker = await hire(rules)
    call = await worker.granted("N001")

    turn = await worker.limiter.hand_back([call], 1)

    assert [again.request.number for again in turn.calls] == ["N001"]
    assert await redis.get(f"calls_day:{USPS}") in {None, "1"}


async def test_a_pause_holds_for_all_that_follows_in_the_same_script(hire: Hire) -> None:
    worker = await hire(replace(FAST, concurrent=1))
    call = await worker.granted("N001")
    await worker.parked("N003")

    admission, turn = await asyncio.gather(
        worker.admit("N002"), worker.limiter.retry(call, failed("rate_limited", named=60.0), 5)
    )

    assert isinstance(admission, Parked)
    assert turn.calls == ()
