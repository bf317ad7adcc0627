"""Whose fault a failed call was (lua/lib/brake.lua), and who dies behind a line that is refused.

The answers of others tell whether a failure is its number's or its courier's. Who waited for a day
while every call was refused dies.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from limits_bench import (
    AT_ONCE,
    DEAD,
    KEYS,
    NO_PLACES,
    Worker,
    a_millisecond_goes_by,
    asked,
    counted,
    everything,
    failed,
    retries_are_due,
    state,
    the_lease_ends,
)
from redis.asyncio import Redis

from limits.limiter import Limiter
from tracking.call import Call, Swept, TakeResult, Verdict
from tracking.operation import State
from tracking.request import Slug


async def fail(worker: Worker, call: Call, **more: Any) -> TakeResult:
    """As the policy has it: charged where others are answered."""
    setback = failed("courier_down", **({"charged": True, "spares": True} | more))
    return await worker.limiter.retry(call, setback, 0)


async def answered(worker: Worker, redis: Redis, number: str = "GOOD") -> None:
    await worker.finish(await worker.granted(number, max_age=0))
    await a_millisecond_goes_by(redis)


async def tried_again(worker: Worker, redis: Redis) -> Call:
    await retries_are_due(redis)
    return await worker.taken()


async def test_a_failure_is_charged_once_another_number_was_answered_since_the_last_one(
    worker: Worker, redis: Redis
) -> None:
    await fail(worker, await worker.granted("BAD"))
    await answered(worker, redis)

    second = await tried_again(worker, redis)
    await fail(worker, second)
    third = await tried_again(worker, redis)
    await fail(worker, third)
    fourth = await tried_again(worker, redis)

    assert [(each.attempts, each.tries) for each in (second, third, fourth)] == [
        (0, 1),
        (1, 2),
        (1, 3),
    ]
    assert third.failing_since == second.failing_since is not None


async def test_a_first_failure_is_charged_to_nobody(worker: Worker, redis: Redis) -> None:
    await fail(worker, await worker.granted("FIRST"))
    bad = await worker.granted("BAD")
    await answered(worker, redis)
    await redis.zrem(KEYS.wait_later, "FIRST")

    await fail(worker, bad)

    assert (await tried_again(worker, redis)).attempts == 0


async def test_a_number_that_fails_is_charged_although_its_calls_run_in_step_with_anothers(
    worker: Worker, redis: Redis
) -> None:
    """Each of its calls was granted before the other's answer came: so nobody was ever charged."""
    charged, bad = [], await worker.granted("BAD")
    for _ in range(4):
        await answered(worker, redis)
        await fail(worker, bad)
        bad = await tried_again(worker, redis)
        charged.append(bad.attempts)

    assert charged == [0, 1, 2, 3]


async def test_an_answer_from_before_it_failed_is_held_against_nobody(
    worker: Worker, redis: Redis
) -> None:
    await fail(worker, await worker.granted("FIRST"))
    await answered(worker, redis)
    await fail(worker, await worker.granted("BAD"))
    await redis.zrem(KEYS.wait_later, "FIRST")

    await fail(worker, await tried_again(worker, redis))

    assert (await tried_again(worker, redis)).attempts == 0


async def test_an_answer_that_follows_within_the_millisecond_counts(
    worker: Worker, redis: Redis
) -> None:
    bad, good = await worker.granted("BAD"), await worker.granted("GOOD")
    await asyncio.gather(fail(worker, bad), worker.finish(good))  # one script, one time

    await fail(worker, await tried_again(worker, redis))

    assert (await tried_again(worker, redis)).attempts == 1


async def test_an_answer_that_went_before_within_the_millisecond_does_not(
    worker: Worker, redis: Redis
) -> None:
    await fail(worker, await worker.granted("FIRST"))
    good, bad = await worker.granted("GOOD"), await worker.granted("BAD")
    await asyncio.gather(worker.finish(good), fail(worker, bad))
    await redis.zrem(KEYS.wait_later, "FIRST")

    await fail(worker, await tried_again(worker, redis))

    assert (await tried_again(worker, redis)).attempts == 0


