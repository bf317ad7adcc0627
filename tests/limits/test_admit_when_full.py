"""A full Redis takes no new request; a process without room for a call is granted none.

A full Redis carries what it has to its end, and goes on by itself. A full process keeps its duties,
and others take over.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest
from held import look, since
from limits_bench import (
    KEYS,
    USPS,
    Hire,
    Worker,
    again_in,
    asked,
    counted,
    redis_us,
    sent,
    the_lease_ends,
)
from redis.asyncio import Redis
from redis.exceptions import OutOfMemoryError

from limits.admin.forget import Forgetter
from limits.admin.pause import Pauses
from limits.admin.running import live_workers
from limits.admin.view import View
from limits.archive import waiting_of
from limits.connect import shared_secret
from limits.ends import Ends
from limits.keys import write_request
from limits.limiter import Policy
from limits.server import MEMORY_FIX, memory_in
from limits.workers import WorkerInfo
from tracking.call import NO_ROOM, Granted, NoMemory, TakeResult
from tracking.line import Line
from tracking.operation import State
from tracking.request import Number


class Fill:
    """Sets how much the Redis may use."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def up(self) -> None:
        await self._redis.config_set("maxmemory", 1)
        with pytest.raises(OutOfMemoryError):
            await self._redis.set("plain", "x")

    async def undo(self) -> None:
        await self._redis.config_set("maxmemory", 0)


@pytest.fixture
async def fill(redis: Redis) -> AsyncIterator[Fill]:
    fill = Fill(redis)
    yield fill
    await fill.undo()


async def test_a_full_redis_takes_no_new_request_and_changes_nothing(
    busy: Worker, redis: Redis, fill: Fill
) -> None:
    await busy.parked("N001", id="op-1")
    held = await look(redis)
    await fill.up()

    refused = [
        await busy.admit("N002"),
        await busy.admit("N001", id="op-2"),
        await busy.admit("N003", slug="dpd-uk"),
    ]

    assert refused == [NoMemory(MEMORY_FIX)] * 3
    before, after = await since(redis, held)
    assert after == before


async def test_what_was_taken_before_it_was_full_is_known(worker: Worker, fill: Fill) -> None:
    call = await worker.granted("N001", job="job-1", id="op-1")
    await worker.finish(call)
    running = await worker.granted("N002", job="job-2")
    await fill.up()

    assert await worker.ended("N001", job="job-1", id="op-1") is State.SUCCESS
    _, word, grant = await worker.raw_admit(running.id, "N002", job="job-2")
    assert (word, grant[0]) == ("granted", running.id)


async def test_what_waits_is_taken_and_ends_while_redis_is_full(
    busy: Worker, free: Worker, redis: Redis, fill: Fill
) -> None:
    for number in ("N001", "N002", "N003"):
        await busy.parked(number, id=f"op-{number}")
    await fill.up()

    turn = await free.take(2)
    follow = [await free.finish(call, room=1) for call in turn.calls]
    retried = await free.limiter.retry(follow[0].calls[0], again_in(0.0), 1)

    assert [call.request.number for call in turn.calls] == ["N001", "N002"]
    assert [call.request.number for call in retried.calls] == ["N003"]
    await free.limiter.hand_back(retried.calls[:1], 0)
    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N003"]
    assert await counted(redis, "SUCCESS") == (2,)


async def test_a_send_is_reported_while_redis_is_full(
    usps: Worker, redis: Redis, fill: Fill
) -> None:
    """It is the first write of its script, and one that a full Redis would refuse."""
    call = await sent(await usps.granted())
    await fill.up()

    send_us = await redis_us(redis)
    await usps.raw("started", reports=[call.id, send_us])

    assert await redis.zscore(KEYS.call_starts, call.id) == send_us + 1_020_000


async def test_what_vanished_workers_left_is_put_right_while_redis_is_full(
    worker: Worker, redis: Redis, fill: Fill
) -> None:
    await the_lease_ends(redis, await worker.granted("N001"))
    await fill.up()

    (swept,) = await worker.limiter.sweep([Line("usps")])

    assert (swept.swept, swept.put_drain) == (1, True)
    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N001"]


async def test_requests_are_taken_again_once_there_is_room(worker: Worker, fill: Fill) -> None:
    await fill.up()
    assert isinstance(await worker.admit("N001"), NoMemory)

    await fill.undo()

    assert isinstance(await worker.admit("N001"), Granted)


