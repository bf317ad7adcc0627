"""Limits belong to a line, answers to the courier; lua/clear.lua clears a removed line."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from held import look, since
from limits_bench import (
    ANSWERED,
    AT_ONCE,
    FAST,
    KEYS,
    USPS,
    Hire,
    Worker,
    asked,
    failed,
    the_lease_ends,
    verdict,
)
from redis.asyncio import Redis

from limits import keys
from limits.admin.pause import Pauses
from limits.keys import of_line, write_request, write_rules
from limits.limiter import Limiter, Policy
from limits.rules import NOBODY, RuleBook, Rules
from tracking.call import Granted, Swept
from tracking.errors import LimitsBroken
from tracking.line import TRACKING, Kind, Line, courier_line, kind_of, line_of
from tracking.request import Slug

ACCOUNTS = Line("usps@acme")
"""A line of its own at the same courier, as accounts with their own credentials will have."""


async def admitted(worker: Worker, line: Line, number: str, call_id: str) -> list[Any]:
    """What the script answers a request that asks on `line`."""
    common: dict[str, object] = {
        "epoch": worker.epoch.name,
        "token": "t",
        "deaths": 10,
        "revision": 0,
        "max_age_ms": 30_000,
    }
    rules = write_rules(Rules(concurrent=1), common)
    request = write_request(asked(number), f"job-{call_id}")
    args = (rules, b"[]", call_id, request, b"")
    _, *reply = await worker.pipeline.run("admit", [of_line(line).wait_list], args)
    return reply


async def test_lines_of_one_courier_have_their_own_limits(worker: Worker, redis: Redis) -> None:
    assert (await admitted(worker, courier_line(USPS), "N001", "a"))[0] == "granted"
    assert (await admitted(worker, courier_line(USPS), "N002", "b"))[:2] == [
        "parked",
        "concurrency",
    ]

    assert (await admitted(worker, ACCOUNTS, "N003", "c"))[0] == "granted"

    assert await redis.zrange("calls_leases:usps@acme", 0, -1) == ["c"]
    assert await redis.smembers("wait_slugs") == {"usps", "usps@acme"}


async def test_an_answer_is_the_couriers_on_whatever_line_it_was_asked_for(worker: Worker) -> None:
    await worker.finish(await worker.granted("N001"))

    assert await admitted(worker, ACCOUNTS, "N001", "c") == ["ended", "SUCCESS"]


async def test_a_line_that_is_not_known_waits_untouched(worker: Worker, redis: Redis) -> None:
    """As a later version leaves it: nothing here may judge its leases."""
    call = await worker.granted()
    await the_lease_ends(redis, call)
    for key in ("wait_inflight", "calls_leases"):
        await redis.rename(f"{key}:usps", f"{key}:hook:shop")
    await redis.srem("wait_slugs", "usps")
    await redis.sadd("wait_slugs", "hook:shop")

    assert await worker.limiter.sweep([courier_line(USPS)]) == []
    assert await redis.hexists("wait_inflight:hook:shop", call.id)


async def test_what_waits_for_a_courier_that_was_removed_costs_nothing_until_it_is_back(
    busy: Worker, redis: Redis
) -> None:
    await busy.parked("N001")
    await redis.delete(KEYS.wait_drainer, KEYS.wait_list_activated)
    held = await look(redis)

    assert await busy.limiter.sweep([]) == []
    before, after = await since(redis, held)
    counts_questions = before.pop(keys.SERVER), after.pop(keys.SERVER)
    assert all(counts_questions)
    assert after == before
    (swept,) = await busy.limiter.sweep([courier_line(USPS)])

    assert swept.put_drain


async def test_a_lost_call_of_a_courier_that_was_removed_waits_again_and_nobody_drains(
    worker: Worker, redis: Redis
) -> None:
    await the_lease_ends(redis, await worker.granted("N001"))

    (swept,) = await worker.limiter.sweep([])

    assert (swept.swept, swept.put_drain) == (1, False)
    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N001"]
    assert await redis.exists(KEYS.wait_drainer) == 0


async def test_rules_that_change_hold_from_the_next_step_on(hire: Hire) -> None:
    rules = [replace(FAST, concurrent=1)]
    plain = await hire()
    book = RuleBook(lambda _: rules[-1])
    limiter = Limiter(plain.pipeline, plain.clock, plain.epoch, book, plain.policy)
    worker = replace(plain, limiter=limiter)
    await worker.granted("N001")
    assert (await worker.parked("N002")).why == "concurrency"

    rules.append(replace(FAST, concurrent=2))

    assert len((await worker.take()).calls) == 1


@pytest.mark.parametrize("line", ["usps", "hong-kong-post", "4px"])
def test_a_couriers_line_is_of_the_kind_tracking(line: str) -> None:
    assert kind_of(Line(line)) is TRACKING


@pytest.mark.parametrize("line", ["usps@acme", "hook:shop", "", "Usps", "usps "])
def test_a_line_of_no_kind_is_told_apart(line: str) -> None:
    assert kind_of(Line(line)) is None


def test_the_line_of_a_request_is_its_couriers() -> None:
    assert line_of(asked()) == courier_line(USPS) == "usps"


async def test_a_line_of_the_kind_tracking_does_what_its_kind_says(worker: Worker) -> None:
    call = await worker.granted("N001", job="job-1")
    again = await worker.admit("N001", job="job-1")
    assert isinstance(again, Granted) is TRACKING.takes_over
    assert isinstance(again, Granted)
    assert again.call.id != call.id

    await worker.parked("N001", job="job-2")
    await worker.finish(again.call)

    assert (await worker.ended("N001", job="job-3") == "SUCCESS") is TRACKING.remembers


async def test_where_nothing_is_taken_over_a_job_waits_until_the_lease_has_ended(
    worker: Worker, redis: Redis
) -> None:
    await worker.granted("N001", job="job-1")
    apart = replace(worker, told={"takes_over": False})

    _, word, _ = await apart.raw_admit("again", "N001", "job-1")
    assert word == "held"

    for call_id in await redis.zrange(KEYS.calls_leases, 0, -1):
        await redis.zadd(KEYS.calls_leases, {call_id: 1})
    _, word, *_ = await apart.raw_admit("again", "N001", "job-1")

    assert word == "granted"


@pytest.mark.parametrize("runs", [True, False])
async def test_where_nothing_is_merged_a_second_request_changes_nothing(
    hire: Hire, redis: Redis, *, runs: bool
) -> None:
    worker = await hire(Rules(concurrent=1))
    await worker.granted("N001" if runs else "BUSY")
    if not runs:
        await worker.parked("N001")
    record = KEYS.wait_inflight if runs else KEYS.wait_requests
    before = await redis.hgetall(record)

    apart = replace(worker, told={"merges": False})
    _, *told = await apart.raw_admit("again", "N001", "job-9")

    assert told == ["parked", "known", 0]
    assert await redis.hgetall(record) == before


async def test_where_nothing_is_remembered_no_answer_serves_another_request(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted("N001")
    await worker.finish(call)
    apart = replace(worker, told={"remembers": False})

    _, word, *_ = await apart.raw_admit("again", "N001", "job-2")
    assert word == "granted"
    await redis.delete(f"{KEYS.answer}N001")
    await apart.raw("finish", "again", verdict(1), "N001", "t", 0)

    assert not await redis.exists(f"{KEYS.answer}N001")


async def test_a_line_whose_record_cannot_be_read_leaves_the_others_to_be_swept(
    worker: Worker, redis: Redis
) -> None:
    lost = [await worker.granted("N001"), await worker.granted("N002", slug="dpd-uk")]
    text = await redis.hget(KEYS.wait_inflight, lost[0].id)
    unreadable = json.loads(text) | {"trace": 5, "deaths": 99}
    await redis.hset(KEYS.wait_inflight, lost[0].id, json.dumps(unreadable))
    for call in lost:
        await redis.zadd(of_line(call.line).calls_leases, {call.id: 1})

    # Lines are swept in the order of a set, which is another in each Redis.
    swept = await worker.limiter.sweep([courier_line(USPS), Line("dpd-uk")])
    other, broken = sorted(swept, key=lambda each: each.line)

    assert isinstance(broken.error, msgspec.ValidationError)
    assert other == Swept(Line("dpd-uk"), swept=1, put_drain=True)


SHOP = Line("~shop")
HOOKS = TRACKING._replace(
    name="hooks", form=re.compile("~[a-z]+"), remembers=False, operations=False, counted=False
)
OF_LINE = keys.of_line(SHOP)


def hooks_or_tracking(line: Line) -> Kind | None:
    return next((kind for kind in (HOOKS, TRACKING) if kind.form.fullmatch(line)), None)


@pytest.fixture
async def shop_worker(hire: Hire) -> Worker:
    rules = replace(FAST, concurrent=1, per_hour=1000, per_day=1000, kind=HOOKS)
    return await hire(rules, Policy(kind_of=hooks_or_tracking))


async def asked_of_the_shop(shop_worker: Worker, redis: Redis) -> None:
    """Calls of every fate, all over: answered, repeated, stopped, and a pause by hand."""
    for number in ("N001", "N002"):
        call = await shop_worker.granted(number, slug=Slug(SHOP))
        await shop_worker.finish(call)
    call = await shop_worker.granted("N003", slug=Slug(SHOP))
    await shop_worker.limiter.retry(call, failed(brake=AT_ONCE), 0)
    brakes = Pauses(redis, lambda _: shop_worker.rules)
    await brakes.resume(SHOP)
    await brakes.pause(SHOP, None)
    await redis.hset(OF_LINE.wait_unreadable, "wait_requests:~shop N009", "{")


async def cleared(shop_worker: Worker) -> bool:
    """Whether a sweep deletes all that is kept of the line, which was removed for good."""
    *_, swept = await shop_worker.limiter.sweep([], [SHOP])
    assert swept.line == SHOP
    return swept.cleared


async def of_the_shop(redis: Redis) -> set[str]:
    """The keys that name the line."""
    return {key for key in await redis.keys() if "~shop" in key}


async def all_lanes_are_free(redis: Redis) -> None:
    await redis.delete(OF_LINE.call_starts)


async def test_a_removed_line_leaves_no_key(shop_worker: Worker, redis: Redis) -> None:
    await asked_of_the_shop(shop_worker, redis)
    assert not await cleared(shop_worker)  # N003 waits
    await redis.delete(OF_LINE.wait_requests, OF_LINE.wait_later, OF_LINE.wait_list)
    await all_lanes_are_free(redis)

    assert await cleared(shop_worker)

    assert await of_the_shop(redis) == set()
    assert not await redis.sismember(keys.LINES, SHOP)
    assert await cleared(shop_worker)


@pytest.mark.parametrize("fate", ["waits", "waits automatically", "runs", "is repeated", "starts"])
async def test_a_removed_line_is_left_alone_while_a_request_is_on_it(
    shop_worker: Worker, redis: Redis, fate: str
) -> None:
    call = await shop_worker.granted("N001", slug=Slug(SHOP))
    match fate:
        case "waits" | "waits automatically":
            own = OF_LINE.wait_list if fate == "waits" else OF_LINE.wait_list_automatic
            await redis.rpush(own, "N002")
            await shop_worker.finish(call)
            await all_lanes_are_free(redis)
        case "is repeated":
            await shop_worker.limiter.retry(call, failed(), 0)
            await all_lanes_are_free(redis)
        case "starts":
            await shop_worker.finish(call)
        case "runs":
            await all_lanes_are_free(redis)
    held = await look(redis)

    rules = write_rules(shop_worker.rules, NOBODY)
    _, gone = await shop_worker.pipeline.run("clear", [OF_LINE.wait_list], (rules, b"[]"))

    assert gone == 0
    before, after = await since(redis, held)
    assert after == before


async def test_what_waits_on_a_removed_line_may_end_and_then_the_line_goes(
    shop_worker: Worker, redis: Redis
) -> None:
    await redis.rpush(OF_LINE.wait_list, "N001")
    (call,) = (await shop_worker.limiter.take("t", SHOP, 1, claims=True)).calls
    assert not await cleared(shop_worker)

    await shop_worker.finish(call, ANSWERED)
    await all_lanes_are_free(redis)

    assert await cleared(shop_worker)
    assert not await redis.sismember(keys.LINES, SHOP)


async def test_the_sweep_calls_a_drainer_from_when_on_a_line_is_known(
    shop_worker: Worker, redis: Redis
) -> None:
    await redis.rpush(OF_LINE.wait_list, "N001")
    assert await shop_worker.limiter.sweep([]) == []

    (swept,) = await shop_worker.limiter.sweep([SHOP])

    assert (swept.line, swept.put_drain) == (SHOP, True)


async def test_a_lost_call_of_a_line_that_is_known_no_more_waits_again(
    shop_worker: Worker, redis: Redis
) -> None:
    call = await shop_worker.granted("N001", slug=Slug(SHOP))
    await the_lease_ends_on(redis, call.id)

    (swept,) = await shop_worker.limiter.sweep([])

    assert (swept.swept, swept.put_drain) == (1, False)
    assert await redis.lrange(OF_LINE.wait_list, 0, -1) == ["N001"]


async def the_lease_ends_on(redis: Redis, call_id: str) -> None:
    await redis.zadd(OF_LINE.calls_leases, {call_id: 1}, xx=True)


async def test_a_line_of_which_nobody_knows_the_kind_waits_as_it_is(
    shop_worker: Worker, hire: Hire, redis: Redis
) -> None:
    call = await shop_worker.granted("N001", slug=Slug(SHOP))
    await shop_worker.parked("N002", slug=Slug(SHOP))
    await the_lease_ends_on(redis, call.id)
    stranger = await hire(Rules())
    held = await redis.hgetall(OF_LINE.wait_inflight)

    assert await stranger.limiter.sweep([Line("usps")]) == []

    assert await redis.hgetall(OF_LINE.wait_inflight) == held
    assert await redis.lrange(OF_LINE.wait_list, 0, -1) == ["N002"]


async def test_a_removed_line_that_is_broken_keeps_no_other_from_being_cleared(
    shop_worker: Worker, redis: Redis
) -> None:
    await redis.set("wait_list:~broken", "no list")

    broken, swept = await shop_worker.limiter.sweep([], [Line("~broken"), SHOP])

    assert isinstance(broken.error, LimitsBroken)
    assert swept.cleared
