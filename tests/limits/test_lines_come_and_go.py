"""Lines come and go while workers run: one that is removed for good leaves nothing behind."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from held import look, since
from limits_bench import (
    ANSWERED,
    AT_ONCE,
    FAST,
    Hire,
    Worker,
    failed,
)
from redis.asyncio import Redis

from limits import keys
from limits.admin.pause import Pauses
from limits.keys import write_rules
from limits.limiter import Policy
from limits.rules import NOBODY, Rules
from tracking.errors import LimitsBroken
from tracking.line import TRACKING, Kind, Line
from tracking.request import Slug

SHOP = Line("~shop")
HOOKS = TRACKING._replace(
    name="hooks",
    form=re.compile("~[a-z]+"),
    remembers=False,
    operations=False,
    counted=False,
)
OF_LINE = keys.of_line(SHOP)


def kind_of(line: Line) -> Kind | None:
    return next((kind for kind in (HOOKS, TRACKING) if kind.form.fullmatch(line)), None)


@pytest.fixture
async def worker(hire: Hire) -> Worker:
    rules = replace(FAST, concurrent=1, per_hour=1000, per_day=1000, kind=HOOKS)
    return await hire(rules, Policy(kind_of=kind_of))


async def asked_of_the_shop(worker: Worker, redis: Redis) -> None:
    """Calls of every fate, all over: answered, repeated, stopped, and a pause by hand."""
    for number in ("N001", "N002"):
        call = await worker.granted(number, slug=Slug(SHOP))
        await worker.finish(call)
    call = await worker.granted("N003", slug=Slug(SHOP))
    await worker.limiter.retry(call, failed(brake=AT_ONCE), 0)
    brakes = Pauses(redis, lambda _: worker.rules)
    await brakes.resume(SHOP)
    await brakes.pause(SHOP, None)
    await redis.hset(OF_LINE.wait_unreadable, "wait_requests:~shop N009", "{")


async def cleared(worker: Worker) -> bool:
    """Whether a sweep deletes all that is kept of the line, which was removed for good."""
    *_, swept = await worker.limiter.sweep([], [SHOP])
    assert swept.line == SHOP
    return swept.cleared


async def of_the_shop(redis: Redis) -> set[str]:
    """The keys that name the line."""
    return {key for key in await redis.keys() if "~shop" in key}


async def all_lanes_are_free(redis: Redis) -> None:
    await redis.delete(OF_LINE.call_starts)


async def test_a_removed_line_leaves_no_key(worker: Worker, redis: Redis) -> None:
    await asked_of_the_shop(worker, redis)
    assert not await cleared(worker)  # N003 waits
    await redis.delete(OF_LINE.wait_requests, OF_LINE.wait_later)
    await all_lanes_are_free(redis)

    assert await cleared(worker)

    assert await of_the_shop(redis) == set()
    assert not await redis.sismember(keys.LINES, SHOP)
    assert await cleared(worker)


@pytest.mark.parametrize("fate", ["waits", "waits automatically", "runs", "is repeated", "starts"])
async def test_a_removed_line_is_left_alone_while_a_request_is_on_it(
    worker: Worker, redis: Redis, fate: str
) -> None:
    call = await worker.granted("N001", slug=Slug(SHOP))
    match fate:
        case "waits" | "waits automatically":
            own = OF_LINE.wait_list if fate == "waits" else OF_LINE.wait_list_automatic
            await redis.rpush(own, "N002")
            await worker.finish(call)
            await all_lanes_are_free(redis)
        case "is repeated":
            await worker.limiter.retry(call, failed(), 0)
            await all_lanes_are_free(redis)
        case "starts":
            await worker.finish(call)
        case "runs":
            await all_lanes_are_free(redis)
    held = await look(redis)

    rules = write_rules(worker.rules, NOBODY)
    _, gone = await worker.pipeline.run("clear", [OF_LINE.wait_list], (rules, b"[]"))

    assert gone == 0
    before, after = await since(redis, held)
    assert after == before


async def test_what_waits_on_a_removed_line_may_end_and_then_the_line_goes(
    worker: Worker, redis: Redis
) -> None:
    await redis.rpush(OF_LINE.wait_list, "N001")
    (call,) = (await worker.limiter.take("t", SHOP, 1, claims=True)).calls
    assert not await cleared(worker)

    await worker.finish(call, ANSWERED)
    await all_lanes_are_free(redis)

    assert await cleared(worker)
    assert not await redis.sismember(keys.LINES, SHOP)


async def test_the_sweep_calls_a_drainer_from_when_on_a_line_is_known(
    worker: Worker, redis: Redis
) -> None:
    await redis.rpush(OF_LINE.wait_list, "N001")
    assert await worker.limiter.sweep([]) == []

    (swept,) = await worker.limiter.sweep([SHOP])

    assert (swept.line, swept.put_drain) == (SHOP, True)


async def test_a_lost_call_of_a_line_that_is_known_no_more_waits_again(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted("N001", slug=Slug(SHOP))
    await the_lease_ends_on(redis, call.id)

    (swept,) = await worker.limiter.sweep([])

    assert (swept.swept, swept.put_drain) == (1, False)
    assert await redis.lrange(OF_LINE.wait_list, 0, -1) == ["N001"]


async def the_lease_ends_on(redis: Redis, call_id: str) -> None:
    await redis.zadd(OF_LINE.calls_leases, {call_id: 1}, xx=True)


async def test_a_line_of_which_nobody_knows_the_kind_waits_as_it_is(
    worker: Worker, hire: Hire, redis: Redis
) -> None:
    call = await worker.granted("N001", slug=Slug(SHOP))
    await worker.parked("N002", slug=Slug(SHOP))
    await the_lease_ends_on(redis, call.id)
    stranger = await hire(Rules())
    held = await redis.hgetall(OF_LINE.wait_inflight)

    assert await stranger.limiter.sweep([Line("usps")]) == []

    assert await redis.hgetall(OF_LINE.wait_inflight) == held
    assert await redis.lrange(OF_LINE.wait_list, 0, -1) == ["N002"]


async def test_a_removed_line_that_is_broken_keeps_no_other_from_being_cleared(
    worker: Worker, redis: Redis
) -> None:
    await redis.set("wait_list:~broken", "no list")

    broken, swept = await worker.limiter.sweep([], [Line("~broken"), SHOP])

    assert isinstance(broken.error, LimitsBroken)
    assert swept.cleared
