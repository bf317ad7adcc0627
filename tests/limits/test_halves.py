"""A call for several numbers that one of them may have spoilt: halves are tried, then one alone."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import pytest
from grouped import group_of, groups_in, line_of_numbers, numbers_of, of_three, slots, wait
from limits_bench import (
    ANSWERED,
    KEYS,
    NO_PLACES,
    USPS,
    Hire,
    Worker,
    asked,
    counted,
    failed,
    forget,
    retries_are_due,
    state,
    the_lease_ends,
)
from redis.asyncio import Redis

from limits.admin.forget import Forgetter
from limits.limiter import Policy
from tracking.call import Call, TakeResult
from tracking.line import Line
from tracking.request import Origin

THIRTY = [f"N{n:03}" for n in range(30)]
BAD = THIRTY[13]


@pytest.fixture
async def wide(hire: Hire) -> Worker:
    return await hire(of_three(together=6))


@pytest.fixture
async def of_thirty(hire: Hire) -> Worker:
    return await hire(of_three(together=30))


async def waiting(redis: Redis, number: str) -> dict[str, object]:
    """The record of a number that waits."""
    return dict(json.loads(await redis.hget(KEYS.wait_requests, number) or "{}"))


async def halved(worker: Worker, *numbers: str) -> TakeResult:
    """What is taken behind a group that failed in company."""
    return await worker.limiter.halve(await group_of(worker, *numbers), 5)


async def test_a_group_that_failed_comes_back_in_two_halves_before_all_others(wide: Worker) -> None:
    group = await group_of(wide, *THIRTY[:5])
    await wait(wide, "N900", "N901")

    turn = await wide.limiter.halve(group, 5)

    assert groups_in(turn) == [["N000", "N001", "N002"], ["N003", "N004"], ["N900", "N901"]]


async def test_nobody_is_charged_for_a_group_that_is_halved(wide: Worker, redis: Redis) -> None:
    turn = await halved(wide, *THIRTY[:4])

    assert {(each.attempts, each.deaths, each.tries) for each in turn.calls} == {(0, 0, 0)}
    assert not await redis.exists(KEYS.calls_paused, KEYS.calls_brake)
    assert [await state(redis, f"op-{each}") for each in THIRTY[:4]] == ["RUNNING"] * 4


async def test_a_group_that_is_halved_frees_one_slot_and_its_start_stays_spent(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(of_three(concurrent=1, per_hour=10))
    group = await group_of(worker, "N001", "N002", "N003")

    await worker.limiter.halve(group, 0)

    assert await slots(redis) == ([], 0)
    assert await redis.zcard(KEYS.calls_hour) == 1
    assert await counted(redis, "calls") == (1,)


async def test_a_group_that_is_halved_twice_over_goes_back_once(wide: Worker, redis: Redis) -> None:
    group = await group_of(wide, *THIRTY[:4])

    first = await wide.limiter.halve(group, 1)
    second = await wide.limiter.halve(group, 1)

    assert groups_in(first) == groups_in(second) == [["N000", "N001"]]
    assert await line_of_numbers(redis) == ["N002", "N003"]


async def test_the_halves_of_both_lists_find_each_other(wide: Worker) -> None:
    await wait(wide, "A001", "A002", origin=Origin.AUTOMATIC)
    await wait(wide, "N001", "N002")
    (group,) = (await wide.take()).groups
    assert numbers_of(group) == ["N001", "N002", "A001", "A002"]

    turn = await wide.limiter.halve(group, 5)

    assert groups_in(turn) == [["N001", "N002"], ["A001", "A002"]]


async def tried(worker: Worker, numbers: Sequence[str], bad: str) -> tuple[int, list[Call]]:
    """How many calls it takes until all are answered but the bad one, and what is left."""
    made, left = 0, list[Call]()
    groups = [await group_of(worker, *numbers)]
    while groups:
        group = groups.pop(0)
        made += 1
        if bad not in numbers_of(group):
            turn = await worker.limiter.finish([(each, ANSWERED) for each in group], 5)
        elif len(group) > 1:
            turn = await worker.limiter.halve(group, 5)
        else:
            left += group
            turn = TakeResult()
        groups += turn.groups
    return made, left


@pytest.mark.parametrize("bad", [THIRTY[0], BAD, THIRTY[29]])
async def test_of_thirty_numbers_with_a_bad_one_all_others_are_answered_in_few_calls(
    of_thirty: Worker, redis: Redis, bad: str
) -> None:
    made, left = await tried(of_thirty, THIRTY, bad)

    assert made <= 1 + 2 * math.ceil(math.log2(30))
    assert numbers_of(tuple(left)) == [bad]
    ends = [await state(redis, f"op-{each}") for each in THIRTY if each != bad]
    assert ends == ["SUCCESS"] * 29


async def test_a_bad_number_that_fails_alone_rides_with_nobody_later(
    of_thirty: Worker, redis: Redis
) -> None:
    _, (bad,) = await tried(of_thirty, THIRTY[:4], THIRTY[1])
    await of_thirty.limiter.retry(bad, failed("courier_down", brake=None), 0)
    await wait(of_thirty, "N900", "N901")
    await retries_are_due(redis)

    turn = await of_thirty.take()

    assert groups_in(turn) == [["N900", "N901"], [THIRTY[1]]]


async def test_a_half_that_failed_as_a_whole_stays_together(wide: Worker, redis: Redis) -> None:
    turn = await halved(wide, *THIRTY[:4])
    for call in turn.groups[0]:
        await wide.repeat(call)
    await wait(wide, "N900")
    await retries_are_due(redis)

    assert groups_in(await wide.take()) == [["N900"], ["N000", "N001"]]


async def test_a_half_that_was_cancelled_leaves_nothing(wide: Worker, redis: Redis) -> None:
    group = await group_of(wide, *THIRTY[:4])
    await wide.limiter.halve(group, 0)
    for number in THIRTY[:2]:
        await wide.raw("cancel", number, f"op-{number}", NO_PLACES)
    await wait(wide, "N900")

    turn = await wide.take()

    assert groups_in(turn) == [["N002", "N003"], ["N900"]]
    await wide.limiter.finish([(each, ANSWERED) for each in turn.groups[0]], 0)
    await wide.finish(turn.groups[1][0])
    assert not await redis.exists(KEYS.wait_requests, KEYS.wait_inflight, KEYS.wait_list)


async def test_a_lead_that_is_cancelled_in_its_half_leaves_the_turn_to_the_others(
    wide: Worker,
) -> None:
    group = await group_of(wide, *THIRTY[:6])
    await wide.limiter.halve(group, 0)
    await wide.raw("cancel", "N000", "op-N000", NO_PLACES)

    turn = await wide.take()

    assert groups_in(turn) == [["N001", "N002"], ["N003", "N004", "N005"]]


async def test_a_group_whose_lead_was_forgotten_is_halved_without_it(
    hire: Hire, forgetter: Forgetter, redis: Redis
) -> None:
    worker = await hire(of_three(concurrent=1, together=6))
    group = await group_of(worker, "N001", "N002", "N003", "N004")
    await forget(forgetter)

    turn = await worker.limiter.halve(group, 5)

    assert groups_in(turn) == [["N002"]]
    assert await line_of_numbers(redis) == ["N003", "N004"]
    assert await slots(redis) == ([turn.calls[0].id], 1)


async def test_who_asks_meanwhile_joins_a_number_of_a_half(wide: Worker) -> None:
    group = await group_of(wide, *THIRTY[:4])
    await wide.limiter.halve(group, 0)
    await wide.parked("N002", id="more")

    half = (await wide.take()).groups[1]

    assert numbers_of(half) == ["N002", "N003"]
    assert half[0].operations == ("more", "op-N002")


async def test_a_group_whose_worker_vanished_is_called_in_halves(
    of_thirty: Worker, redis: Redis
) -> None:
    lead, *_ = await group_of(of_thirty, *THIRTY)
    await the_lease_ends(redis, lead)

    _, swept, dying, *_ = await of_thirty.raw("sweep", "s")

    turn = await of_thirty.take()
    assert (swept, dying) == (30, [])
    assert groups_in(turn) == [THIRTY[:15], THIRTY[15:]]
    assert {each.deaths for each in turn.calls} == {0}


async def test_what_is_left_of_a_group_whose_worker_vanished_between_two_ends_is_halved(
    of_thirty: Worker, redis: Redis
) -> None:
    group = await group_of(of_thirty, *THIRTY)
    await of_thirty.limiter.finish([(each, ANSWERED) for each in group[:10]], None)
    await the_lease_ends(redis, group[0])

    (swept,) = await of_thirty.limiter.sweep([Line(USPS)])

    assert swept.swept == 20
    assert groups_in(await of_thirty.take()) == [THIRTY[10:20], THIRTY[20:]]
    assert [await state(redis, f"op-{each}") for each in THIRTY[:10]] == ["SUCCESS"] * 10


async def test_groups_that_were_granted_at_once_are_halved_each_for_itself(
    wide: Worker, redis: Redis
) -> None:
    await wait(wide, *THIRTY[:12])
    turn = await wide.take()
    await the_lease_ends(redis, *(group[0] for group in turn.groups))

    await wide.raw("sweep", "s")

    assert groups_in(await wide.take()) == [THIRTY[begin : begin + 3] for begin in range(0, 12, 3)]


async def test_a_poison_is_dead_once_it_vanished_alone_and_takes_nobody_along(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(of_three(together=30), Policy(deaths=2))
    groups, dying, sweeps = [await group_of(worker, *THIRTY)], list[str](), 0
    while groups:
        group = groups.pop(0)
        if BAD in numbers_of(group):
            await the_lease_ends(redis, group[0])
            _, _, found, *_ = await worker.raw("sweep", f"s{sweeps}")
            dying += [json.loads(grant[3])["n"] for grant in found]
            sweeps += 1
        else:
            await worker.limiter.finish([(each, ANSWERED) for each in group], 0)
        groups += (await worker.take()).groups

    assert dying == [BAD]
    assert sweeps <= math.ceil(math.log2(30)) + 3
    ends = [await state(redis, f"op-{each}") for each in THIRTY if each != BAD]
    assert ends == ["SUCCESS"] * 29


async def test_a_number_that_an_answer_left_out_is_asked_alone_at_once(
    wide: Worker, redis: Redis
) -> None:
    group = await group_of(wide, "N001", "N002", "N003")
    await wait(wide, "N900", "N901")
    await wide.limiter.ask_alone(group[1], None)

    turn = await wide.limiter.finish([(group[0], ANSWERED), (group[2], ANSWERED)], 5)

    assert groups_in(turn) == [["N002"], ["N900", "N901"]]
    alone, *others = turn.calls
    assert alone.alone
    assert not any(each.alone for each in others)
    assert (alone.attempts, alone.tries, alone.deaths) == (0, 0, 0)
    assert await slots(redis) == (sorted([alone.id, others[0].id]), 2)


async def test_a_number_stays_alone_until_it_is_answered(wide: Worker, redis: Redis) -> None:
    group = await group_of(wide, "N001", "N002")
    await wide.limiter.ask_alone(group[1], None)
    (alone,) = (await wide.limiter.finish([(group[0], ANSWERED)], 5)).calls
    await wide.repeat(alone)
    await wait(wide, "N900")
    await retries_are_due(redis)

    again = await wide.take()

    assert groups_in(again) == [["N900"], ["N002"]]
    await wide.finish(again.calls[1])
    await wait(wide, "N901")
    await wide.limiter.admit(
        next(wide.limiter.ids), asked("N002", max_age=0.0), "job-new", full=True
    )
    (group,) = (await wide.take()).groups
    assert numbers_of(group) == ["N901", "N002"]


async def test_a_request_may_say_that_its_number_is_to_be_asked_alone(wide: Worker) -> None:
    await wait(wide, "N001", "N002")
    await wait(wide, "N003", alone=True)
    await wait(wide, "N004")

    turn = await wide.take()

    assert groups_in(turn) == [["N001", "N002", "N004"], ["N003"]]
    assert [each.alone for each in turn.calls] == [False, False, False, True]


async def test_numbers_with_other_fields_ride_in_other_calls(wide: Worker) -> None:
    await wait(wide, "N001", fields={"postal_code": "1010"})
    await wait(wide, "N002")
    await wait(wide, "N003", fields={"postal_code": "1010"})
    await wait(wide, "N004", fields={"postal_code": "1020"})
    await wait(wide, "N005")

    turn = await wide.take()

    assert groups_in(turn) == [["N001", "N003"], ["N002", "N005"], ["N004"]]


async def test_an_operation_of_a_rider_is_left_alone_by_who_cancels_it(wide: Worker) -> None:
    await group_of(wide, "N001", "N002")

    assert (await wide.raw("cancel", "N002", "op-N002", NO_PLACES))[1:] == ["running"]


async def test_a_job_of_a_rider_that_comes_back_finds_its_call_under_way(
    wide: Worker, redis: Redis
) -> None:
    group = await group_of(wide, "N001", "N002", "N003")

    parked = await wide.parked("N002", job="job-N002", id="op-N002")

    assert parked.why == "known"
    await wide.limiter.finish([(each, ANSWERED) for each in group], 0)
    assert await wide.ended("N002", job="job-N002", id="op-N002") == "SUCCESS"
    assert not await redis.exists(KEYS.wait_inflight, KEYS.wait_requests)


async def test_the_number_of_a_rider_is_called_for_another_account_beside_it(
    wide: Worker, redis: Redis
) -> None:
    group = await group_of(wide, "N001", "N002")
    await wait(wide, "N003")
    await wide.limiter.admit(
        next(wide.limiter.ids), group[1].request._replace(id="shop/op-N002"), "job-shop", full=True
    )

    (other,) = (await wide.take()).groups

    assert [(each.request.number, each.account) for each in other] == [
        ("N003", "main"),
        ("N002", "shop"),
    ]
    await wide.limiter.finish([(each, ANSWERED) for each in group], 0)
    assert await state(redis, "shop/op-N002") == "RUNNING"
