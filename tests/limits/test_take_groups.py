"""Several numbers of one line are taken with one call: one permit, one lease, one start."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from grouped import THREE, group_of, groups_in, line_of_numbers, numbers_of, of_three, slots, wait
from limits_bench import (
    ANSWERED,
    FAST,
    KEYS,
    NO_PLACES,
    Hire,
    Worker,
    asked,
    counted,
    failed,
    redis_us,
    retries_are_due,
    state,
    the_lease_ends,
)
from redis.asyncio import Redis

from limits.limiter import Policy
from limits.rules import Rules
from tracking.request import Origin


async def test_those_next_in_line_ride_with_the_first_under_one_permit(wide: Worker) -> None:
    await wait(wide, "N001", "N002", "N003", "N004")

    turn = await wide.take()

    assert groups_in(turn) == [["N001", "N002", "N003"], ["N004"]]
    (lead, *riders), (alone,) = turn.groups
    assert [each.permit for each in riders] == [lead.permit] * 2
    assert alone.permit is not lead.permit


@pytest.mark.parametrize("name", ["!relist", "N*03"])
async def test_what_was_pushed_by_hand_and_is_no_number_does_not_ride(
    wide: Worker, redis: Redis, name: str
) -> None:
    await wait(wide, "N001", "N002")
    await redis.hset(KEYS.wait_requests, "!relist", "0")  # a sweep goes on there
    await redis.rpush(KEYS.wait_list, name)

    (lead, *_) = groups_in(await wide.take())

    assert lead == ["N001", "N002"]
    assert await redis.hget(KEYS.wait_requests, "!relist") == "0"


async def test_a_group_has_one_lease_and_one_start_whatever_it_carries(
    wide: Worker, redis: Redis
) -> None:
    lead, *_ = await group_of(wide, "N001", "N002", "N003")

    assert await slots(redis) == ([lead.id], 1)
    assert await redis.zrange(KEYS.call_starts, 0, -1) == [lead.id]
    assert await counted(redis, "calls") == (1,)


async def test_a_group_counts_once_against_the_quotas(hire: Hire, redis: Redis) -> None:
    worker = await hire(of_three(per_hour=10, per_day=10))

    await group_of(worker, "N001", "N002", "N003")

    assert await redis.zcard(KEYS.calls_hour) == 1
    assert await redis.get(KEYS.calls_day) == "1"


async def test_each_number_of_a_group_is_a_call_of_its_own(wide: Worker, redis: Redis) -> None:
    group = await group_of(wide, "N001", "N002", "N003")

    assert [each.operations for each in group] == [("op-N001",), ("op-N002",), ("op-N003",)]
    assert [await state(redis, f"op-N00{n}") for n in (1, 2, 3)] == ["RUNNING"] * 3
    ids = [each.id for each in group]
    assert await redis.hmget(KEYS.wait_inflight, "=N001", "=N002", "=N003") == ids
    assert await redis.hget(KEYS.wait_inflight, f"#{ids[0]}") == "3"


async def test_take_answers_riders_behind_their_lead(wide: Worker) -> None:
    await wait(wide, "N001", "N002", "N003", "N004")

    now, grants, why, ask, put = await wide.raw("take", "b", 5, 0)

    assert [grant[0] for grant in grants] == ["b:1", "b:1~2", "b:1~3", "b:2"]
    assert {(int(at), int(granted)) for _, at, granted, *_ in grants} == {(now, now)}
    assert [json.loads(ids) for *_, ids in grants] == [
        {"ids": [f"op-N00{n}"]} for n in (1, 2, 3, 4)
    ]
    leads = [json.loads(record).get("lead") for _, _, _, record, _ in grants]
    assert leads == ["b:1", "b:1", "b:1", None]
    assert (why, ask, put) == ("empty", 0, 0)


@pytest.mark.parametrize(("together", "numbers"), [(1, 3), (3, 1)], ids=["by the rules", "alone"])
async def test_a_number_that_goes_alone_is_written_as_ever(
    hire: Hire, redis: Redis, together: int, numbers: int
) -> None:
    worker = await hire(replace(FAST, together=together))
    await wait(worker, *(f"N00{n}" for n in range(numbers)))

    turn = await worker.take()

    assert [len(group) for group in turn.groups] == [1] * numbers
    fields = await redis.hgetall(KEYS.wait_inflight)
    assert not [field for field in fields if field.startswith("#") or "~" in field]
    assert "lead" not in json.loads(fields[turn.calls[0].id])


async def test_who_asks_and_finds_nobody_waiting_goes_alone(wide: Worker) -> None:
    call = await wide.granted("N001")

    assert (await wide.take()).groups == ()
    assert "~" not in call.id


async def test_room_is_for_calls_and_not_for_numbers(wide: Worker) -> None:
    await wait(wide, *(f"N00{n}" for n in range(9)))

    turn = await wide.take(2)

    assert [len(group) for group in turn.groups] == [3, 3]


async def test_slots_are_for_calls_and_not_for_numbers(hire: Hire) -> None:
    worker = await hire(of_three(concurrent=2))
    await wait(worker, *(f"N00{n}" for n in range(9)))

    assert [len(group) for group in (await worker.take()).groups] == [3, 3]


async def test_a_take_that_is_sent_again_answers_the_same_groups(
    wide: Worker, redis: Redis
) -> None:
    await wait(wide, *(f"N00{n}" for n in range(9)))

    _, first, *_ = await wide.raw("take", "b", 2, 0)
    _, second, *_ = await wide.raw("take", "b", 2, 0)

    assert second == first
    assert [each[0] for each in first] == ["b:1", "b:1~2", "b:1~3", "b:2", "b:2~2", "b:2~3"]
    assert await slots(redis) == (["b:1", "b:2"], 2)
    assert len(await line_of_numbers(redis)) == 3


async def test_automatic_requests_fill_what_manual_ones_leave(wide: Worker) -> None:
    await wait(wide, "A001", "A002", "A003", origin=Origin.AUTOMATIC)
    await wait(wide, "N001")

    assert groups_in(await wide.take(1)) == [["N001", "A001", "A002"]]


async def test_every_fourth_group_is_led_by_an_automatic_request(hire: Hire) -> None:
    worker = await hire(replace(FAST, together=2))
    await wait(worker, *(f"N{n:03}" for n in range(8)))
    await wait(worker, "A001", "A002", "A003", origin=Origin.AUTOMATIC)

    groups = groups_in(await worker.take(4))

    assert groups == [["N000", "N001"], ["N002", "N003"], ["N004", "N005"], ["A001", "A002"]]


async def test_a_number_of_two_accounts_rides_in_two_calls_and_keeps_its_place(
    wide: Worker, redis: Redis
) -> None:
    asked_for = [("N001", ""), ("N002", "")]
    asked_for += [("N002", "shop/"), ("N001", "shop/"), ("N003", "shop/")]
    for number, account in asked_for:
        await wide.limiter.admit(
            next(wide.limiter.ids),
            asked(number, id=f"{account}op-{number}"),
            f"job-{account}{number}",
            full=True,
        )

    turn = await wide.take(1)

    taken = [(each.request.number, each.account) for each in turn.calls]
    assert taken == [("N001", "main"), ("N002", "main"), ("N003", "shop")]
    assert await line_of_numbers(redis) == ["N002@shop", "N001@shop"]
    assert [each.account for each in (await wide.take(1)).calls] == ["shop", "shop"]


async def test_who_was_cancelled_or_runs_already_is_passed_over(wide: Worker, redis: Redis) -> None:
    running = await wide.granted("N003")
    await wait(wide, "N001", "N002", "N004")
    await redis.rpush(KEYS.wait_list, "N003")  # by hand: where it waits already it would join
    await wait(wide, "N005")
    await wide.raw("cancel", "N002", "op-N002", NO_PLACES)

    turn = await wide.take(1)

    assert groups_in(turn) == [["N001", "N004", "N005"]]
    await wide.finish(running)
    assert await redis.hget(KEYS.wait_inflight, "=N003") is None


async def test_a_lead_that_was_cancelled_before_its_turn_leaves_it_to_the_next(
    wide: Worker,
) -> None:
    await wait(wide, "N001", "N002", "N003")
    await wide.raw("cancel", "N001", "op-N001", NO_PLACES)

    assert groups_in(await wide.take()) == [["N002", "N003"]]


async def test_after_a_death_a_number_rides_alone(wide: Worker, redis: Redis) -> None:
    await the_lease_ends(redis, await wide.granted("N001"))
    await wide.raw("sweep", "s")
    await wait(wide, "N004", "N005")

    turn = await wide.take()

    assert groups_in(turn) == [["N001"], ["N004", "N005"]]


async def test_who_comes_back_after_a_death_rides_with_nobody_and_keeps_its_place(
    wide: Worker, redis: Redis
) -> None:
    await the_lease_ends(redis, await wide.granted("N001"), await wide.granted("N002"))
    await wide.raw("sweep", "s")
    await wait(wide, "N003", "N004")
    await wait(wide, "A001", "A002", origin=Origin.AUTOMATIC)
    await redis.hset(KEYS.wait_order, "turn", 3)  # the next one is an AUTOMATIC request

    assert groups_in(await wide.take(1)) == [["A001", "A002", "N003"]]
    assert await line_of_numbers(redis) == ["N001", "N002", "N004"]
    assert groups_in(await wide.take()) == [["N001"], ["N002"], ["N004"]]


async def test_nobody_is_dead_of_what_happened_in_company(hire: Hire, redis: Redis) -> None:
    worker = await hire(THREE, Policy(deaths=0))
    lead, *_ = await group_of(worker, "N001", "N002", "N003")
    await the_lease_ends(redis, lead)

    _, swept, dying, *_ = await worker.raw("sweep", "s")
    (half, *_), (poison,) = (await worker.take()).groups
    await the_lease_ends(redis, half, poison)
    _, swept_again, dying_alone, *_ = await worker.raw("sweep", "t")

    assert (swept, dying, swept_again) == (3, [], 2)
    assert [each[0] for each in dying_alone] == [poison.id]


async def test_while_one_call_alone_tries_it_is_for_one_number(wide: Worker, redis: Redis) -> None:
    call = await wide.granted("N000")
    await wait(wide, "N001", "N002", "N003")
    await wide.limiter.retry(call, failed("rate_limited"), 0)
    await redis.delete(KEYS.calls_paused)

    assert groups_in(await wide.take()) == [["N001"]]


async def test_numbers_that_come_back_ride_together_again(wide: Worker, redis: Redis) -> None:
    for call in await group_of(wide, "N001", "N002", "N003"):
        await wide.repeat(call)
    await retries_are_due(redis)

    assert groups_in(await wide.take()) == [["N001", "N002", "N003"]]


async def test_a_key_of_a_rider_that_is_broken_leaves_the_others_their_call(
    wide: Worker, redis: Redis
) -> None:
    await wait(wide, "N001", "N002")
    await redis.rpush(KEYS.wait_list, "PUSHED")
    await redis.sadd(f"{KEYS.answer}PUSHED", "x")
    await wait(wide, "N003")

    assert groups_in(await wide.take(1)) == [["N001", "N002", "N003"]]
    assert await line_of_numbers(redis) == ["PUSHED"]


async def test_a_number_for_which_many_wait_is_called_alone(wide: Worker) -> None:
    await wait(wide, "N001", "N002", "N003")
    for n in range(20):
        await wide.parked("N002", id=f"more-{n}")

    assert groups_in(await wide.take()) == [["N001", "N003"], ["N002"]]


@pytest.mark.parametrize("most", [30, 100])
async def test_all_numbers_of_a_long_group_are_granted_and_ended_as_one(
    hire: Hire, redis: Redis, measured: dict[str, list[str]], most: int
) -> None:
    """How long it takes Redis is for people to see: 5 ms at most are meant for a grant of 100."""
    worker = await hire(replace(FAST, together=most))
    grants, ends = [], []
    for attempt in range(8):
        numbers = [f"N{attempt}{n:03}" for n in range(most)]
        await wait(worker, *numbers)
        await redis.config_resetstat()
        (group,) = (await worker.take(1)).groups
        grants.append(await script_ms(redis))
        assert numbers_of(group) == numbers
        await redis.config_resetstat()
        await worker.limiter.finish([(each, ANSWERED) for each in group], 0)
        ends.append(await script_ms(redis))

    for what, took in (("granted", grants), ("ended", ends)):
        measured[f"{most} numbers are {what} in, by Redis"] = [f"{min(took):.2f} ms"]
    assert not await redis.exists(KEYS.wait_requests, KEYS.wait_inflight)


async def script_ms(redis: Redis) -> float:
    """How long scripts have kept Redis busy."""
    return float((await redis.info("commandstats"))["cmdstat_evalsha"]["usec"]) / 1000


async def test_what_waits_is_estimated_by_calls_and_not_by_numbers(
    hire: Hire, redis: Redis
) -> None:
    rules = Rules(per_second=1, together=3)
    worker = await hire(rules)
    await worker.granted("N000")
    await wait(worker, *(f"N{n:03}" for n in range(1, 8)))
    await redis.zadd("tracking:workers", {"{}": await redis_us(redis) / 1000 + 10_000})

    starts = [int((await worker.raw("place", f"N{n:03}", 0))[-1]) for n in range(1, 8)]

    first, fourth, seventh = starts[0], starts[3], starts[6]
    assert starts[:3] == [first] * 3
    assert starts[3:6] == [fourth] * 3
    assert fourth - first == seventh - fourth == rules.window_us