async def test_a_kind_that_spares_nobody_charges_every_failure(
    worker: Worker, redis: Redis
) -> None:
    bad = await worker.granted("BAD")

    await fail(worker, bad, spares=False)

    assert (await tried_again(worker, redis)).attempts == 1


async def test_the_last_attempt_changes_nothing_until_its_call_is_recorded_as_dead(
    worker: Worker, redis: Redis
) -> None:
    await fail(worker, await worker.granted("BAD", id="op-1"), attempts=1)
    await answered(worker, redis)
    last = await tried_again(worker, redis)
    before = await everything(redis)

    turns = [await fail(worker, last, attempts=1) for _ in range(2)]

    assert turns == [TakeResult(used_up=True)] * 2
    assert await everything(redis) == before
    await worker.finish(last, DEAD)
    assert (await state(redis, "op-1"), await counted(redis, "ERROR")) == ("ERROR", (1,))
    assert not await redis.exists(KEYS.calls_leases, KEYS.wait_inflight)


async def test_a_number_that_fails_alone_has_no_last_attempt(worker: Worker, redis: Redis) -> None:
    bad = await worker.granted("BAD")

    for _ in range(3):
        assert not (await fail(worker, bad, attempts=1)).used_up
        bad = await tried_again(worker, redis)


HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
USPS = Slug("usps")
NO_KEY = "no_credentials"
"""Nobody can be asked about at all, so nobody has to be for the end to come."""

GIVEN_UP = Verdict(State.ERROR, {"error": "auth_failed"}, answered=False)


async def refuse(worker: Worker, call: Call, why: str = "auth_failed") -> None:
    """One number stops the line."""
    await worker.limiter.retry(call, failed(why, brake=AT_ONCE), 0)


async def time_went_by(redis: Redis, ms: int) -> None:
    """For all that waits, and for what is known of the line."""
    for field, text in (await redis.hgetall(KEYS.wait_requests)).items():
        told = json.loads(text)
        for name in ("since", "at", "refused"):
            if name in told:
                told[name] -= ms
        if "at" in told.get("anon", ()):
            told["anon"]["at"] -= ms
        await redis.hset(KEYS.wait_requests, field, json.dumps(told))
    for key in await redis.keys(f"{KEYS.status}*"):
        operation = json.loads(await redis.get(key) or "")
        if "at" in operation:
            changed = operation | {"at": operation["at"] - ms}
            await redis.set(key, json.dumps(changed), keepttl=True)
    brake = json.loads(await redis.get(KEYS.calls_brake) or "{}")
    if brake:
        for name in {"refused", "until_ms", "at"} & brake.keys():
            brake[name] -= ms
        await redis.set(KEYS.calls_brake, json.dumps(brake), keepttl=True)
    await redis.delete(KEYS.calls_paused)


async def refused_for_a_day(
    worker: Worker, redis: Redis, call: Call, ms: int = DAY_MS, why: str = "auth_failed"
) -> None:
    """The line was refused, hour by hour, and is once more just now."""
    await refuse(worker, call, why)
    await redis.zadd(KEYS.wait_later, {call.request.number: 1}, xx=True)
    hours = ms // HOUR_MS
    for _ in range(hours):
        await time_went_by(redis, HOUR_MS)
        probe = await worker.taken()
        await refuse(worker, probe, why)
        await redis.zadd(KEYS.wait_later, {probe.request.number: 1}, xx=True)


async def swept(limiter: Limiter) -> Swept:
    (found,) = await limiter.sweep([USPS])
    return found


async def dying(worker: Worker) -> tuple[Call, ...]:
    return (await swept(worker.limiter)).dying


async def nobody_dies(worker: Worker) -> bool:
    """Also when the line is swept whatever `inspect` says of it."""
    _, _, found, *_ = await worker.raw("sweep", "by-hand")
    return found == [] and not any(each.dying for each in await worker.limiter.sweep([USPS]))


