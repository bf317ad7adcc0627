"""Cancelling by age and origin (lua/cancel_where.lua); the gap of a number that was cancelled.

Each operation of a number is judged by itself. A number that leaves its list before its turn leaves
a gap, which is found without a search.
"""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import replace

import pytest
from limits_bench import (
    FAST,
    KEYS,
    NO_PLACES,
    USPS,
    Hire,
    Worker,
    a_millisecond_goes_by,
    counted,
    redis_us,
    state,
)
from redis.asyncio import Redis

from limits.admin import cancel as pushed_by_hand
from limits.admin.cancel import CancelFilter, Cancelled, Canceller, CancelTarget
from limits.admin.view import View
from limits.pipeline import MOST_AT_ONCE
from tracking.call import Full
from tracking.request import Number, Origin


async def ids_that_wait(redis: Redis) -> list[str]:
    record = json.loads(await redis.hget(KEYS.wait_requests, "N001") or "{}")
    return [
        *record.get("newest", []),
        *await redis.lrange(f"{KEYS.operations}N001", 0, -1),
        *(["anonymous"] if "anon" in record else []),
    ]


async def test_of_a_number_only_those_are_cancelled_that_are_meant(
    busy: Worker, redis: Redis
) -> None:
    await busy.parked(id="auto", origin=Origin.AUTOMATIC)
    await busy.parked(id="manual")
    await busy.parked()

    _, *told = await busy.raw("cancel_where", "N001", '{"origin":"AUTOMATIC"}')

    assert told == [1, 0]
    assert await ids_that_wait(redis) == ["manual", "anonymous"]
    assert (await state(redis, "auto"), await state(redis, "manual")) == ("CANCELLED", "WAITING")


async def test_the_last_that_leaves_takes_the_number_along(busy: Worker, redis: Redis) -> None:
    await busy.parked(id="op-1")

    _, *told = await busy.raw("cancel_where", "N001", "{}")

    assert told == [1, 0]
    assert await redis.exists(KEYS.wait_requests, KEYS.wait_list) == 0


async def test_of_hundreds_each_is_looked_at_once(busy: Worker, redis: Redis) -> None:
    for n in range(125):
        await busy.parked(id=f"op-{n}")
    before_ms = await redis_us(redis) // 1000
    await a_millisecond_goes_by(redis)
    for n in range(125, 250):
        await busy.parked(id=f"op-{n}")

    todo, steps, ended = 0, 0, 0
    while steps == 0 or todo:
        which = json.dumps({"before": before_ms} | ({"todo": todo} if todo else {}))
        _, count, todo = await busy.raw("cancel_where", "N001", which)
        steps, ended = steps + 1, ended + count

    assert (steps, ended) == (3, 125)
    assert await counted(redis, "CANCELLED", "open") == (125, 125)
    assert len(await ids_that_wait(redis)) == 125


async def test_of_a_number_that_nobody_waits_for_nothing_ends(busy: Worker) -> None:
    _, *told = await busy.raw("cancel_where", "N001", "{}")

    assert told == [0, 0]


async def test_requests_without_an_id_are_of_their_own_origin(busy: Worker, redis: Redis) -> None:
    await busy.parked(origin=Origin.AUTOMATIC)
    await busy.parked(id="manual")

    of_manual = await busy.raw("cancel_where", "N001", '{"origin":"MANUAL"}')
    left = await ids_that_wait(redis)
    await busy.parked(id="manual-2")
    of_automatic = await busy.raw("cancel_where", "N001", '{"origin":"AUTOMATIC"}')

    assert (of_manual[1], left) == (1, ["anonymous"])
    assert (of_automatic[1], await ids_that_wait(redis)) == (1, ["manual-2"])


async def test_one_whose_record_somebody_deleted_takes_no_other_along(
    busy: Worker, redis: Redis
) -> None:
    await busy.parked(id="op-1")
    await redis.hdel(KEYS.wait_requests, "N001")
    await busy.parked(id="op-2")

    _, *told = await busy.raw("cancel", "N001", "op-1", NO_PLACES)

    assert told == ["cancelled", 1, 0]
    assert (await state(redis, "op-1"), await state(redis, "op-2")) == ("CANCELLED", "WAITING")
    assert await ids_that_wait(redis) == ["op-2"]


@pytest.mark.parametrize("origin", Origin)
async def test_a_number_that_has_nothing_of_an_origin_costs_no_script(
    busy: Worker, redis: Redis, origin: Origin
) -> None:
    other = next(each for each in Origin if each != origin)
    await busy.parked("N001", origin=other)
    await busy.parked("N002", id="op-2", origin=other)
    await redis.config_resetstat()

    canceller = Canceller(redis, lambda _: busy.rules)
    told = [each async for each, _ in canceller.cancel_where(USPS, CancelFilter(origin=origin))]

    assert told == []
    assert "cmdstat_evalsha" not in await redis.info("commandstats")


