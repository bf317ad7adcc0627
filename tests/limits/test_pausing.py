"""Pauses by hand, what lets a line go on, and whose credentials a pause is about."""

from __future__ import annotations

import json

import pytest
from limits_bench import ANSWERED, AT_ONCE, FAST, KEYS, USPS, Hire, Worker, failed
from redis.asyncio import Redis

from limits.admin.pause import Pauses, Resumed
from limits.admin.view import View
from limits.limiter import Policy
from tracking.call import Parked, Swept
from tracking.line import Line

LINE = Line(USPS)
NOTHING = Resumed(by_hand=False, why="")


async def stop(worker: Worker, why: str = "auth_failed", number: str = "N001") -> None:
    await worker.limiter.retry(await worker.granted(number), failed(why, brake=AT_ONCE), 0)


async def swept(worker: Worker) -> list[Swept]:
    return list(await worker.limiter.sweep([LINE]))


async def test_a_line_that_somebody_pauses_calls_nobody_until_it_is_resumed(
    worker: Worker, brakes: Pauses, redis: Redis
) -> None:
    await brakes.pause(LINE, None, "the courier moves house")

    parked = await worker.admit("N001")
    assert isinstance(parked, Parked)
    assert parked.why == "paused"
    assert await redis.ttl(KEYS.calls_held) == -1

    assert await brakes.resume(LINE) == Resumed(by_hand=True, why="")
    assert [call.request.number for call in (await worker.take(claims=True)).calls] == ["N001"]


async def test_a_pause_for_a_time_ends_by_itself(brakes: Pauses, redis: Redis) -> None:
    await brakes.pause(LINE, 90.0)

    assert 80_000 < await redis.pttl(KEYS.calls_held) <= 90_000


async def test_no_answer_ends_a_pause_by_hand(worker: Worker, brakes: Pauses, redis: Redis) -> None:
    call = await worker.granted("N001")
    await brakes.pause(LINE, None)

    await worker.finish(call, ANSWERED)

    assert await redis.exists(KEYS.calls_held)


async def test_what_is_resumed_is_drained_again_by_the_next_sweep(
    worker: Worker, brakes: Pauses
) -> None:
    await stop(worker)
    await worker.parked("N002")

    ended = await brakes.resume(LINE)

    assert ended == Resumed(by_hand=False, why="auth_failed")
    assert [each.put_drain for each in await swept(worker)] == [True]
    turn = await worker.take(claims=True)
    assert {call.request.number for call in turn.calls} == {"N001", "N002"}


async def test_who_failed_goes_on_at_once_although_the_key_of_the_pause_ends_a_little_sooner(
    worker: Worker, brakes: Pauses, redis: Redis
) -> None:
    """As where Redis' clock went on between the start of a script and its first look at it."""
    await stop(worker)
    await redis.pexpireat(KEYS.calls_paused, await redis.pexpiretime(KEYS.calls_paused) - 5)

    await brakes.resume(LINE)
    await swept(worker)

    assert [call.request.number for call in (await worker.take(claims=True)).calls] == ["N001"]


async def test_a_line_between_two_probes_is_resumed_too(
    worker: Worker, brakes: Pauses, redis: Redis
) -> None:
    await stop(worker)
    await redis.delete(KEYS.calls_paused)

    assert await brakes.resume(LINE) == Resumed(by_hand=False, why="auth_failed")
    assert await redis.exists(KEYS.calls_brake) == 0


async def test_there_is_nothing_to_resume_in_a_line_that_goes(
    worker: Worker, brakes: Pauses, redis: Redis
) -> None:
    await worker.limiter.retry(await worker.granted("N001"), failed("courier_down"), 0)

    assert await brakes.resume(LINE) == NOTHING
    assert await redis.exists(KEYS.calls_brake)


async def test_a_pause_by_hand_stays_where_only_the_couriers_is_to_end(
    worker: Worker, brakes: Pauses, redis: Redis
) -> None:
    await stop(worker)
    await brakes.pause(LINE, None)

    ended = await brakes.resume(LINE, by_hand=False)

    assert ended == Resumed(by_hand=False, why="auth_failed")
    assert await redis.exists(KEYS.calls_held, KEYS.calls_paused) == 1


async def test_a_refusal_is_marked_with_what_was_refused(hire: Hire, brakes: Pauses) -> None:
    worker = await hire(policy=Policy(mark_of=lambda line: f"mark of {line}"))
    await stop(worker, "auth_failed")
    other = Line("ups")

    assert await brakes.marks([other, LINE]) == {LINE: "mark of usps"}


@pytest.mark.parametrize("why", ["courier_down", "rate_limited"])
async def test_nothing_else_is_marked(hire: Hire, brakes: Pauses, why: str) -> None:
    worker = await hire(policy=Policy(mark_of=lambda line: f"mark of {line}"))
    await stop(worker, why)

    assert await brakes.marks([LINE]) == {}


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, ("by_hand", "moving house")),
        (7200.0, ("by_hand", "moving house")),
        (1.0, ("auth_failed", "")),
    ],
)
async def test_people_are_shown_the_pause_that_lasts_longer(
    worker: Worker, redis: Redis, seconds: float | None, shown: tuple[str, str]
) -> None:
    await stop(worker)
    await Pauses(redis, lambda _: FAST).pause(LINE, seconds, "moving house")
    await redis.zadd("tracking:workers", {json.dumps({"token": "t"}): 9e15})

    (view,) = await View(redis, lambda _: FAST).lines([LINE])

    assert view.bound_by == "paused"
    assert (view.paused_why, view.paused_note) == shown
    assert (view.until_seconds is None) == (seconds is None)


async def test_people_are_shown_that_one_call_alone_tries(worker: Worker, redis: Redis) -> None:
    await stop(worker)
    await redis.delete(KEYS.calls_paused)
    await redis.zadd("tracking:workers", {json.dumps({"token": "t"}): 9e15})

    (view,) = await View(redis, lambda _: FAST).lines([LINE])

    assert (view.bound_by, view.paused_why) == ("probing", "auth_failed")
