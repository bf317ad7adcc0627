"""Workers (limits/workers.py): which of them live, and which calls run."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict, replace

import pytest
from limits_bench import FAST, KEYS, USPS, Hire, Worker, redis_us, the_lease_ends
from redis.asyncio import Redis

from limits import keys
from limits.admin.running import LiveWorker, running_calls
from limits.admin.view import View
from limits.limiter import Policy
from limits.rules import Rules
from limits.workers import LIVES_SECONDS, WorkerInfo, is_known
from tracking.line import Line
from tracking.request import Slug

LIVES_MS = LIVES_SECONDS * 1000
ONE = WorkerInfo("host-1", 11, "0.1.0", since=1_000.0)
OTHER = WorkerInfo("host-2", 22, "0.2.0", since=2_000.0)


async def live(redis: Redis) -> list[LiveWorker]:
    return await View(redis, lambda _: Rules()).workers()


async def hired(hire: Hire, who: WorkerInfo, rules: Rules = FAST) -> Worker:
    return await hire(rules, Policy(who=who))


def pid_of_one_that_ended() -> int:
    with subprocess.Popen(["true"]) as process:
        return process.pid


async def silent_for(redis: Redis, ms: float) -> None:
    """Nobody was heard of for so long."""
    for key in (keys.WORKERS, keys.COURIERS):
        for member, until_ms in await redis.zrange(key, 0, -1, withscores=True):
            await redis.zadd(key, {member: until_ms - ms})


async def test_a_worker_is_known_from_its_start(hire: Hire, redis: Redis) -> None:
    await hired(hire, OTHER)
    await hired(hire, ONE)

    assert await live(redis) == [LiveWorker(**asdict(who), calls=0) for who in (ONE, OTHER)]


async def test_a_worker_is_told_with_the_time_of_its_last_sign(hire: Hire, redis: Redis) -> None:
    await hired(hire, ONE)
    await silent_for(redis, 9_000)

    (told,) = await live(redis)

    now = await redis_us(redis) / 1e6
    assert 9 <= now - told.heard < LIVES_SECONDS


async def test_a_worker_that_was_killed_on_this_machine_is_told_as_gone(
    hire: Hire, redis: Redis
) -> None:
    pid = pid_of_one_that_ended()
    await hired(hire, replace(OTHER, pid=os.getpid()))
    [(told, until_ms)] = await redis.zrange(keys.WORKERS, 0, -1, withscores=True)
    killed = json.loads(told) | {"token": "k", "pid": pid, "since": 3_000.0}
    await redis.zadd(keys.WORKERS, {json.dumps(killed): until_ms})

    assert [(each.pid, each.gone) for each in await live(redis)] == [
        (os.getpid(), False),
        (pid, True),
    ]


async def test_each_worker_is_told_with_the_calls_that_it_has_in_flight(
    hire: Hire, redis: Redis
) -> None:
    one, other = await hired(hire, ONE), await hired(hire, OTHER)
    lost = await one.granted("N001")
    await one.granted("N002")
    await other.granted("N003", slug="dpd-uk")
    for number in ("N004", "N005"):
        await redis.rpush(f"wait_list:{USPS}", number)
    await other.take(2)
    await the_lease_ends(redis, lost)

    assert [each.calls for each in await live(redis)] == [1, 3]


async def test_a_worker_in_trouble_is_told_once_with_its_trouble(hire: Hire, redis: Redis) -> None:
    who = replace(ONE)
    worker = await hired(hire, who)
    await silent_for(redis, 1)
    who.report("sweeper ended 3x in a row")

    await worker.limiter.sweep([])

    (told,) = await live(redis)
    assert (told.pid, told.trouble) == (ONE.pid, "sweeper ended 3x in a row")


async def test_each_sweep_tells_again_that_the_worker_lives(hire: Hire, redis: Redis) -> None:
    worker = await hired(hire, ONE)
    await silent_for(redis, LIVES_MS + 1)
    assert await live(redis) == []

    await worker.limiter.sweep([USPS])

    assert [each.pid for each in await live(redis)] == [ONE.pid]


async def test_the_key_lives_no_longer_than_its_last_worker(hire: Hire, redis: Redis) -> None:
    await hired(hire, ONE)

    assert 0 < await redis.pttl(keys.WORKERS) <= LIVES_MS


async def test_a_vanished_worker_leaves_the_key_while_others_live(hire: Hire, redis: Redis) -> None:
    await hired(hire, ONE)
    await silent_for(redis, LIVES_MS + 1)

    await hired(hire, OTHER)

    assert await redis.zcard(keys.WORKERS) == 1


async def test_a_worker_that_stops_is_gone_at_once(hire: Hire, redis: Redis) -> None:
    worker = await hired(hire, ONE)

    await worker.limiter.close()

    assert await live(redis) == []


async def test_a_worker_of_a_clock_that_was_ahead_does_not_live_for_ever(
    hire: Hire, redis: Redis
) -> None:
    await hired(hire, ONE)
    await silent_for(redis, -3_600_000)

    assert await live(redis) == []


async def test_slugs_are_surveyed_also_when_the_worker_cannot_be_told(
    hire: Hire, redis: Redis
) -> None:
    worker = await hired(hire, ONE, replace(FAST, lease_seconds=60.0))
    lost = await worker.granted("N001")
    await redis.zadd(f"calls_leases:{USPS}", {lost.id: await redis_us(redis) - 1})
    await redis.mset({keys.WORKERS: "text", keys.COURIERS: "text"})

    found = await worker.pipeline.run(
        "survey", [keys.LINES, keys.WORKERS, keys.COURIERS], ["usps", "who", 1000]
    )

    assert found == [USPS]


async def test_who_has_nothing_to_tell_of_itself_is_in_no_key(worker: Worker, redis: Redis) -> None:
    await worker.limiter.sweep([USPS])

    assert await redis.exists(keys.WORKERS) == 0


async def test_what_a_worker_knows_is_known_from_its_start(hire: Hire, redis: Redis) -> None:
    one = await hired(hire, ONE)
    assert not await is_known(redis, "new-courier")

    await one.limiter.start([Line("new-courier"), USPS])

    assert [await is_known(redis, name) for name in ("new-courier", "another")] == [True, False]
    assert 0 < await redis.pttl(keys.COURIERS) <= LIVES_MS


@pytest.mark.parametrize("ms", [LIVES_MS + 1, -3_600_000])
async def test_what_a_worker_knew_is_forgotten_with_it(hire: Hire, redis: Redis, ms: float) -> None:
    """Also where the clock was ahead."""
    worker = await hired(hire, ONE)
    await worker.limiter.start([Line("new-courier")])

    await silent_for(redis, ms)
    await redis.persist(keys.COURIERS)

    assert not await is_known(redis, "new-courier")
    await worker.limiter.sweep([Line("new-courier")])
    assert await is_known(redis, "new-courier")


@pytest.mark.parametrize("ms", [0, 5_000, 5_900, 6_100, 12_000])
async def test_each_look_leaves_what_is_known_known_for_two_more(
    hire: Hire, redis: Redis, ms: float
) -> None:
    worker = await hired(hire, ONE)
    await worker.limiter.start([USPS])
    await silent_for(redis, ms)

    await worker.limiter.sweep([USPS])

    until_ms = await redis.zscore(keys.COURIERS, USPS) or 0.0
    assert until_ms - await redis_us(redis) / 1000 > 2 * 6_000


async def test_what_was_noted_shortly_before_is_not_noted_again(hire: Hire, redis: Redis) -> None:
    one, other = await hired(hire, ONE), await hired(hire, OTHER)
    await one.limiter.start([USPS])
    await silent_for(redis, 5_000)
    noted = await redis.zrange(keys.COURIERS, 0, -1, withscores=True)

    await one.limiter.sweep([USPS])
    await other.limiter.sweep([USPS])

    assert await redis.zrange(keys.COURIERS, 0, -1, withscores=True) == noted


async def test_a_line_that_comes_is_known_from_the_next_look_on(hire: Hire, redis: Redis) -> None:
    worker = await hired(hire, ONE)
    await worker.limiter.start([USPS])

    await worker.limiter.sweep([USPS, Line("new-courier")])

    assert await is_known(redis, "new-courier")


async def test_what_only_one_worker_knows_stays_known_while_others_start_again(
    hire: Hire, redis: Redis
) -> None:
    one, other = await hired(hire, ONE), await hired(hire, OTHER)
    await one.limiter.start([USPS, Line("new-courier")])

    for _ in range(5):
        await silent_for(redis, 6_000)
        await other.limiter.start([USPS])
        await one.limiter.sweep([USPS, Line("new-courier")])
        await other.limiter.close()
        assert [await is_known(redis, name) for name in ("new-courier", USPS)] == [True, True]


async def test_a_line_that_was_removed_is_forgotten_while_its_worker_lives_on(
    hire: Hire, redis: Redis
) -> None:
    worker = await hired(hire, ONE)
    await worker.limiter.start([USPS, Line("old-courier")])

    for _ in range(4):
        await silent_for(redis, 5_100)
        await worker.limiter.sweep([USPS])

    assert [await is_known(redis, name) for name in ("old-courier", USPS)] == [False, True]


async def test_what_redis_lost_is_known_again_from_the_next_look_on(
    hire: Hire, redis: Redis
) -> None:
    worker = await hired(hire, ONE)
    await worker.limiter.start([USPS])
    await redis.delete(keys.COURIERS)

    await worker.limiter.sweep([USPS])

    assert await is_known(redis, USPS)


async def test_a_look_at_rest_is_as_many_commands_for_many_lines_as_for_few(
    hire: Hire, redis: Redis
) -> None:
    worker, asked = await hired(hire, ONE), list[int]()
    for count in (5, 1_200):
        lines = [Line(f"courier-{n}") for n in range(count)]
        await worker.limiter.start(lines)
        before = int((await redis.info("stats"))["total_commands_processed"])
        await worker.limiter.sweep(lines)
        asked.append(int((await redis.info("stats"))["total_commands_processed"]) - before)

    assert asked[0] == asked[1]


async def test_what_runs_on_all_lines_is_listed_by_its_start(hire: Hire, redis: Redis) -> None:
    worker = await hire(policy=Policy(who=WorkerInfo("host-1", 11, "9.9.9", 0.0)))
    await worker.granted("N001", id="op-1")
    await worker.granted("N002", job="job-2", slug=Slug("dpd-uk"))
    await worker.parked("N001", id="op-2", max_age=0.0)
    now = await redis_us(redis) / 1e6

    first, second = await running_calls(redis)

    assert (first.line, first.number, first.operations) == (USPS, "N001", ("op-1",))
    assert (second.line, second.operations) == ("dpd-uk", ("dpd-uk:N002:job-2",))
    assert 0 <= first.seconds < 10
    assert abs(now - first.started) < 10
    assert first.lease_seconds is not None
    assert 50 < first.lease_seconds <= 60
    assert {(each.worker, each.attempt, each.requests) for each in (first, second)} == {
        ("host-1 11", 1, 1)
    }


async def test_a_call_that_began_and_never_ended_is_listed_until_a_sweep(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted("N001", id="op-1")
    await the_lease_ends(redis, call)

    (lost,) = await running_calls(redis)

    assert (lost.call, lost.lease_seconds, lost.worker) == (call.id, None, "")
    await worker.raw("sweep", "s")
    assert await running_calls(redis) == []


async def test_everybody_who_waits_for_a_call_is_counted_and_the_newest_are_named(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    for n in range(20):
        await busy.parked("N001", id=f"op-{n}")
    await busy.parked("N001", job="job-1")
    await busy.parked("N001", job="job-2")
    await free.repeat(await free.taken(), 0.0)
    await redis.zadd(KEYS.wait_later, {"N001": 1})
    await free.taken()

    _, last = await running_calls(redis)

    assert (last.requests, last.attempt, len(last.operations)) == (22, 2, 17)
    assert {"op-19", "usps:N001:job-1"} <= set(last.operations)