MANY = 300
NAMES = [Number(f"N{n:03}") for n in range(MANY)]
LISTS = (KEYS.wait_list, KEYS.wait_list_automatic, KEYS.wait_order)


async def park_in_order(worker: Worker, origin: Origin = Origin.MANUAL) -> None:
    """Park them all: what goes into one script keeps its order."""
    for at in range(0, MANY, MOST_AT_ONCE):
        names = NAMES[at : at + MOST_AT_ONCE]
        await asyncio.gather(*(worker.parked(each, origin=origin) for each in names))


@pytest.fixture
async def parked(busy: Worker) -> Worker:
    """Many numbers wait."""
    await park_in_order(busy)
    return busy


async def commands(redis: Redis) -> dict[str, int]:
    """How often Redis did each command."""
    stats = await redis.info("commandstats")
    return {name.removeprefix("cmdstat_"): told["calls"] for name, told in stats.items()}


async def done_since(redis: Redis, before: dict[str, int]) -> dict[str, int]:
    after = await commands(redis)
    return {name: count - before.get(name, 0) for name, count in after.items()}


async def numbers_taken(worker: Worker) -> list[str]:
    taken: list[str] = []
    while calls := (await worker.take(100)).calls:
        for call in calls:
            taken.append(str(call.request.number))
            await worker.finish(call)
    return taken


@pytest.mark.parametrize("leaves", ["cancelled", "raised"])
async def test_a_number_leaves_the_middle_of_its_list_without_a_search(
    busy: Worker, redis: Redis, canceller: Canceller, leaves: str
) -> None:
    await park_in_order(busy, Origin.AUTOMATIC)
    await redis.config_resetstat()
    before = await commands(redis)

    if leaves == "cancelled":
        await canceller.cancel(USPS, NAMES[150])
    else:
        await busy.parked(NAMES[150])

    done = await done_since(redis, before)
    assert (done["lindex"], done["lset"]) == (1, 1)
    assert done.keys().isdisjoint({"lrem", "lpos", "lrange"})
    listed = await redis.lrange(KEYS.wait_list_automatic, 0, -1)
    assert listed == [*NAMES[:150], "", *NAMES[151:]]


async def test_what_is_left_is_taken_in_its_order(
    parked: Worker, free: Worker, canceller: Canceller
) -> None:
    gone = set(random.Random(7).sample(NAMES, 200))
    came = [c async for c in canceller.cancel_many([CancelTarget(USPS, number) for number in gone])]

    assert sum(each.operations for _, each in came) == 200
    assert parked.rules.concurrent == 1
    assert await numbers_taken(free) == [number for number in NAMES if number not in gone]


async def test_when_all_have_left_in_any_order_nothing_stays_behind(
    parked: Worker, redis: Redis, canceller: Canceller
) -> None:
    gone = [CancelTarget(USPS, number) for number in random.Random(7).sample(NAMES, MANY)]
    assert len([each async for each in canceller.cancel_many(gone)]) == MANY

    assert await counted(redis, "CANCELLED") == (MANY,)
    assert await redis.exists(*LISTS, KEYS.wait_requests, KEYS.wait_list_activated) == 0
    assert parked.rules.concurrent == 1


async def test_gaps_count_for_nobody(parked: Worker, redis: Redis, canceller: Canceller) -> None:
    for number in NAMES[100:]:
        await canceller.cancel(USPS, number)

    view = await View(redis, lambda _: parked.rules).line(USPS)

    assert (view.waiting_manual, await canceller.waiting(USPS)) == (100, 100)


async def test_gaps_of_a_line_that_stands_still_count_from_max_waiting_on(
    hire: Hire, redis: Redis, canceller: Canceller
) -> None:
    worker = await hire(replace(FAST, concurrent=1, max_waiting=3))
    await worker.granted("BUSY")
    for number in ("FIRST", "N001", "N002"):
        await worker.parked(number)
    for n in range(1, 5):
        await canceller.cancel(USPS, Number(f"N{n:03}"))
        if n < 4:
            await worker.parked(f"N{n + 2:03}")

    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["FIRST", "", "", "", "", "N005"]
    assert isinstance(await worker.admit("N006"), Full)


async def test_who_comes_and_leaves_again_does_not_lengthen_a_list(
    busy: Worker, redis: Redis, canceller: Canceller
) -> None:
    for number in ("N001", "N002", "N003"):
        await busy.parked(number)

    for number in ("N002", "N003"):
        await canceller.cancel(USPS, Number(number))

    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N001"]
    assert (await busy.parked("N004")).why == "queue"
    assert await canceller.cancel(USPS, Number("N004")) == Cancelled(1)


