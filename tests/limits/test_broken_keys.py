"""A key of a wrong type, or a record that is no JSON, is a defect of its line: all others go on.

What a step did before it met the key may be half of it; once the key is mended all goes on and
everything that was asked for ends.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from limits_bench import (
    FAST,
    KEYS,
    USPS,
    Hire,
    Worker,
    failed,
    retries_are_due,
    state,
    the_lease_ends,
    until,
)
from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from limits.admin.soundness import flaws_of
from limits.failure import redis_down
from limits.limiter import Policy
from tracking.call import Call
from tracking.errors import LimitsBroken, LimitsDown
from tracking.line import Line, courier_line
from tracking.operation import ENDS
from tracking.request import Slug

OTHER = Slug("dpd-uk")
LINES = [courier_line(USPS), courier_line(OTHER)]
IDS = [f"op-{number}" for number in ("N000", "N001", "N002", "N003", "N004", "N005")]
ALONE = ["calls_number", "sec_calls", "counts", "wait_list_activated", "wait_drainer"]
"""Where nothing is found broken, as these only show, or are overwritten."""

OF_THE_LINE = [
    *("calls_leases", "call_starts", "wait_list", "wait_list_automatic", "wait_later"),
    *("wait_requests", "wait_inflight", "calls_paused", "calls_held", "calls_brake"),
    *("calls_hour", "calls_day", "wait_order", "wait_unreadable", *ALONE),
]
OF_ALL = ["wait_slugs", "tracking:to_archive", "tracking:events", "tracking:measured"]
OF_A_NUMBER = [
    f"{KEYS.answer}N001",
    f"{KEYS.operations}N001",
    f"{KEYS.history}usps:N001",
    f"{KEYS.forgotten}usps:N001",
]
ANY_KEY = [*(getattr(KEYS, name) for name in OF_THE_LINE), *OF_ALL, *OF_A_NUMBER]


@pytest.fixture
async def two(hire: Hire) -> Worker:
    """A worker with two slots: three run at most, as others vanish."""
    rules = replace(FAST, concurrent=2, per_hour=10_000, per_day=10_000)
    return await hire(rules, Policy(deaths=50))


async def breaks(redis: Redis, key: str) -> None:
    """Somebody wrote SADD."""
    if await redis.exists(key):
        await redis.rename(key, f"{key} aside")
    await redis.sadd(key, "N001")


async def mended(redis: Redis, key: str) -> None:
    await redis.delete(key)
    if await redis.exists(f"{key} aside"):
        await redis.rename(f"{key} aside", key)


async def met(step: Awaitable[Any]) -> Any:
    """What a step answers; a broken key is met, and Redis is not away."""
    try:
        return await step
    except LimitsBroken:
        return None


async def everything_ends(worker: Worker, redis: Redis) -> None:
    """Whatever happened: leases end, sweeps and drains go on."""

    async def ended() -> bool:
        for key in await redis.keys("calls_leases:*"):
            for call in await redis.zrange(key, 0, -1):
                await redis.zadd(key, {call: 1})
        await redis.delete(KEYS.calls_paused, KEYS.calls_brake)
        await retries_are_due(redis)
        for swept in await worker.limiter.sweep(LINES):
            assert swept.error is None
        for line in (USPS, OTHER):
            turn = await worker.limiter.take(next(worker.limiter.ids), courier_line(line), 10)
            for call in turn.calls:
                await worker.finish(call)
        return all([await state(redis, each) in ENDS for each in IDS])

    await until(ended, 20)


async def crowd(worker: Worker) -> list[Call]:
    """One line in every state: two run, one waits behind, two in line, one for its retry."""
    await worker.repeat(await worker.granted("N005", id="op-N005"), 3600.0)
    running = [await worker.granted(each, id=f"op-{each}") for each in ("N000", "N001")]
    for number in ("N002", "N003", "N004"):
        await worker.parked(number, id=f"op-{number}")
    await worker.parked("N001", id="op-behind")
    return running


@pytest.mark.parametrize("key", ANY_KEY)
async def test_a_key_of_a_wrong_type_stops_its_line_at_most_and_nothing_is_lost(
    two: Worker, redis: Redis, key: str
) -> None:
    first, second = await crowd(two)
    await breaks(redis, key)

    steps = [
        two.admit("N006", id="op-more"),
        two.limiter.retry(first, failed(), 1),
        two.finish(second, room=1),
        two.take(2),
        two.admit("N001", slug=OTHER, id="op-other"),
    ]
    *_, turn, other = await asyncio.gather(*map(met, steps))
    swept = await met(two.limiter.sweep(LINES))
    with suppress(ResponseError):  # it may be the key of the leases
        await the_lease_ends(redis, first, second)
    await met(two.limiter.sweep(LINES))
    handed = [met(two.limiter.hand_back([call], 1)) for call in (turn.calls if turn else ())]
    await asyncio.gather(*handed)

    assert key in OF_ALL or (await two.finish(other.call)).calls == ()
    assert swept is not None
    assert all(each.line == USPS for each in swept if each.error)
    await mended(redis, key)
    await everything_ends(two, redis)


@pytest.mark.parametrize(
    "key", [KEYS.wait_list, KEYS.wait_list_automatic, KEYS.wait_order, KEYS.wait_later]
)
async def test_a_call_that_cannot_go_back_into_line_stays_in_flight(
    two: Worker, redis: Redis, key: str
) -> None:
    call = await two.granted("N001", id="op-1")
    await breaks(redis, key)

    for step in (two.limiter.hand_back([call], 0), two.take()):
        await met(step)

    await mended(redis, key)
    await the_lease_ends(redis, call)
    await two.limiter.sweep(LINES)
    assert [each.operations for each in (await two.take()).calls] == [("op-1",)]


async def test_a_call_that_goes_back_over_a_broken_key_comes_into_its_list_once(
    two: Worker, redis: Redis
) -> None:
    call = await two.granted("N001", id="op-1")
    await breaks(redis, KEYS.wait_order)
    for _ in range(3):
        await met(two.limiter.hand_back([call], 0))

    await mended(redis, KEYS.wait_order)
    await two.limiter.hand_back([call], 0)

    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N001"]


async def test_a_broken_list_keeps_nobody_from_knowing_where_the_other_begins(
    two: Worker, redis: Redis
) -> None:
    call = await two.granted("N001", id="op-1")
    await breaks(redis, KEYS.wait_list_automatic)
    await met(two.limiter.hand_back([call], 0))

    await mended(redis, KEYS.wait_list_automatic)

    first = int(await redis.hget(KEYS.wait_order, "manual") or 0)
    for at, number in enumerate(await redis.lrange(KEYS.wait_list, 0, -1), first):
        record = json.loads(await redis.hget(KEYS.wait_requests, number))
        assert record["position"] == at


async def test_a_broken_list_keeps_nobody_from_counting_the_calls(
    two: Worker, redis: Redis
) -> None:
    call = await two.granted("N001", id="op-1")
    assert await redis.get(KEYS.calls_number) == "1"
    await breaks(redis, KEYS.wait_list_automatic)

    await met(two.limiter.hand_back([call], 0))

    assert await redis.exists(KEYS.calls_leases, KEYS.calls_number) == 0


async def test_what_is_granted_before_a_number_with_a_broken_key_is_answered(
    hire: Hire, busy: Worker, redis: Redis
) -> None:
    free = await hire()
    for number in ("N001", "N002"):
        await busy.parked(number)
    await redis.rpush(KEYS.wait_list, "PUSHED")
    await redis.sadd(f"{KEYS.answer}PUSHED", "x")

    assert [call.request.number for call in (await free.take()).calls] == ["N001", "N002"]


@pytest.mark.parametrize("text", ["{", "5", "", '"text"'])
async def test_a_waiting_record_that_cannot_be_read_is_set_aside_and_its_line_goes_on(
    busy: Worker, free: Worker, redis: Redis, text: str
) -> None:
    for number in ("N001", "N002"):
        await busy.parked(number, id=f"op-{number}")
    good = await redis.hget(KEYS.wait_requests, "N001")
    await redis.hset(KEYS.wait_requests, "N001", text)

    turn = await free.take()
    for call in turn.calls:
        await free.finish(call)
    await free.limiter.sweep(LINES)

    assert await state(redis, "op-N002") == "SUCCESS"
    aside = f"{KEYS.wait_requests} N001"
    assert await redis.hgetall(KEYS.wait_unreadable) == {aside: text}
    (flaw,) = await flaws_of(redis, LINES)
    assert (flaw.line, aside in flaw.what) == ("usps", True)

    await redis.hset(KEYS.wait_unreadable, aside, good)
    await redis.delete(f"{KEYS.answer}N001")
    await free.limiter.sweep(LINES)
    assert not await redis.exists(KEYS.wait_unreadable)
    await free.finish(await free.taken())
    assert await state(redis, "op-N001") == "SUCCESS"


async def test_a_corrected_record_takes_in_what_came_for_its_number_since(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await busy.parked("N001", id="op-1")
    good = await redis.hget(KEYS.wait_requests, "N001")
    await redis.hset(KEYS.wait_requests, "N001", "{")
    await busy.parked("N001", id="op-2")
    await redis.hset(KEYS.wait_unreadable, f"{KEYS.wait_requests} N001", good)

    await free.limiter.sweep(LINES)
    for call in (await free.take()).calls:
        await free.finish(call)

    assert [await state(redis, name) for name in ("op-1", "op-2")] == ["SUCCESS", "SUCCESS"]


async def test_a_corrected_record_of_a_call_waits_again_once_the_lease_has_ended(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted("N001", id="op-1")
    good = await redis.hget(KEYS.wait_inflight, call.id)
    await redis.hdel(KEYS.wait_inflight, call.id)
    await redis.hset(KEYS.wait_unreadable, f"{KEYS.wait_inflight} {call.id}", good)

    await worker.limiter.sweep(LINES)
    assert await redis.zrange(KEYS.calls_leases, 0, -1) == [call.id]
    await the_lease_ends(redis, call)
    await worker.limiter.sweep(LINES)

    assert not await redis.exists(KEYS.wait_unreadable)
    await worker.finish(await worker.taken())
    assert await state(redis, "op-1") == "SUCCESS"


@pytest.mark.parametrize("ends_before", [True, False])
async def test_a_request_ends_once_that_came_again_while_its_record_was_set_aside(
    worker: Worker, redis: Redis, *, ends_before: bool
) -> None:
    call = await worker.granted("N001", job="job-again")
    good = await redis.hget(KEYS.wait_inflight, call.id)
    await redis.delete(KEYS.wait_inflight)
    await redis.hset(KEYS.wait_unreadable, f"{KEYS.wait_inflight} {call.id}", good)
    again = await worker.granted("N001", job="job-again")
    if ends_before:
        await worker.finish(again)
        await redis.delete(f"{KEYS.answer}N001")

    await the_lease_ends(redis, call)
    await worker.limiter.sweep(LINES)
    if not ends_before:
        await worker.finish(again)
        await worker.limiter.sweep(LINES)

    assert not await redis.exists(KEYS.wait_unreadable)
    assert (await worker.take()).calls == ()
    assert await redis.get("tracking:stats:successes") == "1"


async def test_an_accounts_record_that_cannot_be_read_is_called_for_nobody_else(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await busy.parked("N001", id="shop/op-1")
    await redis.hset(KEYS.wait_requests, "N001@shop", "{")

    assert (await free.take()).calls == ()
    assert await redis.hkeys(KEYS.wait_unreadable) == [f"{KEYS.wait_requests} N001@shop"]


async def test_a_call_whose_record_cannot_be_read_gives_its_slot_back(
    busy: Worker, redis: Redis
) -> None:
    (call_id,) = await redis.zrange(KEYS.calls_leases, 0, -1)
    await redis.hset(KEYS.wait_inflight, call_id, "{")
    await redis.zadd(KEYS.calls_leases, {call_id: 1})

    swept = await busy.limiter.sweep(LINES)

    assert [each.error for each in swept] == [None]
    await busy.granted("N001")
    assert await redis.hkeys(KEYS.wait_unreadable) == [f"{KEYS.wait_inflight} {call_id}"]


async def test_an_operation_whose_status_cannot_be_read_ends_with_its_call(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted("N001", id="op-1")
    await redis.set(f"{KEYS.status}op-1", "{")

    await worker.finish(call)

    assert await state(redis, "op-1") == "SUCCESS"


@pytest.mark.parametrize("key", [KEYS.calls_brake, f"{KEYS.answer}N001"])
async def test_a_brake_or_an_answer_that_cannot_be_read_is_none(
    worker: Worker, redis: Redis, key: str
) -> None:
    await redis.set(key, "{")

    await worker.finish(await worker.granted("N001"))


@pytest.mark.parametrize("error", ["WRONGTYPE Operation", "user_script:9: attempt to index nil"])
async def test_a_scripts_own_error_is_never_redis_away(redis: Redis, error: str) -> None:
    with pytest.raises(ResponseError) as caught:
        await redis.eval("return redis.error_reply(ARGV[1])", 0, error)

    assert isinstance(redis_down(caught.value), LimitsBroken)


@pytest.mark.parametrize(
    "text",
    [
        *("MISCONF Redis is configured to save", "BUSY Redis is busy running a script"),
        *("READONLY You can't", "OOM command not allowed", "LOADING Redis is", "NOREPLICAS No"),
    ],
)
async def test_what_redis_refuses_to_all_is_redis_away(redis: Redis, text: str) -> None:
    with pytest.raises(RedisError) as caught:
        await redis.eval("return redis.error_reply(ARGV[1])", 0, text)

    assert isinstance(redis_down(caught.value), LimitsDown)


async def test_all_keys_of_a_line_are_looked_at(worker: Worker, redis: Redis) -> None:
    await worker.granted("N001")
    for name in OF_THE_LINE:
        await breaks(redis, getattr(KEYS, name))
    for key in OF_ALL:
        await breaks(redis, key)

    found = await flaws_of(redis, LINES)

    wrong = {getattr(KEYS, name) for name in OF_THE_LINE} | set(OF_ALL) - {"wait_slugs"}
    assert {each.key for each in found} == wrong
    lists = next(each for each in found if each.key == KEYS.wait_list)
    assert (lists.line, lists.what) == (Line("usps"), "wait_list:usps is a set, not a list")
    assert "redis-cli RENAME" in lists.fix
