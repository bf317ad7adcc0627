"""Calls for several numbers are filled: who waits for company, for how long, and who asks then."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from grouped import AUTOMATIC, groups_in, look, of_three, soon, spend, time_goes_by, wait
from limits_bench import FAST, KEYS, Hire, Worker, failed, retries_are_due
from redis.asyncio import Redis

from limits.keys import write_rules
from limits.rules import NOBODY, Rules

DAY = 86_400.0
SENT_LATE = 1.0
"""So long after its instant a call may leave; a quota counts it from then on."""


async def test_a_recheck_waits_for_company_although_nobody_waits(wide: Worker) -> None:
    parked = await wide.parked("A001", **AUTOMATIC)

    assert parked.why == "filling"
    assert await look(wide) == ([], "filling", soon(2.0))


async def test_where_a_call_is_for_one_number_it_goes_at_once(hire: Hire) -> None:
    worker = await hire(FAST)

    assert (await worker.granted("A001", **AUTOMATIC)).request.number == "A001"


async def test_it_goes_with_those_who_came_meanwhile_when_its_time_is_over(
    wide: Worker, redis: Redis
) -> None:
    await wide.parked("A001", **AUTOMATIC)
    await time_goes_by(redis, 1.0)
    await wide.parked("A002", **AUTOMATIC)
    assert await look(wide) == ([], "filling", soon(1.0))

    await time_goes_by(redis, 1.0)

    assert await look(wide) == ([["A001", "A002"]], "empty", None)


async def test_a_full_call_waits_for_nobody(wide: Worker) -> None:
    await wait(wide, "A001", "A002", "A003", **AUTOMATIC)
    assert await look(wide) == ([["A001", "A002", "A003"]], "empty", None)

    await wait(wide, *(f"A00{n}" for n in range(4, 8)), **AUTOMATIC)

    assert await look(wide) == ([["A004", "A005", "A006"]], "filling", soon(2.0))


async def test_a_manual_request_takes_them_along(wide: Worker) -> None:
    await wide.parked("A001", **AUTOMATIC)
    await wide.parked("N001")

    assert groups_in(await wide.take()) == [["N001", "A001"]]


async def test_a_recheck_that_somebody_wants_meanwhile_goes_at_once(wide: Worker) -> None:
    await wide.parked("A001", **AUTOMATIC)
    await wide.parked("A002", **AUTOMATIC)

    await wide.parked("A001")

    assert groups_in(await wide.take()) == [["A001", "A002"]]


async def test_one_that_was_tried_before_waits_for_no_company(
    rationed: Worker, redis: Redis
) -> None:
    await rationed.repeat(await rationed.granted("N001"))
    await retries_are_due(redis)

    assert groups_in(await rationed.take()) == [["N001"]]


async def test_halves_of_a_call_that_went_wrong_wait_for_no_company(
    wide: Worker, redis: Redis
) -> None:
    await wait(wide, "A001", "A002", **AUTOMATIC)
    await time_goes_by(redis, 2.0)
    await wait(wide, "A003", **AUTOMATIC)
    (group,) = (await wide.take()).groups

    turn = await wide.limiter.halve(group, 5)

    assert groups_in(turn) == [["A001", "A002"], ["A003"]]


async def test_who_is_to_be_asked_alone_waits_for_no_company(wide: Worker) -> None:
    await wide.granted("A001", alone=True, **AUTOMATIC)
    await wait(wide, "A002", "A003", "A004", **AUTOMATIC)
    ((*_, last),) = (await wide.take()).groups

    turn = await wide.limiter.ask_alone(last, 5)

    assert groups_in(turn) == [["A004"]]


async def test_the_company_of_one_that_expires_comes_a_second_before_that(wide: Worker) -> None:
    await wide.parked("A001", expires_at=time.time() + 1.5, **AUTOMATIC)

    _, why, ask = await look(wide)

    assert (why, ask) == ("filling", soon(0.5))


async def test_while_one_call_alone_tries_nobody_waits_for_company(
    wide: Worker, redis: Redis
) -> None:
    call = await wide.granted("N000")
    await wide.limiter.retry(call, failed("rate_limited"), 0)
    await redis.delete(KEYS.calls_paused, KEYS.wait_later, KEYS.wait_requests)

    assert (await wide.granted("A001", **AUTOMATIC)).request.number == "A001"


async def test_where_slots_are_taken_these_bind_and_not_company(hire: Hire) -> None:
    worker = await hire(of_three(concurrent=1))
    await worker.granted("N001")

    parked = await worker.parked("A001", **AUTOMATIC)

    assert parked.why == "concurrency"


async def test_under_a_quota_it_waits_for_the_mean_interval_of_its_calls(
    rationed: Worker, redis: Redis
) -> None:
    await rationed.parked("A001", **AUTOMATIC)
    await time_goes_by(redis, 40.0)
    assert await look(rationed) == ([], "filling", soon(20.0))

    await time_goes_by(redis, 20.0)

    assert await look(rationed) == ([["A001"]], "empty", None)


@pytest.mark.parametrize(
    ("rules", "seconds"),
    [
        (Rules(), 2.0),
        (Rules(fill_ms=500), 0.5),
        (Rules(per_hour=60), 60.0),
        (Rules(per_hour=3_600), 2.0),
        (Rules(per_day=100), 864.0),
        (Rules(per_hour=60, per_day=100), 864.0),
        (Rules(per_day=100, quotas_count_numbers=True), 2.0),
    ],
)
def test_company_is_waited_for_as_long_as_the_scarcest_quota_takes_between_calls(
    rules: Rules, seconds: float
) -> None:
    assert rules.fill_us == pytest.approx(seconds * 1e6)
    assert json.loads(write_rules(replace(rules, together=3), NOBODY))["fill_us"] == rules.fill_us
    assert "fill_us" not in json.loads(write_rules(rules, NOBODY))


async def test_under_a_quota_full_calls_of_rechecks_keep_to_its_share(
    rationed: Worker, redis: Redis
) -> None:
    """So that whenever somebody asks, there is some of the quota left, and company."""
    await wait(rationed, *(f"A00{n}" for n in range(9)), **AUTOMATIC)

    assert await look(rationed) == ([["A000", "A001", "A002"]], "filling", soon(30.0))
    await time_goes_by(redis, 57.0)
    assert await look(rationed) == ([], "filling", soon(3.0 + SENT_LATE))
    await time_goes_by(redis, 4.0)
    assert await look(rationed) == ([["A003", "A004", "A005"]], "filling", soon(30.0))


async def test_the_share_of_a_quota_keeps_nobody_who_asks_from_a_full_call(
    rationed: Worker,
) -> None:
    await wait(rationed, *(f"A00{n}" for n in range(9)), **AUTOMATIC)
    await rationed.take(claims=True)

    parked = await rationed.parked("N001")

    assert parked.put_drain
    assert groups_in(await rationed.take()) == [["N001", "A003", "A004"]]


async def test_an_urgent_recheck_is_not_kept_by_its_share(rationed: Worker, redis: Redis) -> None:
    await spend(rationed, redis, 1, seconds_ago=1.0)
    await wait(rationed, "A001", expires_at=time.time() + 1.0, **AUTOMATIC)
    await wait(rationed, "A002", **AUTOMATIC)

    assert groups_in(await rationed.take()) == [["A001", "A002"]]


async def test_without_a_quota_it_goes_at_once(wide: Worker) -> None:
    await wide.granted("N001")
    await wide.granted("N002")


async def test_under_a_quota_the_first_goes_at_once(rationed: Worker) -> None:
    await rationed.granted("N001")


async def test_while_no_more_is_spent_than_the_share_of_the_time_it_goes_at_once(
    rationed: Worker, redis: Redis
) -> None:
    await spend(rationed, redis, 1, seconds_ago=61.0)

    await rationed.granted("N001")


async def test_beyond_that_share_it_waits_for_company_for_ten_seconds(
    rationed: Worker, redis: Redis
) -> None:
    await spend(rationed, redis, 1, seconds_ago=1.0)

    parked = await rationed.parked("N001")

    assert parked.why == "filling"
    assert await look(rationed) == ([], "filling", soon(10.0))
    await time_goes_by(redis, 10.0)
    assert await look(rationed) == ([["N001"]], "empty", None)


async def test_it_waits_no_longer_than_until_its_share_is_reached(
    rationed: Worker, redis: Redis
) -> None:
    await spend(rationed, redis, 1, seconds_ago=57.0)
    await rationed.parked("N001")

    assert await look(rationed) == ([], "filling", soon(3.0))


async def test_beyond_its_share_it_goes_at_once_with_enough_for_a_full_call(
    rationed: Worker, redis: Redis
) -> None:
    await spend(rationed, redis, 1, seconds_ago=1.0)
    await wait(rationed, "A001", "A002", **AUTOMATIC)
    assert (await look(rationed))[1] == "filling"

    await rationed.parked("N001")

    assert groups_in(await rationed.take()) == [["N001", "A001", "A002"]]


async def test_a_recheck_that_waits_for_nobody_takes_it_along(
    rationed: Worker, redis: Redis
) -> None:
    await spend(rationed, redis, 1, seconds_ago=1.0)
    await rationed.parked("N001")
    await rationed.parked("A001", expires_at=time.time() + 1.0, **AUTOMATIC)

    assert groups_in(await rationed.take()) == [["A001", "N001"]]


async def test_of_a_days_quota_the_share_is_that_of_the_time_since_its_reset(
    hire: Hire, redis: Redis
) -> None:
    seconds, _ = await redis.time()
    resets = (seconds - DAY / 2) % DAY  # half a day ago
    worker = await hire(of_three(per_day=1000, day_resets_at_seconds=round(resets)))
    await worker.granted("N001")
    await redis.set(KEYS.calls_day, 500)
    await worker.granted("N002")

    parked = await worker.parked("N003")

    assert parked.why == "filling"


async def test_a_quota_that_is_used_up_binds_before_company(hire: Hire) -> None:
    worker = await hire(of_three(per_hour=1))
    await worker.granted("N001")

    assert (await worker.parked("N002")).why == "per_hour"
    assert (await worker.parked("A001", **AUTOMATIC)).why == "queue"


async def test_where_a_call_is_for_one_number_nobody_waits_for_company(hire: Hire) -> None:
    worker = await hire(replace(FAST, per_hour=60))

    for n in range(10):
        await worker.granted(f"N{n:03}")


async def test_rechecks_that_cannot_ride_have_every_fourth_turn_of_a_full_line(
    wide: Worker,
) -> None:
    await wait(wide, *(f"N{n:03}" for n in range(12)))
    await wait(wide, *(f"A{n:03}" for n in range(3)), **AUTOMATIC)

    leads = [group[0] for group in groups_in(await wide.take())]

    assert leads == ["N000", "N003", "N006", "A000", "N009"]