async def test_an_old_backlog_is_not_burnt_by_its_first_refusal(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    for n in range(5):
        await busy.parked(f"N{n:03}")
    await time_went_by(redis, 25 * HOUR_MS)

    await refuse(free, await free.taken())

    assert await redis.get(KEYS.calls_paused) == "auth_failed"
    assert await nobody_dies(free)
    assert await counted(redis, "ERROR") == (0,)


async def test_who_waited_for_a_day_while_all_was_refused_dies_without_a_call(
    worker: Worker, redis: Redis
) -> None:
    first = await worker.granted("N001", id="op-1")
    await worker.parked("N001", id="op-2", max_age=0.0)
    await refused_for_a_day(worker, redis, first)
    starts = await redis.hget(KEYS.counts, "calls")

    (call,) = await dying(worker)
    await worker.finish(call, GIVEN_UP)

    assert (call.request.number, call.given_up) == ("N001", "auth_failed")
    assert sorted(call.operations) == ["op-1", "op-2"]
    assert (await state(redis, "op-1"), await state(redis, "op-2")) == ("ERROR", "ERROR")
    assert await redis.hget(KEYS.counts, "calls") == starts
    assert await redis.exists(KEYS.wait_list, KEYS.wait_inflight, KEYS.wait_requests) == 0


async def test_who_came_later_goes_on_waiting(worker: Worker, redis: Redis) -> None:
    await refused_for_a_day(worker, redis, await worker.granted("OLD", id="op-1"))
    await worker.parked("YOUNG")
    await worker.parked("OLD", id="op-2")

    (call,) = await dying(worker)
    await worker.finish(call, GIVEN_UP)

    assert call.request.number == "OLD"
    assert (await state(redis, "op-1"), await state(redis, "op-2")) == ("ERROR", "WAITING")
    assert set(await redis.lrange(KEYS.wait_list, 0, -1)) == {"OLD", "YOUNG"}
    assert await dying(worker) == ()


async def test_nobody_dies_for_a_request_that_was_cancelled(worker: Worker, redis: Redis) -> None:
    await refused_for_a_day(worker, redis, await worker.granted("N001", id="op-1"))
    await worker.parked("N001", id="op-2")
    await worker.raw("cancel", "N001", "op-1", NO_PLACES)

    assert await nobody_dies(worker)
    assert await state(redis, "op-2") == "WAITING"
    assert json.loads(await redis.hget(KEYS.wait_requests, "N001") or "")["ids"] == 1


async def test_who_is_given_up_without_a_call_is_found_by_the_parcel(
    worker: Worker, redis: Redis
) -> None:
    await refused_for_a_day(worker, redis, await worker.granted("N001"))
    (call,) = await dying(worker)
    await redis.delete(f"{KEYS.history}usps:N001")

    await worker.finish(call, GIVEN_UP)

    assert await redis.zrange(f"{KEYS.history}usps:N001", 0, -1) == list(call.operations)


async def test_only_those_are_named_who_die(worker: Worker, redis: Redis) -> None:
    await refused_for_a_day(worker, redis, await worker.granted("N001", id="op-1"))
    await worker.parked("N001")
    for n in range(2, 130):
        await worker.parked("N001", id=f"op-{n}")

    (call,) = await dying(worker)

    assert call.operations == ("op-1",)


async def test_an_answer_in_the_meantime_begins_another_day(worker: Worker, redis: Redis) -> None:
    call = await worker.granted("N001")
    await refuse(worker, call)
    await worker.parked("N002")
    await refused_for_a_day(worker, redis, call, 23 * HOUR_MS)
    await time_went_by(redis, HOUR_MS)
    await worker.finish(await worker.taken())
    await time_went_by(redis, HOUR_MS)

    await refuse(worker, await worker.taken())

    assert await nobody_dies(worker)


@pytest.mark.parametrize("hours", [3, 48])
async def test_a_line_that_nobody_asked_for_hours_was_not_refused_meanwhile(
    worker: Worker, redis: Redis, hours: int
) -> None:
    """All workers were stopped, or somebody had paused it."""
    await refused_for_a_day(worker, redis, await worker.granted("N001"), 23 * HOUR_MS)
    await time_went_by(redis, hours * HOUR_MS)

    await refuse(worker, await worker.taken())

    assert await nobody_dies(worker)


async def test_an_outage_is_no_refusal(worker: Worker, redis: Redis) -> None:
    await refused_for_a_day(worker, redis, await worker.granted("N001"), 23 * HOUR_MS)
    await time_went_by(redis, HOUR_MS)
    await redis.zadd(KEYS.wait_later, {"N001": 1}, xx=True)

    await worker.limiter.retry(await worker.taken(), failed("courier_down"), 0)

    assert "refused" not in json.loads(await redis.get(KEYS.calls_brake) or "")


async def test_who_was_never_asked_does_not_die_of_what_others_were_answered(
    worker: Worker, redis: Redis
) -> None:
    first = await worker.granted("ASKED", id="op-1")
    await worker.parked("ASKED", id="op-2", max_age=0.0)
    await refuse(worker, first)
    await worker.parked("PROBED", id="op-3")
    await worker.parked("NEVER", id="op-4")
    brake = json.loads(await redis.get(KEYS.calls_brake) or "")
    brake["until_ms"] += DAY_MS
    await redis.set(KEYS.calls_brake, json.dumps(brake), keepttl=True)
    await time_went_by(redis, DAY_MS)
    await redis.zadd(KEYS.wait_later, {"ASKED": 1}, xx=True)
    await worker.take(0)
    await redis.delete(KEYS.calls_paused)
    await refuse(worker, await worker.taken())

    assert {call.request.number for call in await dying(worker)} == {"ASKED", "PROBED"}
    assert await state(redis, "op-4") == "WAITING"


async def test_of_many_that_end_a_sweep_names_no_more_than_100(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted("FIRST")
    await refuse(worker, call, NO_KEY)
    await asyncio.gather(*(worker.parked(f"N{n:03}") for n in range(129)))
    await time_went_by(redis, 20 * HOUR_MS)
    brake = json.loads(await redis.get(KEYS.calls_brake) or "")
    brake["until_ms"] += 20 * HOUR_MS
    await redis.set(KEYS.calls_brake, json.dumps(brake), keepttl=True)
    await refused_for_a_day(worker, redis, call, 4 * HOUR_MS, NO_KEY)

    sizes = [len(await dying(worker)) for _ in range(4)]

    assert max(sizes) <= 100, "what a sweep may spend ends it sooner, as a rule"
    assert (sum(sizes), sizes[-1]) == (130, 0)


async def test_what_one_worker_records_no_other_does_until_it_vanished(
    worker: Worker, redis: Redis
) -> None:
    await refused_for_a_day(worker, redis, await worker.granted("N001"))
    (call,) = await dying(worker)

    assert await dying(worker) == ()
    text = json.loads(await redis.hget(KEYS.wait_inflight, call.id) or "")
    text["dying"]["till"] = 1
    await redis.hset(KEYS.wait_inflight, call.id, json.dumps(text))
    (again,) = await dying(worker)

    assert (again.id, again.given_up) == (call.id, "auth_failed")


async def test_who_asks_meanwhile_waits_behind_and_goes_on(worker: Worker, redis: Redis) -> None:
    await refused_for_a_day(worker, redis, await worker.granted("N001", id="op-1"))
    (call,) = await dying(worker)
    await worker.parked("N001", id="op-2")

    await worker.finish(call, GIVEN_UP)

    assert (await state(redis, "op-1"), await state(redis, "op-2")) == ("ERROR", "WAITING")
    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N001"]


async def test_a_probe_of_a_refused_line_that_vanished_is_no_reason_to_die(
    worker: Worker, redis: Redis
) -> None:
    await refused_for_a_day(worker, redis, await worker.granted("N001"), 2 * HOUR_MS)
    await redis.delete(KEYS.calls_paused)
    probe = await worker.taken()
    await the_lease_ends(redis, probe)

    found = await swept(worker.limiter)

    assert (found.swept, found.dying) == (1, ())
    assert asked("N001").number == probe.request.number
