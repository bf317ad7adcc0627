"""The ends of a group go out together: the last takes, and a repetition is granted the same."""

from __future__ import annotations

import asyncio
import json

import pytest
from grouped import THREE, group_of, groups_in, line_of_numbers, of_three, slots, wait
from limits_bench import ANSWERED, KEYS, Hire, Worker, again_in, counted, sent, state, verdict
from redis.asyncio import Redis

from limits import limiter as limiter_module
from tracking.call import Call, Verdict
from tracking.errors import LimitsBroken

THIRTY = [f"N{n:03}" for n in range(30)]


@pytest.fixture
async def narrow(hire: Hire) -> Worker:
    """A worker of which one call is all that may run."""
    return await hire(of_three(concurrent=1))


@pytest.fixture
async def of_thirty(hire: Hire) -> Worker:
    return await hire(of_three(together=30, concurrent=1))


def ends_of(group: tuple[Call, ...]) -> list[tuple[Call, Verdict]]:
    return [(each, ANSWERED) for each in group]


async def asked_of(redis: Redis, command: str) -> int:
    told = await redis.info("commandstats")
    return int(told.get(f"cmdstat_{command}", {"calls": 0})["calls"])


async def test_a_group_ends_in_one_script_and_the_next_one_begins_in_it(
    of_thirty: Worker, redis: Redis
) -> None:
    group = await group_of(of_thirty, *THIRTY)
    await wait(of_thirty, "N900", "N901")
    await redis.config_resetstat()
    tasks = len(asyncio.all_tasks())

    turn = asyncio.ensure_future(of_thirty.limiter.finish(ends_of(group), 2))
    await asyncio.sleep(0)

    assert len(asyncio.all_tasks()) <= tasks + 2  # it, and the pipeline's
    assert groups_in(await turn) == [["N900", "N901"]]
    assert await asked_of(redis, "evalsha") == 1
    assert [await state(redis, f"op-{each}") for each in THIRTY] == ["SUCCESS"] * 30


async def test_what_is_known_of_a_group_is_asked_together(of_thirty: Worker, redis: Redis) -> None:
    group = await group_of(of_thirty, *THIRTY)
    await redis.config_resetstat()

    await of_thirty.limiter.finish(ends_of(group), 0)

    alone, together = ("get", "hget", "hdel"), ("mget", "hmget")
    assert sum([await asked_of(redis, each) for each in (*alone, *together)]) < 12


async def test_a_number_that_cannot_end_keeps_no_other_of_its_group_from_its_end(
    narrow: Worker, redis: Redis
) -> None:
    """Many wait behind it, and their list is of another type."""
    group = await group_of(narrow, "N001", "N002", "N003")
    for n in range(20):
        await narrow.parked("N001", id=f"more-{n}")
    listed = f"{KEYS.operations}N001"
    await redis.rename(listed, "kept")
    await redis.set(listed, "no list")

    with pytest.raises(LimitsBroken):
        await narrow.limiter.finish(ends_of(group), 1)
    assert [await state(redis, f"op-N00{n}") for n in (2, 3)] == ["SUCCESS"] * 2
    assert await slots(redis) == ([group[0].id], 1)

    await redis.rename("kept", listed)
    await narrow.limiter.finish(ends_of(group), 1)
    assert await slots(redis) == ([], 0)
    assert await counted(redis, "SUCCESS") == (23,)
    assert await redis.exists(KEYS.wait_inflight) == 0


