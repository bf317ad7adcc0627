"""A script holds Redis for a few milliseconds at most, however much its steps find to do.

What is not begun is sent again: who asked for it only waits a little longer.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from limits_bench import FAST, KEYS, NO_PLACES, USPS, Hire, Worker, counted, state
from redis.asyncio import Redis

from limits.pipeline import MOST_IN_SCRIPT
from tracking.call import Call
from tracking.operation import State
from tracking.request import Slug

CROWD = 40
COMMANDS_MOST = 2_000
"""Of one script: it takes Redis about two microseconds for each."""

NUMBERS = [f"N{n:03}" for n in range(MOST_IN_SCRIPT)]
COURIERS = [Slug(f"courier-{n}") for n in range(MOST_IN_SCRIPT)]


@pytest.fixture
async def wide(hire: Hire) -> Worker:
    """A worker with slots for all."""
    return await hire(replace(FAST, concurrent=1_000, per_second=10_000))


async def spent(redis: Redis) -> tuple[int, int]:
    """Scripts, and the commands in them, since the last look."""
    stats = await redis.info("commandstats")
    scripts = stats.pop("cmdstat_evalsha", {"calls": 0})["calls"]
    await redis.config_resetstat()
    return scripts, sum(each["calls"] for each in stats.values())


async def crowd(worker: Worker, numbers: Sequence[str]) -> None:
    """So many operations wait for each number."""
    each = itertools.product(numbers, range(CROWD))
    await asyncio.gather(*(worker.parked(number, id=f"{number}-{n}") for number, n in each))


async def take_all(worker: Worker, count: int) -> list[Call]:
    calls: list[Call] = []
    for _ in range(count):
        calls += (await worker.take(count)).calls
    return calls


async def test_steps_with_much_to_do_are_several_scripts_and_each_has_its_reply(
    busy: Worker, wide: Worker, redis: Redis
) -> None:
    await crowd(busy, NUMBERS)
    calls = await take_all(wide, len(NUMBERS))
    await spent(redis)

    turns = await asyncio.gather(*(wide.finish(call) for call in calls))

    scripts, commands = await spent(redis)
    assert [turn.calls for turn in turns] == [()] * len(NUMBERS)
    assert await counted(redis, "SUCCESS") == (CROWD * len(NUMBERS),)
    assert await redis.exists(KEYS.wait_requests) == 0
    assert scripts >= 4
    assert commands / scripts < COMMANDS_MOST


async def test_a_step_sees_what_the_steps_before_it_in_its_script_made_of_an_operation(
    busy: Worker, redis: Redis
) -> None:
    await spent(redis)

    _, cancelled, again = await asyncio.gather(
        busy.parked("N001", id="op-1"),
        busy.raw("cancel", "N001", "op-1", NO_PLACES),
        busy.ended("N001", "sent-again", id="op-1"),
    )

    assert (await spent(redis))[0] == 1
    assert cancelled[1:3] == ["cancelled", 1]
    assert again is State.CANCELLED
    assert await state(redis, "op-1") == "CANCELLED"
    assert await redis.zrange("tracking:to_archive", 0, -1) == ["op-1"]


async def test_a_take_of_numbers_with_many_operations_gives_fewer_and_asks_again_for_the_others(
    busy: Worker, wide: Worker
) -> None:
    await crowd(busy, NUMBERS)

    first = await wide.take(len(NUMBERS), claims=True)
    others = await take_all(wide, len(NUMBERS))

    assert 1 <= len(first.calls) < len(NUMBERS)
    assert first.ask_again is not None
    assert sorted(call.request.number for call in (*first.calls, *others)) == NUMBERS


async def test_retries_that_are_due_for_many_couriers_come_back_in_several_scripts(
    wide: Worker, redis: Redis
) -> None:
    for slug in COURIERS:
        await redis.zadd(f"wait_later:{slug}", dict.fromkeys(NUMBERS, 1))
    await spent(redis)

    await asyncio.gather(*(wide.parked("NEW", slug=slug) for slug in COURIERS))

    scripts, commands = await spent(redis)
    for slug in COURIERS:
        assert (await redis.lrange(f"wait_list:{slug}", 0, -1))[-1] == "NEW"
    assert scripts >= 3
    assert commands / scripts < 2 * COMMANDS_MOST


async def test_a_sweep_puts_back_many_lost_calls_in_several_scripts(
    wide: Worker, redis: Redis
) -> None:
    names = [f"N{n:03}" for n in range(250)]
    await asyncio.gather(*(wide.granted(name, id=f"op-{name}") for name in names))
    await redis.delete(KEYS.calls_leases)
    await spent(redis)

    (swept,) = await wide.limiter.sweep([USPS])

    scripts, _ = await spent(redis)
    assert swept.swept == len(names)
    assert sorted(await redis.lrange(KEYS.wait_list, 0, -1)) == names
    assert {await state(redis, f"op-{name}") for name in names} == {"WAITING"}
    assert scripts >= 2 + len(names) // 100


async def test_a_step_that_nobody_waits_for_any_more_is_not_sent_again(
    busy: Worker, wide: Worker, redis: Redis
) -> None:
    await crowd(busy, NUMBERS)
    calls = await take_all(wide, len(NUMBERS))
    asked = [asyncio.ensure_future(wide.finish(call)) for call in calls]
    await asyncio.sleep(0)
    for each in asked[1:]:
        each.cancel()

    first, *_ = await asyncio.gather(*asked, return_exceptions=True)
    await wide.limiter.close()

    assert not isinstance(first, BaseException)
    assert len(NUMBERS) / 2 < await redis.zcard(KEYS.calls_leases) < len(NUMBERS)


@pytest.mark.parametrize(("of_the_call", "behind_it"), [(4_000, 60), (60, 4_000), (40, 40)])
async def test_a_call_that_is_repeated_moves_the_fewer_of_its_operations_and_those_behind_it(
    busy: Worker, wide: Worker, redis: Redis, of_the_call: int, behind_it: int
) -> None:
    ids = [f"op-{n}" for n in range(of_the_call + behind_it)]
    await asyncio.gather(*(busy.parked(id=each) for each in ids[:of_the_call]))
    (call,) = (await wide.take(1)).calls
    await asyncio.gather(*(wide.parked(id=each) for each in ids[of_the_call:]))
    moved = await moved_in_lists(redis)

    await wide.repeat(call)

    assert await moved_in_lists(redis) - moved <= 1 + min(of_the_call, behind_it) // 1_000
    waiting = json.loads(await redis.hget(KEYS.wait_requests, "N001"))
    assert waiting["ids"] == len(ids)
    listed = await redis.lrange(f"{KEYS.operations}N001", 0, -1)
    assert len(listed) == waiting["listed"]
    assert sorted([*waiting["newest"], *listed]) == sorted(ids)


async def moved_in_lists(redis: Redis) -> int:
    """How often ids were taken off the end of a list."""
    stats = await redis.info("commandstats")
    pops = (stats.get(f"cmdstat_{name}", {"calls": 0}) for name in ("lpop", "rpop"))
    return sum(each["calls"] for each in pops)


LONG = 20_000
MOVED_AT_ONCE = 8_000
"""Of ids, from list to list in one script: about two milliseconds."""


async def lengthen(redis: Redis, key: str, field: str, prefix: str, count: int) -> None:
    """Give a record so many more operations than it has, all of which wait."""
    record = json.loads(await redis.hget(key, field))
    number = record.get("n")
    listed = f"{KEYS.operations}{'=' if number else ''}N001"
    for begin in range(0, count, 10_000):
        ids = [f"{prefix}-{n}" for n in range(begin, min(count, begin + 10_000))]
        text = '{"status":"WAITING","tracking":"usps:N001","at":1}'
        await redis.mset({f"tracking:status:{each}": text for each in ids})
        await redis.rpush(listed, *ids)
    record["listed"] = record.get("listed", 0) + count
    record["ids"] += count
    await redis.hset(key, field, json.dumps(record))


async def crowded_call(worker: Worker, redis: Redis, count: int = LONG) -> Call:
    """A call for so many operations, with as many that came while it ran."""
    call = await worker.granted("N001", id="op-first")
    for n in range(20):
        await worker.parked("N001", id=f"late-{n}")
    await lengthen(redis, KEYS.wait_inflight, call.id, "of-call", count)
    await lengthen(redis, KEYS.wait_requests, "N001", "behind", count)
    return call


async def test_a_call_of_many_goes_back_to_wait_with_as_many_in_several_scripts(
    wide: Worker, redis: Redis
) -> None:
    call = await crowded_call(wide, redis)
    await spent(redis)
    popped = await moved_in_lists(redis)

    await wide.repeat(call)

    scripts, _ = await spent(redis)
    assert popped == 0
    assert scripts >= LONG // MOVED_AT_ONCE
    assert await redis.exists(KEYS.wait_inflight, f"{KEYS.operations}=N001") == 0
    waiting = json.loads(await redis.hget(KEYS.wait_requests, "N001"))
    assert waiting["ids"] == 2 * LONG + 21
    listed = await redis.lrange(f"{KEYS.operations}N001", 0, -1)
    in_turn = [f"{of}-{n}" for of in ("behind", "of-call") for n in range(LONG)]
    assert listed[-2 * LONG :] == in_turn


async def test_a_sweep_takes_a_lost_call_of_many_back_to_as_many_in_several_scripts(
    wide: Worker, redis: Redis
) -> None:
    await crowded_call(wide, redis)
    await redis.delete(KEYS.calls_leases)
    await spent(redis)

    (swept,) = await wide.limiter.sweep([USPS])

    scripts, _ = await spent(redis)
    assert swept.swept == 1
    assert scripts >= LONG // MOVED_AT_ONCE
    waiting = json.loads(await redis.hget(KEYS.wait_requests, "N001"))
    assert (waiting["ids"], waiting["deaths"]) == (2 * LONG + 21, 1)


async def test_of_a_very_long_call_the_oldest_operations_cannot_be_cancelled_one_by_one(
    wide: Worker, redis: Redis
) -> None:
    await crowded_call(wide, redis, 50_000)
    now_ms = (await redis.time())[0] * 1000
    late = f'{{"status":"WAITING","tracking":"usps:N001","at":{now_ms + 60_000}}}'
    await redis.set("tracking:status:behind-49999", late)

    oldest = await wide.raw("cancel", "N001", "of-call-49999", "[]")
    newest = await wide.raw("cancel", "N001", "of-call-0", "[]")
    behind = await wide.raw("cancel", "N001", "behind-49999", "[]")

    assert oldest[1] == newest[1] == "running"
    assert behind[1] == "cancelled"


async def test_the_history_of_a_hot_parcel_is_trimmed_a_thousand_at_once(
    wide: Worker, redis: Redis
) -> None:
    history = "tracking:operations:usps:N001"
    await redis.zadd(history, {f"old-{n}": n + 1 for n in range(2_500)})
    await redis.expire(history, 100)

    await wide.granted("N001", id="op-1")

    assert await redis.zcard(history) == 2_500 - 1_000 + 1
