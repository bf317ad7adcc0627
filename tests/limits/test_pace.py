"""At most two starts in any second: lanes, the look-ahead, and what a report changes.

Reports name instants of the past, so that nothing here has to wait for a second to go by.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from limits_bench import KEYS, Hire, Worker, again_in, raw, redis_us
from redis.asyncio import Redis

from limits.rules import Rules

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
