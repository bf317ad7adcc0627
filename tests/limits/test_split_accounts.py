"""Accounts share nothing, and what they shared before is parted (lua/split.lua)."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from limits_bench import (
    DEAD,
    KEYS,
    NO_PLACES,
    USPS,
    Hire,
    Worker,
    failed,
    forget,
    retries_are_due,
    state,
)
from limits_invariants import take_snapshot
from redis import Redis as Blocking
from redis.asyncio import Redis

from limits.admin.accounts import older_workers, part_accounts
from limits.admin.cancel import Canceller
from limits.admin.forget import Forgetter
from limits.admin.view import View
from limits.keys import FORM, WORKERS
from limits.workers import WorkerInfo, registration
from service.worker.flow.tracking_work import letter_of
from tracking.call import Call
from tracking.operation import State
from tracking.request import Number, account_and_id, number_and_account

POSTAL = "tracking_postal_code"
MINE, THEIRS = {POSTAL: "8000"}, {POSTAL: "1010"}
N001, SHOPS = Number("N001"), Number("N001@shop")


async def states(redis: Redis, *ids: str) -> list[str | None]:
    return [await state(redis, each) for each in ids]


async def test_accounts_that_follow_one_number_make_a_call_each_at_once(
    worker: Worker, redis: Redis
) -> None:
    mine = await worker.granted(id="a", fields=MINE)
    theirs = await worker.granted(id="shop/a", fields=THEIRS)

    assert [call.account for call in (mine, theirs)] == ["main", "shop"]
    assert [call.request.number for call in (mine, theirs)] == ["N001", "N001"]
    assert [call.request.fields for call in (mine, theirs)] == [MINE, THEIRS]
    await worker.finish(mine)
    assert await states(redis, "a", "shop/a") == ["SUCCESS", "RUNNING"]


async def test_an_answer_of_another_account_is_not_fresh_though_it_was_asked_alike(
    worker: Worker,
) -> None:
    await worker.finish(await worker.granted(id="a", fields=MINE))
    own = await worker.granted(id="shop/a", fields=MINE)
    await worker.finish(own)

    assert await worker.ended(id="shop/b", fields=MINE) is State.SUCCESS
    assert (await worker.granted(id="other/a", fields=MINE)).account == "other"


async def test_within_an_account_one_call_answers_all_who_wait(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    for each in ("shop/a", "a", "shop/b", "b"):
        await busy.parked(id=each)

    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N001@shop", "N001"]
    first = await free.taken()
    assert sorted(first.operations) == ["shop/a", "shop/b"]
    await free.finish(first)
    assert await states(redis, "shop/a", "shop/b") == ["SUCCESS", "SUCCESS"]
    assert await states(redis, "a", "b") != ["SUCCESS", "SUCCESS"]


async def test_a_failed_call_of_one_account_neither_ends_nor_charges_another(
    worker: Worker, redis: Redis
) -> None:
    theirs = await worker.granted(id="shop/a")
    mine = await worker.granted(id="a")
    await worker.limiter.retry(theirs, failed(charged=True, delay=0.0), 0)
    await retries_are_due(redis)
    again = await worker.taken()
    await worker.finish(again, DEAD)

    assert (again.account, again.tries, mine.tries) == ("shop", 1, 0)
    assert await states(redis, "shop/a", "a") == ["ERROR", "RUNNING"]


async def test_the_history_of_a_parcel_is_of_one_account(worker: Worker, redis: Redis) -> None:
    for each in ("a", "shop/a"):
        await worker.finish(await worker.granted(id=each))
    view = View(redis, lambda _: worker.rules)

    assert await redis.zrange("tracking:operations:usps:N001", 0, -1) == ["a"]
    assert await redis.zrange("tracking:operations:usps:N001@shop", 0, -1) == ["shop/a"]
    told = [each["id"] for each in await view.operations_of(USPS, N001)]
    assert sorted(told) == ["a", "shop/a"]


async def test_a_number_pushed_by_hand_in_an_accounts_name_is_asked_for_nobody(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted(id="shop/a", fields=MINE)
    await redis.rpush(KEYS.wait_list, SHOPS)

    pushed = await worker.taken()

    assert (pushed.request.number, pushed.account) == ("N001.shop", "main")
    await worker.finish(pushed)
    await worker.finish(call)
    assert await states(redis, "shop/a") == ["SUCCESS"]


async def test_a_number_of_an_account_that_somebody_pushes_twice_waits_once(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await busy.parked(id="shop/a")
    await redis.rpush(KEYS.wait_list, SHOPS)

    call = await free.taken()

    assert (call.account, call.operations) == ("shop", ("shop/a",))


async def test_cancelling_a_number_reaches_every_account_and_an_id_only_its_own(
    busy: Worker, redis: Redis
) -> None:
    canceller = Canceller(redis, lambda _: busy.rules)
    for each in ("a", "shop/a", "shop/b", "other/a"):
        await busy.parked(id=each)

    assert (await canceller.cancel(USPS, N001, "shop/a")).operations == 1
    assert await states(redis, "a", "shop/a", "shop/b") == ["WAITING", "CANCELLED", "WAITING"]
    assert (await canceller.cancel(USPS, N001)).operations == 3
    assert not await redis.exists(KEYS.wait_requests, KEYS.wait_list)


async def test_forgetting_a_parcel_reaches_what_waits_runs_and_is_remembered_of_every_account(
    worker: Worker, forgetter: Forgetter, redis: Redis
) -> None:
    await worker.finish(await worker.granted(id="other/a"))
    running = await worker.granted(id="shop/a")
    await worker.granted(id="a")

    found = await forget(forgetter)

    assert (found.ended, len(found.calls), found.answers) == (2, 2, 1)
    await worker.finish(running)
    assert await states(redis, "shop/a", "a") == ["CANCELLED", "CANCELLED"]
    assert not await redis.keys("tracking:answer:*")
    assert not await redis.keys("tracking:operations:*")


async def test_cancelling_the_line_tells_whose_numbers_waited(busy: Worker, redis: Redis) -> None:
    for each in ("a", "shop/a"):
        await busy.parked(id=each)
    canceller = Canceller(redis, lambda _: busy.rules)

    told = [one.number async for one, came in canceller.cancel_courier(USPS) if came.operations]

    assert told == ["N001", SHOPS]


async def test_a_job_that_comes_back_finds_the_call_of_its_own_account(
    hire: Hire, worker: Worker, redis: Redis
) -> None:
    other = await hire(worker.rules)
    call = await worker.granted(id="shop/a", job="j1")
    await worker.granted(id="a", job="j2")

    again = await other.granted(id="shop/a", job="j1")

    assert (again.account, again.deaths) == ("shop", call.deaths + 1)
    assert await redis.hkeys(KEYS.wait_inflight) == await redis.hkeys(KEYS.wait_inflight)
    assert (await worker.raw("cancel", "N001", "a", NO_PLACES))[1] == "running"


async def test_each_account_whose_call_fails_has_a_record_in_dead_of_its_own(
    worker: Worker,
) -> None:
    calls = await asyncio.gather(*(worker.granted(id=each) for each in ("shop/a", "a", "other/a")))

    letters = [letter_of(each, "not_found", "", b"") for each in calls]
    assert len({each.id for each in letters}) == 3


STORE: dict[str, Any] = json.loads(
    (Path(__file__).parent / "stores" / "shared_records.json").read_text()
)
IDS = sorted(
    name.removeprefix("tracking:status:")
    for name in STORE
    if name.startswith("tracking:status:") and not name.startswith("tracking:status:usps:")
)


@pytest.fixture
async def filled(redis: Redis) -> Redis:
    server = ("tracking:epoch", "tracking:server")  # it is another one
    for name, value in STORE.items():
        match value:
            case str() if name in server:
                continue
            case str():
                await redis.set(name, value)
            case list():
                await redis.rpush(name, *value)
            case {"hash": held}:
                await redis.hset(name, mapping=held)
            case {"zset": held}:
                await redis.zadd(name, held)
            case {"set": held}:
                await redis.sadd(name, *held)
    return redis


async def part(worker: Worker, redis: Redis) -> int:
    return await part_accounts(redis, lambda _: worker.rules)


async def all_calls(worker: Worker, redis: Redis) -> list[Call]:
    """Sweep, call and answer until nobody waits and nothing runs; who called then has vanished."""
    calls: list[Call] = []
    await redis.zadd(KEYS.calls_leases, dict.fromkeys(STORE[KEYS.calls_leases]["zset"], 1), xx=True)
    for _ in range(100):
        await retries_are_due(redis)
        await worker.raw("sweep", "")
        if not (found := (await worker.take(5)).calls):
            if not await redis.exists(KEYS.wait_requests, KEYS.wait_inflight):
                return calls
            continue
        for call in found:
            calls.append(call)
            await worker.finish(call)
    raise AssertionError(await redis.hgetall(KEYS.wait_requests))


async def test_every_request_of_a_shared_store_is_answered_by_a_call_of_its_own_account(
    filled: Redis, worker: Worker, redis_url: str
) -> None:
    assert await part(worker, filled) > 10
    with Blocking.from_url(redis_url, decode_responses=True) as blocking:
        _all_is_apart(blocking)

    calls = await all_calls(worker, filled)

    assert {each: await state(filled, each) for each in IDS} == dict.fromkeys(IDS, "SUCCESS")
    for job, number in (("F002-job", "F002"), ("W001-job", "W001")):
        assert await state(filled, f"usps:{number}:{job}") == "SUCCESS"
    for call in calls:
        assert {account_and_id(each)[0] for each in call.operations} == {call.account}
    made = Counter((call.request.number, call.account) for call in calls)
    assert made[("W001", "main")] == made[("W001", "shop")] == made[("W001", "other")] == 1
    assert max(made.values()) <= 2  # behind a call that vanished somebody may have asked alike


def _all_is_apart(redis: Blocking) -> None:
    seen = take_snapshot(redis)
    named = [*seen.records, *(each["n"] for each in seen.flying.values())]
    records = [*seen.records.values(), *seen.flying.values()]
    assert not [each for each in records if "accounts" in each or "account" in each]
    for name, record in zip(named, records, strict=True):
        ids = [*(record.get("newest") or ()), *([""] if record.get("anon") else ())]
        assert {account_and_id(each)[0] for each in ids} == {number_and_account(name)[1]}, name
    assert seen.index == {record["n"]: call for call, record in seen.flying.items()}
    for number, record in seen.records.items():
        if record.get("state") is None:
            name = "automatic" if record.get("auto") else "manual"
            assert seen.lists[name][record["position"] - seen.order.get(name, 0)] == number
        elif record["state"] == "later":
            assert number in seen.later
        else:
            assert number in seen.index


async def test_an_accounts_fields_stay_its_own_and_failed_calls_its_who_made_them(
    filled: Redis, worker: Worker
) -> None:
    await part(worker, filled)

    calls = {(call.request.number, call.account): call for call in await all_calls(worker, filled)}

    said = {key: call.request.fields.get(POSTAL) for key, call in calls.items()}
    assert said[("W001", "main")] == said[("W001", "other")] == "8000"
    assert said[("W001", "shop")] == "1010"
    assert {said[("W002", "main")], said[("W002", "shop")]} == {None}
    assert said[("F001", "main")] == said[("F001", "shop")] == "8000"
    assert said[("F001", "other")] == "1010"
    assert [calls[("R001", each)].attempts for each in ("main", "shop")] == [1, 0]


async def test_a_call_in_flight_stays_that_of_one_account_and_its_late_end_ends_that_alone(
    filled: Redis, worker: Worker
) -> None:
    await part(worker, filled)
    flying = {
        json.loads(text)["n"]
        for call, text in (await filled.hgetall(KEYS.wait_inflight)).items()
        if call[0] != "="
    }

    assert flying == {"F001", "F002@shop", "F003@shop", "F004@shop"}
    assert await state(filled, "shop/F003-a") == "RUNNING"
    assert await state(filled, "other/F003-b") == "WAITING"


async def test_parting_again_changes_nothing(filled: Redis, worker: Worker) -> None:
    await part(worker, filled)
    first = await _all_of(filled)

    assert await part(worker, filled) == 0
    await filled.delete(FORM)
    assert await part(worker, filled) == 0

    assert await _all_of(filled) == first


async def _all_of(redis: Redis) -> dict[str, Any]:
    lists = {key: await redis.lrange(key, 0, -1) for key in await redis.keys("wait_operations:*")}
    hashes = {key: await redis.hgetall(key) for key in (KEYS.wait_requests, KEYS.wait_inflight)}
    return lists | hashes | {"list": await redis.lrange(KEYS.wait_list, 0, -1)}


async def test_a_worker_of_a_version_before_is_known_by_what_it_does_not_say(filled: Redis) -> None:
    seconds, _ = await filled.time()
    old = json.dumps({"token": "t", "host": "h", "pid": 1, "version": "0.1.0", "since": 1.0})
    new = registration(WorkerInfo("h", 2, "0.1.0", 2.0), "u")
    await filled.zadd(WORKERS, {old: (seconds + 10) * 1000, new: (seconds + 10) * 1000})

    assert await older_workers(filled) == ["h 1"]
    await filled.zrem(WORKERS, old)
    assert await older_workers(filled) == []


async def test_an_answer_of_a_version_before_is_nobodys(worker: Worker, redis: Redis) -> None:
    call = await worker.granted(id="a")
    await worker.finish(call)
    output, _, rest = (await redis.get(f"{KEYS.answer}N001")).partition("\t")
    answer = json.loads(rest) | {"output": output, "accounts": ["shop"]}
    await redis.set(f"{KEYS.answer}N001", json.dumps(answer))

    assert (await worker.granted(id="b")).account == "main"
