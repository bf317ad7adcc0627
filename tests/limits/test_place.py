"""Where a request waits, what keeps it, and when its call starts: as lua/place.lua tells it."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from life_of_a_line import LifeInRedis
from limits_bench import FAST, KEYS, USPS, Hire, Worker, a_second_goes_by, failed, redis_us
from redis.asyncio import Redis

from limits import keys
from limits.admin.pause import Pauses
from limits.admin.view import Place, View
from limits.rules import Rules
from tracking.line import Line
from tracking.operation import State
from tracking.request import Number, Origin

LINE = Line(USPS)
DAY = 86_400.0


@pytest.fixture(autouse=True)
async def a_worker_lives(redis: Redis) -> None:
    await redis.zadd(keys.WORKERS, {"{}": await redis_us(redis) / 1000 + 10_000})


async def place_of(redis: Redis, number: str, rules: Rules, *, itself: bool = False) -> Place:
    place = await View(redis, lambda _: rules).place(LINE, Number(number), itself=itself)
    assert place is not None
    return place


async def test_sixty_in_a_quiet_line_start_within_a_second_of_their_places(
    usps: Worker, redis: Redis
) -> None:
    life = LifeInRedis(usps, redis)
    for n in range(62):
        await life.put(f"N{n:03}")
    told = {}
    for n in range(2, 62):
        place = await place_of(redis, f"N{n:03}", usps.rules)
        assert (place.ahead, place.bound_by) == (n - 2, "rate")
        told[f"N{n:03}"] = await life.now() / 1e6 + (place.eta_seconds or 0.0)

    await life.live()

    assert len(life.starts) == 62
    assert [n for n, at in told.items() if abs(life.starts[n] / 1e6 - at) > 1.0] == []


@pytest.mark.prove
async def test_a_thousand_start_within_a_tenth_of_what_each_was_told(
    hire: Hire, redis: Redis
) -> None:
    """The rate binds the first of them, and the others a quota that is used up in between."""
    worker = await hire(Rules(per_hour=400))
    life = LifeInRedis(worker, redis)
    for n in range(1_000):
        await life.put(f"N{n:04}")
    began, told = await life.now(), {}
    for n in range(39, 1_000, 37):
        place = await place_of(redis, f"N{n:04}", worker.rules)
        assert place.bound_by == ("rate" if n < 400 else "per_hour")
        told[f"N{n:04}"] = place.eta_seconds or 0.0

    await life.live()

    waited = {n: (life.starts[n] - began) / 1e6 for n in told}
    assert {
        n: waited[n] for n, at in told.items() if abs(at - waited[n]) > 0.1 * waited[n] + 0.1
    } == {}
    assert waited["N0964"] > 2 * 3600


async def test_turns_are_foretold_as_they_come_where_both_lists_wait(
    busy: Worker, redis: Redis
) -> None:
    for n in range(9):
        await busy.parked(f"M{n:03}")
    for n in range(4):
        await busy.parked(f"A{n:03}", origin=Origin.AUTOMATIC)
    all_of_them = [*(f"M{n:03}" for n in range(9)), *(f"A{n:03}" for n in range(4))]
    await redis.hset(KEYS.wait_order, "turn", 6)
    foretold = {n: (await place_of(redis, n, FAST)).ahead for n in all_of_them}
    free = replace(busy, rules=FAST)

    taken = [json.loads(g[3])["n"] for g in (await free.raw("take", "t", 20, 0))[1]]

    assert taken == sorted(all_of_them, key=lambda number: foretold[number] or 0)


async def test_a_quota_of_a_day_keeps_who_has_no_turn_before_its_reset(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(replace(FAST, per_day=3))
    await worker.granted("N000")
    await worker.granted("N001")
    resets = await redis.pexpiretime(KEYS.calls_day) / 1000
    busy = replace(worker, rules=replace(worker.rules, concurrent=2))
    for n in range(2, 9):
        await busy.raw_admit(f"c{n}", f"N{n:03}")

    told = [await place_of(redis, f"N{n:03}", worker.rules) for n in range(2, 9)]

    days = [each.eta_seconds and (time.time() + each.eta_seconds - resets) / DAY for each in told]
    assert [each.bound_by for each in told] == ["rate", *["per_day"] * 6]
    assert days[1:] == pytest.approx([0, 0, 0, 1, 1, 1], abs=0.001)
    assert told[1].until_seconds == told[1].eta_seconds


async def test_after_a_pause_it_goes_on_from_there(worker: Worker, redis: Redis) -> None:
    await worker.limiter.retry(await worker.granted(), failed("rate_limited", named=40.0), 0)
    await worker.parked("N002")

    place = await place_of(redis, "N002", Rules())

    assert (place.bound_by, place.why, place.ahead) == ("paused", "rate_limited", 0)
    assert place.until_seconds == pytest.approx(40.0, abs=5.0)
    assert place.eta_seconds == pytest.approx(40.0, abs=5.0)


async def test_nobody_knows_when_a_pause_by_hand_ends_that_has_no_end(
    busy: Worker, redis: Redis
) -> None:
    await busy.parked("N001")
    await Pauses(redis, lambda _: busy.rules).pause(LINE, None, "moving house")

    place = await place_of(redis, "N001", busy.rules)

    assert (place.bound_by, place.eta_seconds, place.until_seconds) == ("paused", None, None)
    assert place.why == "by_hand"


async def test_a_wait_for_credentials_that_are_missing_has_a_reason_and_no_end(
    worker: Worker, redis: Redis
) -> None:
    await worker.limiter.retry(await worker.granted(), failed("no_credentials"), 0)
    await worker.parked("N002")

    place = await place_of(redis, "N002", Rules())

    assert (place.bound_by, place.why) == ("paused", "no_credentials")
    assert place.eta_seconds is None
    assert place.until_seconds == pytest.approx(60.0, abs=5.0), "when it is tried again"


async def test_without_a_worker_nothing_starts(busy: Worker, redis: Redis) -> None:
    await busy.parked("N001")
    await redis.delete(keys.WORKERS)

    place = await place_of(redis, "N001", busy.rules)

    assert (place.bound_by, place.ahead, place.eta_seconds) == ("no_worker", 0, None)


async def test_the_quiet_time_after_a_loss_is_waited_for(busy: Worker, redis: Redis) -> None:
    await busy.parked("N001")
    await redis.set(keys.EPOCH, f"{busy.epoch.name} {await redis_us(redis) + 9_000_000}")

    place = await place_of(redis, "N001", FAST)

    assert place.bound_by == "quiet"
    assert place.eta_seconds == pytest.approx(9.0, abs=3.0)


async def test_an_operation_behind_the_call_of_its_own_number_waits_for_that(
    worker: Worker, redis: Redis
) -> None:
    await worker.granted("N001")
    await worker.parked("N001", id="op-1")

    number = await place_of(redis, "N001", worker.rules)
    operation = await place_of(redis, "N001", worker.rules, itself=True)

    assert number == Place(State.RUNNING, "")
    assert operation == Place(State.WAITING, "behind", bound_by="running")


async def test_a_retry_stands_behind_who_waits_when_it_is_due(usps: Worker, redis: Redis) -> None:
    soon = await usps.granted("SOON")
    await usps.repeat(await usps.granted("LATE"), 3600.0)
    await usps.repeat(soon, 1.0)
    for n in range(10):
        await usps.parked(f"N{n:03}")

    places = [await place_of(redis, number, usps.rules) for number in ("SOON", "LATE")]

    assert [(each.list, each.bound_by) for each in places] == [
        ("later", "rate"),
        ("later", "retry"),
    ]
    assert places[0].eta_seconds == pytest.approx(6.1, abs=1.0)
    assert places[1].eta_seconds == pytest.approx(3600.0, abs=5.0)


async def test_a_courier_that_takes_several_requests_for_an_answer_is_reckoned_with(
    usps: Worker, redis: Redis
) -> None:
    call = await usps.granted("N000")
    await call.permit.before_send()
    call.permit.after_send()
    await call.permit.again()
    for n in range(1, 11):
        await usps.parked(f"N{n:03}")
    await a_second_goes_by(redis)

    place = await place_of(redis, "N010", usps.rules)

    assert (place.ahead, place.eta_seconds) == (9, pytest.approx(9 * 1.02, abs=0.2))


async def test_the_line_tells_when_the_last_that_waits_starts(usps: Worker, redis: Redis) -> None:
    for n in range(12):
        await usps.admit(f"N{n:03}")
    await a_second_goes_by(redis)

    view = await View(redis, lambda _: usps.rules).line(LINE)

    assert view.last_starts_seconds == pytest.approx(4 * 1.02, abs=0.1)
    assert view.until_seconds == view.last_starts_seconds


async def test_no_command_that_grows_with_the_line_is_asked(busy: Worker, redis: Redis) -> None:
    await busy.parked("N001", id="op-1")
    await place_of(redis, "N001", busy.rules)
    await redis.config_resetstat()

    await place_of(redis, "N001", busy.rules)

    asked = {name.removeprefix("cmdstat_") for name in await redis.info("commandstats")}
    steps_of_a_rank = {"zrange", "zrank"}
    at_once = {"exists", "get", "hget", "hmget", "llen", "mget", "pttl", "set", "time", "zcard"}
    assert asked - {"config|resetstat", "evalsha", "client|setinfo"} <= at_once | steps_of_a_rank
