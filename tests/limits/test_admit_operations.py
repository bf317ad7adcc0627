"""Operations as lua/admit.lua takes them: by ids, by parcel, what becomes of them, their cost."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
from typing import Any

import pytest
from limits_bench import (
    ANSWERED,
    DEAD,
    KEYS,
    NO_PLACES,
    USPS,
    Hire,
    Worker,
    a_millisecond_goes_by,
    counted,
    failed,
    forget,
    redis_us,
    sent,
    state,
    status,
    the_lease_ends,
    verdict,
)
from redis.asyncio import Redis

from limits.admin.forget import Forgetter
from limits.admin.view import View
from limits.rules import Rules
from tracking.call import Full, Parked, Verdict
from tracking.operation import State
from tracking.request import MAIN, Number, Origin

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


async def test_an_id_put_twice_while_it_waits_is_one_operation(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await busy.parked("N001", id="op-1")
    await busy.parked("N001", id="op-1")

    call = await free.taken()
    await free.finish(call)

    assert (call.operations, call.requests) == (("op-1",), 1)
    assert await counted(redis, "SUCCESS") == (1,)


async def test_an_id_put_twice_while_it_runs_is_one_operation(worker: Worker, redis: Redis) -> None:
    call = await worker.granted("N001", id="op-1")

    assert await worker.admit("N001", id="op-1") == Parked("known")
    turn = await worker.finish(call, ANSWERED, 5)

    assert turn.calls == ()
    assert await counted(redis, "SUCCESS", "calls") == (1, 1)
    assert await redis.exists(KEYS.wait_requests) == 0


@pytest.mark.parametrize("end", [ANSWERED, DEAD], ids=["answered", "dead"])
async def test_an_id_put_again_after_its_end_is_told_the_end(
    worker: Worker, redis: Redis, end: Verdict
) -> None:
    await worker.finish(await worker.granted("N001", id="op-1"), end)

    assert await worker.ended("N001", id="op-1") is end.state
    assert await counted(redis, end.state) == (1,)


async def test_an_id_whose_record_is_lost_is_admitted_again(worker: Worker, redis: Redis) -> None:
    lost = await worker.granted("N001", id="op-1")
    await redis.delete(KEYS.wait_inflight)

    call = await worker.granted("N001", id="op-1")

    assert call.operations == lost.operations
    assert await counted(redis, "open") == (1,)


async def test_two_ids_for_one_number_are_answered_by_one_call(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await busy.parked("N001", id="op-1")
    await busy.parked("N001", id="op-2")

    call = await free.taken()
    await free.finish(call)

    assert set(call.operations) == {"op-1", "op-2"}
    assert await state(redis, "op-1") == await state(redis, "op-2") == "SUCCESS"
    assert await counted(redis, "SUCCESS") == (2,)


async def test_requests_without_an_id_join_and_are_counted(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    for _ in range(3):
        await busy.parked("N001")
    await busy.parked("N001", id="op-1")

    call = await free.taken()
    await free.finish(call)

    assert (call.requests, call.operations[0], len(call.operations)) == (4, "op-1", 2)
    assert await counted(redis, "SUCCESS") == (2,)  # the joined ones are one operation


async def test_the_newest_inputs_win_and_fill_gaps(busy: Worker, free: Worker) -> None:
    old = {"tracking_postal_code": "10115", "tracking_key": "k"}
    new = {"tracking_postal_code": "20095", "tracking_state": "HH"}
    await busy.parked("N001", given="n-001", fields=old, traceparent="old")
    await busy.parked("N001", given="N 001", fields=new, traceparent="new")

    request = (await free.taken()).request

    assert request.given == "n-001"
    assert request.fields == {**old, **new}
    assert request.traceparent == "new"


@pytest.mark.parametrize(
    ("first", "then", "wins"),
    [
        (Origin.MANUAL, Origin.AUTOMATIC, "first"),
        (Origin.AUTOMATIC, Origin.MANUAL, "then"),
        (Origin.AUTOMATIC, Origin.AUTOMATIC, "then"),
    ],
)
async def test_inputs_of_a_schedule_only_fill_the_gaps_of_those_of_a_person(
    busy: Worker, free: Worker, first: Origin, then: Origin, wins: str
) -> None:
    old = {"tracking_postal_code": "first", "tracking_key": "k"}
    new = {"tracking_postal_code": "then", "tracking_state": "HH"}
    await busy.parked("N001", origin=first, fields=old)
    await busy.parked("N001", origin=then, fields=new)

    fields = (await free.taken()).request.fields

    assert fields == {**old, **new, "tracking_postal_code": wins}


async def test_inputs_of_a_person_survive_the_schedule_that_meets_them(
    worker: Worker, redis: Redis
) -> None:
    manual = {"tracking_postal_code": "new"}
    call = await worker.granted("N001", fields=manual)
    await worker.parked("N001", origin=Origin.AUTOMATIC, fields={"tracking_postal_code": "old"})

    await the_lease_ends(redis, call)
    await worker.raw("sweep", "s")

    assert (await worker.taken()).request.fields == manual


async def test_a_status_holds_exactly_what_the_contract_lists(worker: Worker, redis: Redis) -> None:
    call = await worker.granted("N001", id="op-1")
    running = await status(redis, "op-1")
    await worker.finish(call, Verdict(State.SUCCESS, {"tag": "In/Transit"}))
    ended = await status(redis, "op-1")

    assert running is not None
    assert ended is not None
    assert running.keys() == {"status", "startedAt", "finishedAt", "output", "tracking", "at"}
    assert running["status"] == "RUNNING"
    assert (running["finishedAt"], running["output"]) == (None, None)
    assert running["tracking"] == "usps:N001"
    assert running["at"] == ended.pop("at")
    started = ended.pop("startedAt")
    finished = ended.pop("finishedAt")
    assert ended == {"status": "SUCCESS", "output": {"tag": "In/Transit"}, "tracking": "usps:N001"}
    assert running["startedAt"] == started
    assert ISO.fullmatch(started)
    assert started <= finished


async def test_the_end_of_a_job_without_an_id_is_known(worker: Worker) -> None:
    await worker.finish(await worker.granted("N001", job="job-1"))

    assert await worker.ended("N001", job="job-1", max_age=0) is State.SUCCESS


async def test_a_call_to_be_repeated_waits_again(worker: Worker, redis: Redis) -> None:
    call = await worker.granted("N001", id="op-1")
    assert await state(redis, "op-1") == "RUNNING"

    await worker.limiter.retry(call, failed(delay=60.0), 0)

    assert await state(redis, "op-1") == "WAITING"


async def test_attempts_count_answers_to_be_repeated(worker: Worker) -> None:
    call = await sent(await worker.granted("N001"))

    for attempts in (1, 2):
        (call,) = (await worker.limiter.retry(call, failed(delay=0.0, charged=True), 1)).calls
        assert call.attempts == attempts

    (handed_back,) = (await worker.limiter.hand_back([call], 1)).calls
    assert (handed_back.attempts, handed_back.deaths) == (2, 0)


@pytest.mark.parametrize("number", ["N001", "N002"])
async def test_an_error_that_the_courier_answered_is_an_answer_for_its_number_only(
    worker: Worker, number: str
) -> None:
    refused = Verdict(State.ERROR, {"error": "invalid_number"})
    await worker.finish(await worker.granted("N001"), refused)

    admission = await worker.admit(number)

    assert getattr(admission, "state", None) is (State.ERROR if number == "N001" else None)


@pytest.mark.parametrize(
    "moment",
    [
        dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
        dt.datetime(1999, 12, 31, 23, 59, 59, 999_000, tzinfo=dt.UTC),
        dt.datetime(2000, 2, 29, 12, tzinfo=dt.UTC),
        dt.datetime(2024, 2, 29, 0, 0, 0, 7_000, tzinfo=dt.UTC),
        dt.datetime(2025, 3, 1, tzinfo=dt.UTC),
        dt.datetime(2099, 12, 31, 4, 5, 6, 78_000, tzinfo=dt.UTC),
    ],
    ids=str,
)
async def test_times_are_iso_8601_in_utc(worker: Worker, redis: Redis, moment: dt.datetime) -> None:
    await worker.raw_admit("c", id="op-1")
    observed = round(moment.timestamp() * 1000)

    await worker.raw("finish", "c", verdict(observed), "N001", "b", 0)

    found = await status(redis, "op-1")
    assert found is not None
    assert found["startedAt"] == moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def test_a_resend_while_its_number_runs_is_called_after_that(
    worker: Worker, redis: Redis
) -> None:
    first = await worker.granted("N001", id="op-1")
    await a_millisecond_goes_by(redis)  # who came in the grant's own is answered by its call
    for n in range(2):
        await worker.parked("N001", id=f"op-1.{n}", resend_of="op-1", max_age=0.0)

    (second,) = (await worker.finish(first, room=5)).calls

    assert set(second.operations) == {"op-1.0", "op-1.1"}
    assert await counted(redis, "calls") == (2,)


N001 = Number("N001")
HISTORY = f"{KEYS.history}usps:N001"
DAY_MS = 86_400_000


async def told(redis: Redis, worker: Worker) -> list[dict[str, Any]]:
    return await View(redis, lambda _: worker.rules).operations_of(USPS, N001, MAIN)


async def states(redis: Redis, worker: Worker) -> dict[str, str | None]:
    return {each["id"]: each["status"] for each in await told(redis, worker)}


async def test_what_waits_runs_or_has_ended_is_listed_the_newest_first_in_two_round_trips(
    worker: Worker, redis: Redis
) -> None:
    await worker.finish(await worker.granted("N001", id="old"))
    await a_millisecond_goes_by(redis)
    await worker.granted("N001", id="runs", max_age=0.0)
    for n in range(20):
        await worker.parked("N001", id=f"waits-{n}", max_age=0.0)
    await worker.parked("N001", job="job-1", max_age=0.0)
    before = int((await redis.info("stats"))["total_reads_processed"])

    found = await told(redis, worker)

    after = int((await redis.info("stats"))["total_reads_processed"])
    assert after - before == 3, "the third is our own question"
    waiting, others = found[:21], [(each["id"], each["status"]) for each in found[21:]]
    assert {each["status"] for each in waiting} == {"WAITING"}
    assert {each["id"] for each in waiting} == {
        "usps:N001:job-1",
        *(f"waits-{n}" for n in range(20)),
    }
    assert others == [("runs", "RUNNING"), ("old", "SUCCESS")]
    assert {each["tracking"] for each in found} == {"usps:N001"}


async def test_of_hundreds_that_a_call_is_for_all_are_listed(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    names = {f"op-{n}" for n in range(150)}
    await asyncio.gather(*(busy.parked("N001", id=each) for each in names))
    await free.taken()

    assert {each["id"] for each in await told(redis, busy)} == names


async def test_an_end_without_a_call_is_listed_too(busy: Worker, redis: Redis) -> None:
    await busy.parked("N001", id="cancelled")
    await busy.raw("cancel", "N001", "", NO_PLACES)
    await busy.ended("N001", id="expired", expires_at=1.0)

    found = await states(redis, busy)

    assert found == {"cancelled": "CANCELLED", "expired": "CANCELLED"}


async def test_a_parcels_list_is_trimmed_to_a_day_and_ends_a_day_after_its_last_entry(
    worker: Worker, redis: Redis
) -> None:
    long_ago = await redis_us(redis) // 1000 - DAY_MS - 1
    await redis.zadd(HISTORY, {"ancient": long_ago, "yesterday": long_ago + 60_000})
    await redis.pexpire(HISTORY, 60_000)

    await worker.granted("N001", id="op-1")

    assert await redis.zrange(HISTORY, 0, -1) == ["yesterday", "op-1"]
    assert DAY_MS - 60_000 < await redis.pttl(HISTORY) <= DAY_MS
    assert (await states(redis, worker))["yesterday"] is None


async def test_who_only_waits_costs_no_key_more(busy: Worker, redis: Redis) -> None:
    await busy.parked("N001", id="op-1")
    await busy.parked("N001")

    assert not await redis.exists(HISTORY)


async def test_requests_without_an_id_are_listed_by_what_they_can_be_asked_for(
    worker: Worker, redis: Redis
) -> None:
    await worker.finish(await worker.granted("N001", job="job-1"))

    (found,) = await told(redis, worker)

    assert (found["id"], found["status"]) == ("usps:N001:job-1", "SUCCESS")
    view = View(redis, lambda _: worker.rules)
    assert {"id": found["id"]} | (await view.operation(found["id"]) or {}) == found


async def test_a_number_pushed_by_hand_can_be_asked_for_once_it_runs(
    worker: Worker, redis: Redis
) -> None:
    await redis.rpush(KEYS.wait_list, "N001")

    await worker.taken()

    (found,) = await told(redis, worker)
    assert found["id"].startswith("usps:N001:hand-")
    assert found["status"] == "RUNNING"


async def test_of_a_forgotten_parcel_nothing_is_listed(
    worker: Worker, forgetter: Forgetter, redis: Redis
) -> None:
    await worker.granted("N001", id="op-1")

    await forget(forgetter)

    assert await told(redis, worker) == []


async def commands(redis: Redis) -> dict[str, int]:
    told = await redis.info("commandstats")
    ours = {"cmdstat_info", "cmdstat_evalsha", "cmdstat_script|load"}
    return {name: each["calls"] for name, each in told.items() if name not in ours}


async def spent_since(before: dict[str, int], redis: Redis) -> dict[str, int]:
    after = await commands(redis)
    return {name: n - before.get(name, 0) for name, n in after.items() if n > before.get(name, 0)}


@pytest.mark.parametrize(("identity", "most"), [(None, 43), ("op-1", 46)])
async def test_a_job_that_meets_nobody_costs_few_commands(
    worker: Worker, redis: Redis, identity: str | None, most: int
) -> None:
    await worker.finish(await worker.granted("N000"))
    before = await commands(redis)

    await worker.finish(await worker.granted("N001", id=identity))

    spent = await spent_since(before, redis)
    assert sum(spent.values()) <= most, spent


async def test_a_job_that_is_refused_as_full_reads_its_state_once(hire: Hire, redis: Redis) -> None:
    worker = await hire(Rules(per_second=1, max_waiting=1))
    await worker.granted("N000")
    await worker.parked("N001")
    await worker.admit("N002", id="first")  # the first of a slug begins its statistics, too
    before = await commands(redis)

    full = await worker.admit("N003", id="full")

    spent = await spent_since(before, redis)
    assert type(full) is Full
    assert sum(spent.values()) <= 15, spent