async def test_a_taker_passes_over_so_many_gaps_in_one_script(free: Worker, redis: Redis) -> None:
    await redis.rpush(KEYS.wait_list, "N001", *[""] * 12_000, "N002")
    await redis.hset(KEYS.wait_order, mapping={"manual": 0, "manual_gaps": 12_000})

    turns = [await free.take() for _ in range(4)]

    taken = [[str(call.request.number) for call in turn.calls] for turn in turns]
    assert taken == [["N001"], [], ["N002"], []]
    assert turns[1].ask_again is not None
    assert await redis.exists(*LISTS) == 0


async def test_empty_entries_that_somebody_pushed_hold_up_nobody(
    free: Worker, redis: Redis, canceller: Canceller
) -> None:
    await redis.rpush(KEYS.wait_list, "", "N001", "", "")
    assert (await free.take()).calls == ()
    assert (await free.taken()).request.number == "N001"

    assert [each async for each in canceller.cancel_courier(USPS)] == []

    assert await redis.exists(*LISTS) == 0


@pytest.mark.parametrize("others", [5, 120])
async def test_where_people_took_entries_out_a_number_is_found_all_the_same(
    parked: Worker, free: Worker, redis: Redis, canceller: Canceller, others: int
) -> None:
    for number in NAMES[:others]:
        await redis.lrem(KEYS.wait_list, 1, number)
    await redis.lpush(KEYS.wait_list, "HAND")

    for number in (NAMES[200], NAMES[250]):
        assert await canceller.cancel(USPS, number) == Cancelled(1)

    left = [number for number in NAMES[others:] if number not in (NAMES[200], NAMES[250])]
    assert await numbers_taken(free) == ["HAND", *left]
    assert parked.rules.concurrent == 1


async def test_where_people_took_gaps_out_nobody_is_forgotten(
    parked: Worker, free: Worker, redis: Redis, canceller: Canceller
) -> None:
    for number in NAMES[1:-3]:
        await canceller.cancel(USPS, number)
    await redis.lrem(KEYS.wait_list, 0, "")
    await canceller.cancel(USPS, NAMES[-2])

    assert await numbers_taken(free) == [NAMES[0], NAMES[-3], NAMES[-1]]
    assert parked.rules.concurrent == 1


async def test_numbers_pushed_by_hand_are_found_on_whatever_page_they_stand(
    parked: Worker, redis: Redis, canceller: Canceller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushed_by_hand, "READ_AT_ONCE", 7)
    await redis.rpush(KEYS.wait_list, "HAND", "OTHER", "HAND")
    await redis.lpush(KEYS.wait_list, "HAND")
    await redis.rpush(KEYS.wait_list_automatic, "HAND")
    await canceller.cancel(USPS, NAMES[0])

    wanted = [CancelTarget(USPS, Number(name)) for name in ("HAND", "NOBODY", NAMES[1])]
    came = [each async for _, each in canceller.cancel_many(wanted)]

    assert came == [Cancelled(1), Cancelled(0), Cancelled(1)]
    left = [entry for entry in await redis.lrange(KEYS.wait_list, 0, -1) if entry]
    assert left == [*NAMES[2:], "OTHER"]
    assert await redis.exists(KEYS.wait_list_automatic) == 0
    assert parked.rules.concurrent == 1


async def test_no_list_is_read_for_numbers_that_were_asked_for(
    parked: Worker, redis: Redis, canceller: Canceller
) -> None:
    await redis.config_resetstat()
    before = await commands(redis)

    wanted = [CancelTarget(USPS, number) for number in NAMES[10:40]]
    assert len([each async for each in canceller.cancel_many(wanted)]) == 30

    assert "lrange" not in await done_since(redis, before)
    assert parked.rules.concurrent == 1


async def test_a_place_is_told_without_a_search_and_exactly_while_nobody_left(
    parked: Worker, redis: Redis
) -> None:
    view = View(redis, lambda _: parked.rules)
    await redis.config_resetstat()
    before = await commands(redis)

    places = [await view.place(USPS, number) for number in NAMES[::50]]

    assert [place.ahead for place in places if place] == [0, 50, 100, 150, 200, 250]
    assert (await done_since(redis, before)).keys().isdisjoint({"lpos", "lrange", "lindex"})


async def test_where_some_left_a_place_is_off_by_no_more_than_they(
    parked: Worker, redis: Redis, canceller: Canceller
) -> None:
    gone = set(NAMES[20:40]) | set(NAMES[200::2])
    for number in gone:
        await canceller.cancel(USPS, number)
    view = View(redis, lambda _: parked.rules)

    ahead = 0
    for number in NAMES:
        if number in gone:
            continue
        place = await view.place(USPS, number)
        assert place is not None
        assert place.ahead is not None
        assert ahead <= place.ahead + len(gone)
        assert abs(place.ahead - ahead) <= len(gone)
        ahead += 1