async def test_a_hundred_ends_go_out_in_one_exchange_whatever_scripts_they_take(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(of_three(together=100, concurrent=1))
    numbers = [f"N{n:03}" for n in range(100)]
    group = await group_of(worker, *numbers)
    await wait(worker, "N900")

    turn = await worker.limiter.finish(ends_of(group), 1)

    assert groups_in(turn) == [["N900"]]
    assert [await state(redis, f"op-{each}") for each in numbers] == ["SUCCESS"] * 100
    assert await slots(redis) == ([turn.calls[0].id], 1)


async def test_ends_that_are_sent_again_are_granted_the_same_and_no_more(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(of_three(concurrent=5))
    group = await group_of(worker, "N001", "N002", "N003")
    await wait(worker, *(f"N9{n:02}" for n in range(9)))

    first = await worker.limiter.finish(ends_of(group), 1)
    second = await worker.limiter.finish(ends_of(group), 1)

    assert groups_in(first) == groups_in(second) == [["N900", "N901", "N902"]]
    assert [each.id for each in first.calls] == [each.id for each in second.calls]
    assert await slots(redis) == ([first.calls[0].id], 1)
    assert await counted(redis, "SUCCESS") == (3,)


@pytest.mark.parametrize("at_once", [100, 2])
async def test_a_group_whose_lead_ends_in_parts_gives_its_slot_on_when_all_have_ended(
    narrow: Worker, redis: Redis, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(limiter_module, "ENDED_AT_ONCE", at_once)
    group = await group_of(narrow, "N001", "N002", "N003")
    for n in range(250):
        await narrow.parked("N001", id=f"more-{n}")
    await wait(narrow, "N900")

    turn = await narrow.limiter.finish(ends_of(group), 1)

    assert groups_in(turn) == [["N900"]]
    assert await slots(redis) == ([turn.calls[0].id], 1)
    assert await counted(redis, "SUCCESS") == (253,)
    again = await narrow.limiter.finish(ends_of(group), 1)
    assert [each.id for each in again.calls] == [turn.calls[0].id]


async def test_a_group_that_ends_for_the_most_part_takes_nothing(narrow: Worker) -> None:
    group = await group_of(narrow, "N001", "N002", "N003")
    await wait(narrow, "N900")

    early = await narrow.limiter.finish(ends_of(group[:2]), None)
    retried = await narrow.limiter.retry(group[2], again_in(60.0), 1)

    assert (early.groups, early.ask_again, early.put_drain) == ((), None, False)
    assert groups_in(retried) == [["N900"]]


@pytest.mark.parametrize("step", ["retry", "hand_back", "halve", "ask_alone", "finish"])
async def test_while_others_end_right_behind_no_step_takes(
    hire: Hire, redis: Redis, step: str
) -> None:
    worker = await hire(THREE)
    group = await group_of(worker, "N001", "N002", "N003")
    await wait(worker, "N900", "N901")
    call, limiter = group[1], worker.limiter

    steps = {
        "retry": lambda: limiter.retry(call, again_in(60.0), None),
        "hand_back": lambda: limiter.hand_back([call], None),
        "halve": lambda: limiter.halve([call], None),
        "ask_alone": lambda: limiter.ask_alone(call, None),
        "finish": lambda: limiter.finish([(call, ANSWERED)], None),
    }
    result = await steps[step]()

    assert (result.groups, result.ask_again, result.put_drain, result.used_up) == (
        (),
        None,
        False,
        False,
    )
    assert await redis.hget(KEYS.wait_inflight, f"#{group[0].id}") == "2"
    assert await redis.hget(KEYS.wait_inflight, call.id) is None


async def test_a_step_that_frees_the_slot_although_others_were_to_come_says_so(
    narrow: Worker,
) -> None:
    first, last = await group_of(narrow, "N001", "N002")

    _, _, _, early, *_ = await narrow.raw("finish", first.id, verdict(1), "N001", "b", "")
    _, _, _, freed, *_ = await narrow.raw("finish", last.id, verdict(1), "N002", "b", "")
    _, _, _, again, *_ = await narrow.raw("finish", last.id, verdict(1), "N002", "b", "")

    assert (early, freed, again) == ("others", "freed", "others")


async def test_a_group_that_is_handed_back_at_once_keeps_its_order_and_its_start_comes_back(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(of_three(per_hour=10, per_day=10))
    group = await group_of(worker, "N001", "N002", "N003")
    await wait(worker, "N900")
    await redis.config_resetstat()

    await worker.limiter.hand_back(group, 0)

    assert await asked_of(redis, "evalsha") == 1
    assert await line_of_numbers(redis) == ["N001", "N002", "N003", "N900"]
    assert await redis.zcard(KEYS.calls_hour) == 0
    assert await redis.get(KEYS.calls_day) == "0"
    assert await slots(redis) == ([], 0)


async def test_a_group_that_may_have_been_sent_is_handed_back_with_its_start_spent(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(of_three(per_hour=10))
    group = await group_of(worker, "N001", "N002", "N003")
    await sent(group[0])

    turn = await worker.limiter.hand_back(group, 5)

    assert groups_in(turn) == [["N001", "N002", "N003"]]
    assert await redis.zcard(KEYS.calls_hour) == 2


async def test_a_call_of_one_ends_with_as_many_commands_as_ever(hire: Hire, redis: Redis) -> None:
    told = []
    seconds, _ = await redis.time()
    if seconds % 10 > 5:  # a hash of statistics is for 10 s, and each new one costs more commands
        await asyncio.sleep(10 - seconds % 10)
    for n, together in enumerate((1, 1, 30)):  # the first one makes the hashes of statistics
        worker = await hire(of_three(together=together))
        call = await worker.granted(f"N{n:03}", id=f"op-{n}")
        await redis.config_resetstat()
        await worker.finish(call)
        stats = await redis.info("commandstats")
        told.append({name: each["calls"] for name, each in stats.items()})

    _, one, thirty = told
    assert one == thirty


async def test_how_many_numbers_went_with_calls_is_counted_beside_the_calls(
    wide: Worker, redis: Redis
) -> None:
    await wide.granted("N000")
    await group_of(wide, "N001", "N002", "N003")

    assert await counted(redis, "calls", "numbers") == (2, 4)


async def test_where_a_call_is_for_one_number_its_numbers_are_not_counted_too(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(of_three(together=1))
    await worker.granted("N000")

    assert await redis.hget(KEYS.counts, "numbers") is None


async def test_a_group_is_picked_by_one_look_at_the_line(of_thirty: Worker, redis: Redis) -> None:
    await wait(of_thirty, *THIRTY, "N900")
    await redis.config_resetstat()

    await of_thirty.take(1)

    looks = [await asked_of(redis, each) for each in ("lrange", "lpop", "ltrim", "hdel", "lset")]
    assert looks == [1, 1, 1, 2, 0]
    assert await asked_of(redis, "hmget") <= 4  # both looks, the places, the limits
    assert await line_of_numbers(redis) == ["N900"]


async def test_those_that_are_passed_over_keep_their_places_between_gaps(
    wide: Worker, redis: Redis
) -> None:
    await wait(wide, "N001")
    await wait(wide, "N002", alone=True)
    await wait(wide, "N003")
    await wait(wide, "N004", alone=True)
    await wait(wide, "N005", "N006")

    turn = await wide.take(1)

    assert groups_in(turn) == [["N001", "N003", "N005"]]
    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N002", "", "N004", "", "N006"]
    positions = [
        json.loads(await redis.hget(KEYS.wait_requests, each) or "{}")["position"]
        for each in ("N002", "N004", "N006")
    ]
    assert positions == [1, 3, 5]
    assert (await wide.raw("place", "N006", 0))[1:4] == ["waiting", "manual", 2]


async def test_riders_are_looked_for_no_further_than_four_times_what_a_call_takes(
    wide: Worker, redis: Redis
) -> None:
    await wait(wide, "N001")
    await wait(wide, *(f"A{n:03}" for n in range(12)), alone=True)
    await wait(wide, "N002")

    assert groups_in(await wide.take(1)) == [["N001"]]
    assert len(await line_of_numbers(redis)) == 13


async def test_a_rider_whose_time_is_over_ends_and_leaves_its_place_to_the_next(
    wide: Worker, redis: Redis
) -> None:
    await wait(wide, "N001")
    seconds, _ = await redis.time()
    await wait(wide, "N002", expires_at=seconds + 1.05)
    await wait(wide, "N003", "N004")
    await asyncio.sleep(1.3)

    assert groups_in(await wide.take(1)) == [["N001", "N003", "N004"]]
    assert await state(redis, "op-N002") == "CANCELLED"
    assert not await redis.exists(KEYS.wait_list, KEYS.wait_requests)