async def test_a_worker_lives_and_starts_while_redis_is_full(
    hire: Hire, redis: Redis, fill: Fill
) -> None:
    secret = await shared_secret(redis, "secret", "first")
    who = WorkerInfo("here", 1, "1", 0.0)
    await fill.up()

    worker = await hire(policy=Policy(who=who))

    assert await shared_secret(redis, "secret", "second") == secret
    told = await live_workers(redis, await redis_us(redis) // 1000)
    assert [each.host for each in told] == ["here"]
    await worker.limiter.close()
    assert await live_workers(redis, await redis_us(redis) // 1000) == []


async def test_people_see_all_and_may_pause_and_forget_while_redis_is_full(
    busy: Worker, redis: Redis, fill: Fill
) -> None:
    """Redis 7.0 refuses every command of a transaction then."""
    await busy.parked("N001", id="op-1")
    await busy.parked("N002")
    await redis.rpush(KEYS.wait_list, "PUSHED")
    view, brakes = View(redis, lambda _: busy.rules), Pauses(redis, lambda _: busy.rules)
    forgetter = Forgetter(redis, lambda _: busy.rules)
    (waits,) = (each["id"] for each in await view.operations_of(USPS, Number("N002")))
    await fill.up()

    (seen,) = await view.lines([Line("usps")])
    found = await view.operations(["op-1", waits])
    (listed,) = await view.operations_of(USPS, Number("N001"))
    await brakes.pause(Line("usps"), 60.0, "by a test")
    paused = await view.line(Line("usps"))

    assert (seen.waiting_manual, set(found), listed["id"]) == (3, {"op-1", waits}, "op-1")
    assert (paused.paused_why, paused.paused_note) == ("by_hand", "by a test")
    assert (await brakes.resume(Line("usps"))).by_hand
    assert (await forgetter.forget(USPS, Number("PUSHED"))).ended == 1
    forgot = await forgetter.forget(USPS, Number("N001"))
    cleared, _ = await forgetter.clear_outputs({"usps:N001": forgot.at_us})
    assert (forgot.ended, cleared) == (1, {"usps:N001": 1})
    assert (await waiting_of(redis))[0] == 2
    ends = Ends(redis, redis)
    await ends.note_reply("op-1")
    assert (await view.operations(["op-1"]))["op-1"]["repliedAt"]


def test_a_redis_is_full_when_what_counts_has_reached_its_maxmemory() -> None:
    info = {"used_memory": 3_000, "mem_not_counted_for_evict": 1_000, "maxmemory": 2_001}

    assert not memory_in(info).full
    assert memory_in(info | {"maxmemory": 2_000}).full
    assert not memory_in(info | {"maxmemory": 0}).full
    assert str(memory_in({"used_memory": 2**21, "maxmemory": 2**20})) == "2.0 of 1.0 MiB"


async def test_admit_parks_for_a_process_that_is_full(worker: Worker, redis: Redis) -> None:
    request = write_request(asked("N001"), "job-1", full=True)

    _, *reply = await worker.raw("admit", "c", request, b"")

    assert reply == ["parked", "room", 1]
    assert await redis.zcard(KEYS.calls_leases) == 0


async def test_admit_puts_the_call_of_a_vanished_worker_back_for_a_process_that_is_full(
    worker: Worker, redis: Redis
) -> None:
    await worker.granted(job="job-1")
    request = write_request(asked("N001"), "job-1", full=True)

    _, *reply = await worker.raw("admit", "d", request, b"")

    assert reply == ["parked", "room", 1]
    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N001"]


@pytest.mark.parametrize("claims", [0, 1])
async def test_a_full_process_takes_nothing_and_keeps_the_duty(
    worker: Worker, redis: Redis, claims: int
) -> None:
    await redis.rpush(KEYS.wait_list, "N001")

    now, grants, named, ask, put = await worker.raw("take", "b", NO_ROOM, claims)

    assert (grants, named, int(ask), put) == ([], "full", now + 30_000_000, 0)
    assert await redis.get(KEYS.wait_drainer) == f"{worker.limiter.token} {ask}"


async def test_a_full_process_hears_what_else_binds(usps: Worker, redis: Redis) -> None:
    await usps.granted("N001")
    await usps.granted("N002")
    await redis.rpush(KEYS.wait_list, "N003")

    now, _, named, ask, _ = await usps.raw("take", "b", NO_ROOM, 0)

    assert named == "rate"
    assert now < int(ask) <= now + 2_020_000


async def test_a_full_process_hears_that_nobody_waits(worker: Worker, redis: Redis) -> None:
    await redis.set(KEYS.wait_list_activated, "1")

    _, *reply = await worker.raw("take", "b", NO_ROOM, 0)

    assert reply == [[], "empty", 0, 0]


async def test_a_full_process_keeps_the_duty_until_it_asks_again(hire: Hire, redis: Redis) -> None:
    full, sweeping = await hire(), await hire()
    await redis.rpush(KEYS.wait_list, "N001")

    result = await full.take(NO_ROOM, claims=True)

    assert (result.calls, result.full, result.put_drain) == ((), True, False)
    assert result.ask_again == pytest.approx(time.monotonic() + 30, abs=1)
    assert await redis.pttl(KEYS.wait_drainer) > 30_000
    _, _, _, put, _ = await sweeping.raw("sweep", "s")
    assert put == 0


async def test_who_has_room_takes_the_duty_over_from_a_full_process(
    hire: Hire, redis: Redis
) -> None:
    full, roomy = await hire(), await hire()
    call = await roomy.granted("N100")
    await redis.rpush(KEYS.wait_list, "N001", "N002")
    await full.take(NO_ROOM, claims=True)

    result = await roomy.finish(call, room=1)

    assert len(result.calls) == 1
    assert result.ask_again is not None
    assert await full.take(NO_ROOM) == TakeResult()


async def test_a_take_whose_room_is_all_that_may_start_asks_again_when_the_next_may(
    usps: Worker, redis: Redis
) -> None:
    await redis.rpush(KEYS.wait_list, "N001", "N002", "N003")

    now, grants, named, ask, put = await usps.raw("take", "b", 2, 0)

    assert (len(grants), named, put) == (2, "rate", 0)
    assert int(ask) > now + 500_000
