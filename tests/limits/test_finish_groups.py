"""The end of a group: its slot is free with the last of its numbers, each ends for itself."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence

import pytest
from grouped import group_of, groups_in, line_of_numbers, numbers_of, of_three, slots, wait
from limits_bench import (
    ANSWERED,
    DEAD,
    KEYS,
    NO_PLACES,
    USPS,
    Hire,
    Worker,
    a_second_goes_by,
    counted,
    failed,
    forget,
    raw,
    retries_are_due,
    sent,
    state,
    the_lease_ends,
    verdict,
)
from redis.asyncio import Redis
from watched_limits import judged, watched

from limits.admin.forget import Forgetter
from limits.admin.running import running_calls
from tracking.call import Call
from tracking.errors import NotStarted
from tracking.line import Line

LINES = [Line(USPS)]
ONE = of_three(concurrent=1)


@pytest.fixture
async def narrow(hire: Hire) -> Worker:
    """A worker of which one call is all that may run."""
    return await hire(ONE)


def ends(call: Call) -> bytes:
    return verdict(call.granted_us // 1000)


async def tallied(redis: Redis, prefix: str) -> int:
    """How many calls are counted under this word."""
    (name,) = await redis.keys("tracking:stats1:*")
    fields = await redis.hgetall(name)
    return sum(int(n) for each, n in fields.items() if each.startswith(prefix) and each[-1] != "-")


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
async def test_a_slot_is_free_with_the_last_of_its_group_whichever_that_is(
    narrow: Worker, redis: Redis, order: Sequence[int]
) -> None:
    group = await group_of(narrow, "N001", "N002", "N003")
    await wait(narrow, "N004")

    for n in order[:2]:
        assert (await narrow.finish(group[n], room=2)).groups == ()
        assert await slots(redis) == ([group[0].id], 1)
    turn = await narrow.finish(group[order[2]], room=2)

    assert groups_in(turn) == [["N004"]]
    assert await slots(redis) == ([turn.calls[0].id], 1)


async def test_nothing_is_left_of_a_group_that_has_ended(wide: Worker, redis: Redis) -> None:
    for call in await group_of(wide, "N001", "N002", "N003"):
        await wide.finish(call)

    assert [await state(redis, f"op-N00{n}") for n in (1, 2, 3)] == ["SUCCESS"] * 3
    assert await redis.exists(KEYS.wait_inflight, KEYS.calls_leases, KEYS.calls_number) == 0


@pytest.mark.parametrize("n", [0, 1], ids=["lead", "rider"])
async def test_an_end_that_is_sent_again_ends_nobody_else(
    narrow: Worker, redis: Redis, n: int
) -> None:
    group = await group_of(narrow, "N001", "N002", "N003")
    call = group[n]

    for _ in range(4):
        await narrow.raw("finish", call.id, ends(call), call.request.number, "f", 0)
        await narrow.raw("hand_back", call.id, 0, "h", 0)

    assert await slots(redis) == ([group[0].id], 1)
    assert await redis.hget(KEYS.wait_inflight, f"#{group[0].id}") == "2"


async def test_a_group_is_one_call_of_the_statistics(wide: Worker, redis: Redis) -> None:
    for call in await group_of(wide, "N001", "N002", "N003"):
        await wide.finish(call)

    assert await tallied(redis, "SUCCESS") == 1
    assert await counted(redis, "SUCCESS", "calls") == (3, 1)


async def test_half_of_a_group_is_repeated_and_the_other_half_has_ended(
    narrow: Worker, redis: Redis
) -> None:
    group = await group_of(narrow, "N001", "N002", "N003")

    await narrow.repeat(group[0])
    await narrow.finish(group[1])
    assert await slots(redis) == ([group[0].id], 1)
    await narrow.repeat(group[2])

    assert await slots(redis) == ([], 0)
    assert await redis.zrange(KEYS.wait_later, 0, -1) == ["N001", "N003"]
    await retries_are_due(redis)
    assert groups_in(await narrow.take()) == [["N001", "N003"]]


async def test_a_group_that_is_repeated_counts_as_one_repeated_call(
    wide: Worker, redis: Redis
) -> None:
    for call in await group_of(wide, "N001", "N002", "N003"):
        await wide.repeat(call)

    assert await tallied(redis, "repeated") == 1


async def test_the_operation_of_a_lead_that_runs_is_left_alone_by_who_cancels(wide: Worker) -> None:
    await group_of(wide, "N001", "N002")

    assert (await wide.raw("cancel", "N001", "op-N001", NO_PLACES))[1:] == ["running"]


@pytest.mark.parametrize("n", [0, 1], ids=["lead", "rider"])
async def test_a_number_of_a_group_that_is_forgotten_holds_the_slot_until_its_end(
    narrow: Worker, forgetter: Forgetter, redis: Redis, n: int
) -> None:
    numbers = ["N000", "N000"]
    numbers[n] = "N001"
    numbers[1 - n] = "N002"
    group = await group_of(narrow, *numbers)

    await forget(forgetter)
    await narrow.finish(group[1 - n])
    assert await slots(redis) == ([group[0].id], 1)
    await narrow.finish(group[n])

    assert await slots(redis) == ([], 0)
    assert [await state(redis, f"op-{each}") for each in ("N001", "N002")] == [
        "CANCELLED",
        "SUCCESS",
    ]
    assert await redis.exists(KEYS.wait_inflight) == 0


async def test_a_group_whose_lead_was_forgotten_is_lost_without_it(
    narrow: Worker, forgetter: Forgetter, redis: Redis
) -> None:
    lead, *_ = await group_of(narrow, "N001", "N002", "N003")
    await forget(forgetter)
    await the_lease_ends(redis, lead)

    await narrow.raw("sweep", "s")

    assert await line_of_numbers(redis) == ["N002", "N003"]
    assert await redis.exists(KEYS.wait_inflight) == 0


async def test_a_group_whose_worker_vanished_goes_back_to_the_head_in_its_order(
    wide: Worker, redis: Redis
) -> None:
    await wait(wide, *(f"N00{n}" for n in range(8)))
    turn = await wide.take(2)
    await the_lease_ends(redis, *(group[0] for group in turn.groups))

    _, swept, *_ = await wide.raw("sweep", "s")

    assert swept == 6
    assert await line_of_numbers(redis) == [f"N00{n}" for n in range(8)]
    records = [json.loads(each) for each in await redis.hvals(KEYS.wait_requests)]
    assert not [each for each in records if each.get("deaths")]
    assert await redis.exists(KEYS.wait_inflight) == 0


async def test_a_large_group_is_swept_in_its_order_by_however_many_scripts(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(of_three(together=60))
    numbers = [f"N{n:03}" for n in range(130)]
    await wait(worker, *numbers)
    turn = await worker.take(2)
    await the_lease_ends(redis, *(group[0] for group in turn.groups))

    (swept,) = await worker.limiter.sweep(LINES)

    assert swept.swept == 120
    assert await line_of_numbers(redis) == numbers


async def test_a_group_that_lost_its_worker_is_one_lost_call(wide: Worker, redis: Redis) -> None:
    lead, *_ = await group_of(wide, "N001", "N002", "N003")
    await the_lease_ends(redis, lead)

    await wide.raw("sweep", "s")

    assert await tallied(redis, "lost") == 1


async def test_a_group_that_ends_late_ends_once(narrow: Worker, redis: Redis) -> None:
    group = await group_of(narrow, "N001", "N002", "N003")
    await the_lease_ends(redis, group[0])
    await narrow.finish(group[1])

    await narrow.raw("sweep", "s")
    other = await narrow.taken()
    await narrow.finish(group[0])
    await narrow.finish(group[2])

    assert await slots(redis) == ([other.id], 1)
    assert numbers_of((other,)) == ["N001"]
    assert await state(redis, "op-N002") == "SUCCESS"


async def test_a_group_with_a_lease_is_sound_whichever_of_it_still_run(
    wide: Worker, redis: Redis
) -> None:
    lead, *_ = await group_of(wide, "N001", "N002", "N003")
    await wide.finish(lead)

    spans = [*wide.rules.reach_us, 1]
    assert await wide.pipeline.run("inspect", [KEYS.wait_list], spans) == []
    assert (await wide.raw("sweep", "s"))[1] == 0
    await the_lease_ends(redis, lead)
    assert await wide.pipeline.run("inspect", [KEYS.wait_list], spans) == [USPS]


async def test_a_group_of_nobody_is_found_and_put_right(wide: Worker, redis: Redis) -> None:
    await wide.granted("N001")
    await redis.hset(KEYS.wait_inflight, "#gone", "2")
    spans = [*wide.rules.reach_us, 1]

    assert await wide.pipeline.run("inspect", [KEYS.wait_list], spans) == [USPS]
    await wide.raw("sweep", "s")

    assert await redis.hget(KEYS.wait_inflight, "#gone") is None
    assert await wide.pipeline.run("inspect", [KEYS.wait_list], spans) == []


async def test_a_member_whose_record_cannot_be_read_keeps_the_slot_no_longer_than_the_lease(
    narrow: Worker, redis: Redis
) -> None:
    lead, rider = await group_of(narrow, "N001", "N002")
    await redis.hset(KEYS.wait_inflight, lead.id, "{")
    await narrow.finish(lead)
    await narrow.finish(rider)
    assert await slots(redis) == ([lead.id], 1)

    await the_lease_ends(redis, lead)
    await narrow.raw("sweep", "s")

    assert await redis.exists(KEYS.wait_inflight, KEYS.calls_leases) == 0


@pytest.mark.parametrize("script", ["hand_back", "retry"])
async def test_the_start_of_a_group_is_given_back_once(
    hire: Hire, redis: Redis, script: str
) -> None:
    worker = await hire(of_three(per_hour=10, per_day=10))
    await worker.finish(await sent(await worker.granted("N000")))
    group = await group_of(worker, "N001", "N002", "N003")

    for call in reversed(group):
        if script == "hand_back":
            await worker.limiter.hand_back([call], 0)
        else:
            unsent = raw(failed("no_credentials"), unsent=True)
            await worker.raw("retry", call.id, unsent, "b", 0)

    assert await redis.zcard(KEYS.calls_hour) == 1
    assert await redis.get(KEYS.calls_day) == "1"
    assert group[0].id not in await redis.zrange(KEYS.call_starts, 0, -1)


async def test_a_group_that_is_handed_back_last_one_first_keeps_its_order(
    wide: Worker, redis: Redis
) -> None:
    group = await group_of(wide, "N001", "N002", "N003")
    await wait(wide, "N004")

    for call in reversed(group):
        await wide.limiter.hand_back([call], 0)

    assert await line_of_numbers(redis) == ["N001", "N002", "N003", "N004"]
    assert await slots(redis) == ([], 0)


async def test_a_further_request_of_a_group_is_counted_once_for_all(
    wide: Worker, redis: Redis
) -> None:
    lead, rider, _ = await group_of(wide, "N001", "N002", "N003")
    await sent(lead)

    await rider.permit.again()

    assert await redis.zrange(KEYS.call_starts, 0, -1) == [lead.id, f"{lead.id}#2"]
    assert await counted(redis, "further") == (1,)


async def test_a_further_request_may_be_made_after_the_lead_has_ended(wide: Worker) -> None:
    lead, rider = await group_of(wide, "N001", "N002")
    await sent(lead)
    await wide.finish(lead)

    await rider.permit.again()
    await sent(rider)
    await wide.finish(rider)

    with pytest.raises(NotStarted):
        await rider.permit.again()


async def test_a_group_that_fails_is_one_failure_of_its_line(wide: Worker, redis: Redis) -> None:
    for begin in (1, 4):
        await a_second_goes_by(redis)
        for call in await group_of(wide, *(f"N00{n}" for n in range(begin, begin + 3))):
            await wide.limiter.retry(call, failed("courier_down"), 0)
        assert not await redis.exists(KEYS.calls_paused)

    calls = await group_of(wide, "N007", "N008", "N009")
    # Together, as a worker does: within the millisecond in which they were granted, perhaps.
    await asyncio.gather(*(wide.limiter.retry(call, failed("courier_down"), 0) for call in calls))

    brake = json.loads(await redis.get(KEYS.calls_brake) or "")
    assert await redis.get(KEYS.calls_paused) == "courier_down"
    assert (len(brake["failed"]), brake["pauses"]) == (3, 1)


async def test_a_group_that_ends_as_dead_is_one_failure_of_its_line(
    wide: Worker, redis: Redis
) -> None:
    for call in await group_of(wide, "N001", "N002", "N003"):
        await wide.finish(call, DEAD._replace(setback=failed("courier_down")))

    brake = json.loads(await redis.get(KEYS.calls_brake) or "")
    assert len(brake["failed"]) == 1
    assert not await redis.exists(KEYS.calls_paused)


async def test_a_group_is_one_call_of_the_audit(hire: Hire, redis: Redis) -> None:
    rules = of_three(concurrent=2)
    worker = await hire(rules)
    violations = await watched(redis, rules)

    for begin in (1, 4, 7):
        await wait(worker, *(f"N00{n}" for n in range(begin, begin + 3)))
        turn = await worker.take(1)
        await sent(turn.calls[0])
        for call in turn.calls:
            await worker.finish(call, ANSWERED)

    assert set((await judged(redis, violations)).values()) == {0}
    entries = await redis.xrange("tracking:measured")
    told = " ".join(fields["m"] for _, fields in entries)
    assert "~" not in told


async def test_a_rider_that_runs_is_told_with_the_lease_of_its_lead(
    wide: Worker, redis: Redis
) -> None:
    lead, _ = await group_of(wide, "N001", "N002")

    both = await running_calls(redis)
    await wide.finish(lead)
    (rider,) = await running_calls(redis)

    leases = [each.lease_seconds for each in (*both, rider)]
    assert [each.number for each in (*both, rider)] == ["N001", "N002", "N002"]
    assert all(each is not None and each > 50 for each in leases)


async def test_how_long_a_group_took_is_measured_once(narrow: Worker, redis: Redis) -> None:
    group = await group_of(narrow, "N001", "N002", "N003")
    await wait(narrow, "N004")

    for call in group[:2]:
        await narrow.finish(call)
    assert await redis.hget(KEYS.counts, "call_us") is None
    await narrow.finish(group[2])

    assert await redis.hget(KEYS.counts, "call_us") is not None
