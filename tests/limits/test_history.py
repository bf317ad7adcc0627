"""All operations of a parcel are found by its number, for a day."""

from __future__ import annotations

import asyncio
from typing import Any

from limits_bench import (
    KEYS,
    NO_PLACES,
    USPS,
    Worker,
    a_millisecond_goes_by,
    forget,
    redis_us,
)
from redis.asyncio import Redis

from limits.admin.forget import Forgetter
from limits.admin.view import View
from tracking.account import MAIN
from tracking.request import Number

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
