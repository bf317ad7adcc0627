"""The brake (lua/lib/brake.lua): what stops a line whose calls fail, and what lets it go again.

Who tries whether it goes again, and whose fault it was. A worker that starts with other credentials
than those that were refused goes on at once.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from limits_bench import (
    ANSWERED,
    DEAD,
    KEYS,
    USPS,
    Hire,
    Worker,
    a_millisecond_goes_by,
    again_in,
    counted,
    failed,
    redis_us,
    retries_are_due,
    sent,
)
from redis.asyncio import Redis

from couriers.http.credentials import CourierSettings
from couriers.registry import Registry
from limits.admin.pause import Pauses
from limits.limiter import Policy
from limits.rules import Rules
from service.config.schema import Config
from service.worker.wiring.lines import CourierLines, resume_where_changed
from tracking.call import Call
from tracking.line import Line, courier_line


async def the_pause_ends(redis: Redis) -> None:
    """And who waited for that is due."""
    await redis.delete(KEYS.calls_paused)
    await retries_are_due(redis)
    await a_millisecond_goes_by(redis)


async def fail(worker: Worker, call: Call, why: str = "courier_down", **other: Any) -> None:
    await worker.limiter.retry(call, failed(why, **other), 0)


async def fail_in_a_row(worker: Worker, how_many: int) -> None:
    """Calls for so many different numbers fail: N000, N001, …"""
    calls = [await worker.granted(f"N{n:03}") for n in range(how_many)]
    for call in calls:
        await fail(worker, call)


async def brake(redis: Redis) -> dict[str, Any]:
    return json.loads(await redis.get(KEYS.calls_brake) or "{}")


async def test_a_line_stops_once_three_numbers_have_failed_in_a_row(
    worker: Worker, redis: Redis
) -> None:
    await fail_in_a_row(worker, 2)
    assert await redis.get(KEYS.calls_paused) is None

    await fail(worker, await worker.granted("N002"))

    assert await redis.get(KEYS.calls_paused) == "courier_down"
    assert 0 < await redis.pttl(KEYS.calls_paused) <= 1000
    assert (await worker.raw("take", "t", 5, 1))[2] == "paused"


async def test_one_number_that_always_fails_stops_no_line(worker: Worker, redis: Redis) -> None:
    call = await worker.granted("BAD")
    for _ in range(10):
        await fail(worker, call)
        await retries_are_due(redis)
        call = await worker.taken()

    assert await redis.get(KEYS.calls_paused) is None
    assert await worker.granted("N001")


async def test_an_answer_in_between_begins_another_count(worker: Worker, redis: Redis) -> None:
    good = await worker.granted("GOOD")
    await fail_in_a_row(worker, 2)
    await worker.finish(good)

    await fail(worker, await worker.granted("N002"))

    assert await redis.get(KEYS.calls_paused) is None
    assert (await brake(redis))["failed"] == ["N002"]


async def test_an_outage_is_tried_after_1_s_and_then_ever_more_rarely_up_to_5_min(
    worker: Worker, redis: Redis
) -> None:
    await fail_in_a_row(worker, 3)
    seconds = [round(await redis.pttl(KEYS.calls_paused) / 1000)]
    for _ in range(8):
        await the_pause_ends(redis)
        await fail(worker, await worker.taken())
        seconds.append(round(await redis.pttl(KEYS.calls_paused) / 1000))
    began = await brake(redis)
    began["began"] -= 3_600_000
    await redis.set(KEYS.calls_brake, json.dumps(began), keepttl=True)
    await the_pause_ends(redis)
    await fail(worker, await worker.taken())
    later = round(await redis.pttl(KEYS.calls_paused) / 1000)

    assert seconds == [1, 2, 4, 8, 16, 30, 30, 30, 30]
    assert later == 300


async def test_who_failed_in_an_outage_is_due_when_somebody_is_answered(
    worker: Worker, redis: Redis
) -> None:
    late = await worker.granted("ANSWERED")
    await worker.limiter.retry(await worker.granted("OWN"), again_in(3_600.0), 0)
    await fail_in_a_row(worker, 5)  # before the third one it was no outage yet
    assert await redis.zcount(KEYS.wait_later, "-inf", await redis_us(redis) // 1000) == 0

    await worker.finish(late, ANSWERED)

    turn = await worker.take(claims=True)
    assert {call.request.number for call in turn.calls} == {"N002", "N003", "N004"}
    assert "OWN" in await redis.zrange(KEYS.wait_later, 0, -1)


async def test_the_first_429_after_an_outage_stops_the_line_for_a_minute(
    worker: Worker, redis: Redis
) -> None:
    await fail_in_a_row(worker, 3)
    for _ in range(6):
        await the_pause_ends(redis)
        await fail(worker, await worker.taken())

    await the_pause_ends(redis)
    await fail(worker, await sent(await worker.taken()), "rate_limited")

    assert round(await redis.pttl(KEYS.calls_paused) / 1000) == 60


async def test_one_number_that_is_refused_stops_nobody(worker: Worker, redis: Redis) -> None:
    await fail(worker, await worker.granted("N001"), "auth_failed")
    await fail(worker, await worker.granted("N002"), "auth_failed")

    assert not await redis.exists(KEYS.calls_paused)
    await worker.granted("N003")


async def test_refused_credentials_stop_the_line_for_a_minute_to_an_hour(
    worker: Worker, redis: Redis
) -> None:
    for number in ("N001", "N002", "N003"):
        await fail(worker, await worker.granted(number), "auth_failed")
    seconds = [round(await redis.pttl(KEYS.calls_paused) / 1000)]
    for _ in range(7):
        await the_pause_ends(redis)
        await fail(worker, await worker.taken(), "auth_failed")
        seconds.append(round(await redis.pttl(KEYS.calls_paused) / 1000))

    assert seconds == [60, 120, 240, 480, 960, 1920, 3600, 3600]


async def test_calls_that_fail_together_are_one_failure(worker: Worker, redis: Redis) -> None:
    await fail_in_a_row(worker, 8)

    assert (await brake(redis))["pauses"] == 1
    assert await redis.pttl(KEYS.calls_paused) <= 1000


async def test_a_clock_that_stepped_back_does_not_keep_pauses_from_growing(
    worker: Worker, redis: Redis
) -> None:
    await fail_in_a_row(worker, 3)
    ahead = await brake(redis) | {"at": 9_999_999_999_999}
    await redis.set(KEYS.calls_brake, json.dumps(ahead), keepttl=True)
    await the_pause_ends(redis)

    await fail(worker, await worker.taken())

    assert (await brake(redis))["pauses"] == 2


async def test_a_number_that_has_not_failed_is_tried_before_those_that_have(
    worker: Worker, redis: Redis
) -> None:
    await fail_in_a_row(worker, 5)
    await the_pause_ends(redis)
    await worker.limiter.sweep([courier_line(USPS)])
    for number in ("N010", "N011"):
        await worker.parked(number)

    probe = await worker.taken()

    assert probe.request.number == "N010"
    assert await redis.lrange(KEYS.wait_list, 0, 0) == ["N011"]
    turn = await worker.finish(probe, ANSWERED, 1)
    assert [each.request.number for each in turn.calls] == ["N011"]


async def test_one_that_failed_once_is_tried_before_those_that_failed_more_often(
    worker: Worker, redis: Redis
) -> None:
    await fail_in_a_row(worker, 3)
    for _ in range(3):
        await the_pause_ends(redis)
        await worker.limiter.sweep([courier_line(USPS)])
        await fail(worker, await worker.taken())
    await worker.parked("N010")
    await the_pause_ends(redis)
    await fail(worker, await worker.taken())
    await the_pause_ends(redis)
    await worker.limiter.sweep([courier_line(USPS)])

    assert (await worker.taken()).request.number == "N010"


async def test_where_all_have_failed_the_one_that_waits_longest_is_tried(
    worker: Worker, redis: Redis
) -> None:
    await fail_in_a_row(worker, 3)
    await the_pause_ends(redis)
    await worker.limiter.sweep([courier_line(USPS)])
    first = await redis.lrange(KEYS.wait_list, 0, 0)

    assert [(await worker.taken()).request.number] == first


async def test_each_probe_takes_another_number_and_sends_the_failed_one_to_wait_later(
    worker: Worker, redis: Redis
) -> None:
    await fail_in_a_row(worker, 3)
    for number in ("W001", "W002", "W003"):
        await worker.parked(number)
    tried = []
    for _ in range(6):
        await the_pause_ends(redis)
        (probe,) = (await worker.take()).calls
        tried.append(probe.request.number)
        await fail(worker, probe)
        assert await redis.zscore(KEYS.wait_later, probe.request.number)

    assert tried == ["W001", "W002", "W003", "N000", "N001", "N002"]


async def test_who_failed_is_due_when_the_pause_ends(worker: Worker, redis: Redis) -> None:
    await fail_in_a_row(worker, 3)
    await the_pause_ends(redis)

    await fail(worker, await worker.taken(), delay=3600.0)

    later = await redis.zrange(KEYS.wait_later, 0, -1, withscores=True)
    seconds, micros = await redis.time()
    assert max(due for _, due in later) / 1000 - (seconds + micros / 1e6) <= 2.0


async def test_one_call_alone_tries_and_its_answer_lets_all_go(
    worker: Worker, redis: Redis
) -> None:
    await fail_in_a_row(worker, 3)
    for number in ("W001", "W002"):
        await worker.parked(number)
    await the_pause_ends(redis)

    (probe,) = (await worker.take()).calls
    alone = await worker.raw("take", "alone", 5, 1)
    turn = await worker.finish(probe, ANSWERED, 10)

    assert alone[1:3] == [[], "concurrency"]
    assert len(turn.calls) == 4
    assert (await brake(redis)).keys() == {"answered"}


async def test_an_answer_to_a_call_of_before_ends_the_pause_of_an_outage(
    worker: Worker, redis: Redis
) -> None:
    good = await worker.granted("GOOD")
    await fail_in_a_row(worker, 3)

    await worker.finish(good)

    assert await redis.get(KEYS.calls_paused) is None


async def test_an_answer_does_not_end_the_pause_that_the_courier_asked_for(
    worker: Worker, redis: Redis
) -> None:
    good, refused = await worker.granted("GOOD"), await worker.granted("N001")
    await fail(worker, refused, "rate_limited", named=60.0)

    await worker.finish(good)

    assert await redis.pttl(KEYS.calls_paused) > 50_000


async def test_nothing_is_blamed_on_a_number_while_nobody_else_is_answered(
    worker: Worker, redis: Redis
) -> None:
    await fail_in_a_row(worker, 3)
    for _ in range(4):
        await the_pause_ends(redis)
        probe = await worker.taken()
        assert probe.attempts == 0
        await fail(worker, probe, charged=True, spares=True)

    assert await counted(redis, "repeated") == (7,)


async def test_what_is_held_against_nobody_stops_no_line(worker: Worker, redis: Redis) -> None:
    for n in range(5):
        await worker.limiter.retry(await worker.granted(f"N{n:03}"), again_in(60.0), 0)

    assert await redis.exists(KEYS.calls_brake, KEYS.calls_paused) == 0


async def test_who_is_refused_at_the_couriers_wish_lets_others_try_after_it(
    worker: Worker, redis: Redis
) -> None:
    await fail(worker, await worker.granted("N001"), "rate_limited", named=20.0)
    await worker.parked("N002")

    await the_pause_ends(redis)
    assert (await worker.taken()).request.number == "N002"
    waits = json.loads(await redis.hget(KEYS.wait_requests, "N001") or "")
    assert "attempts" not in waits


async def test_a_number_that_is_refused_again_and_again_waits_longer_each_time(
    worker: Worker, redis: Redis
) -> None:
    call = await sent(await worker.granted("BAD"))
    await fail(worker, call, "rate_limited", named=1.0, delay=600.0)
    before = await redis_us(redis) / 1_000_000

    (due,) = (each[1] for each in await redis.zrange(KEYS.wait_later, 0, -1, withscores=True))

    assert due / 1000 - before > 500
    assert await redis.pttl(KEYS.calls_paused) <= 1000


async def test_a_refusal_before_the_send_gives_the_start_back(hire: Hire, redis: Redis) -> None:
    worker = await hire(Rules(per_day=5))

    await fail(worker, await worker.granted("N001"), "no_credentials")

    assert await redis.zcard(KEYS.call_starts) == 0
    assert await redis.get(KEYS.calls_day) == "0"


async def test_the_last_failure_of_a_number_stops_the_line_as_well(
    worker: Worker, redis: Redis
) -> None:
    dying = DEAD._replace(setback=failed("auth_failed", charged=True))

    for number in ("N001", "N002", "N003"):
        await worker.finish(await worker.granted(number), dying)

    assert await redis.get(KEYS.calls_paused) == "auth_failed"


async def test_who_reports_a_failure_twice_reports_one(worker: Worker, redis: Redis) -> None:
    calls = [await worker.granted(f"N{n:03}") for n in range(3)]
    for call in calls:
        await fail(worker, call)
        before = await brake(redis)

        await fail(worker, call)

        assert await brake(redis) == before


def lines(secret: str) -> CourierLines:
    own = CourierSettings(USPS, credentials={"client_id": "me", "secret": secret})
    return CourierLines(Config(), Registry([own]))


@pytest.fixture
async def refused(hire: Hire) -> Worker:
    worker = await hire(policy=Policy(mark_of=lines("wrong").mark_of))
    for number in ("N001", "N002", "N003"):
        await worker.limiter.retry(await worker.granted(number), failed("auth_failed"), 0)
    return worker


@pytest.mark.usefixtures("unread_log")
async def test_other_credentials_end_the_pause_of_wrong_ones(
    refused: Worker, brakes: Pauses, redis: Redis
) -> None:
    await resume_where_changed(brakes, lines("right"))

    assert await redis.exists(KEYS.calls_paused, KEYS.calls_brake) == 0
    calls = (await refused.take(claims=True)).calls
    assert {call.request.number for call in calls} == {"N001", "N002", "N003"}


@pytest.mark.usefixtures("unread_log")
async def test_they_are_tried_at_once_for_too_few_numbers_to_stop_a_line(
    hire: Hire, brakes: Pauses
) -> None:
    worker = await hire(policy=Policy(mark_of=lines("wrong").mark_of))
    await worker.limiter.retry(await worker.granted("N001"), failed("auth_failed"), 0)

    await resume_where_changed(brakes, lines("right"))

    assert [call.request.number for call in (await worker.take(claims=True)).calls] == ["N001"]


async def test_the_same_credentials_end_no_pause(
    refused: Worker, brakes: Pauses, redis: Redis
) -> None:
    await resume_where_changed(brakes, lines("wrong"))

    assert await redis.get(KEYS.calls_paused) == "auth_failed"
    assert (await refused.take()).calls == ()


@pytest.mark.usefixtures("unread_log", "refused")
async def test_other_credentials_do_not_end_a_pause_by_hand(brakes: Pauses, redis: Redis) -> None:
    await brakes.pause(Line(USPS), None)

    await resume_where_changed(brakes, lines("right"))

    assert await redis.exists(KEYS.calls_held)


@pytest.mark.usefixtures("refused")
async def test_no_credential_stands_in_redis(redis: Redis) -> None:
    assert "wrong" not in str(await redis.get(KEYS.calls_brake))
