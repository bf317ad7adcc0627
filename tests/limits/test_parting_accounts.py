"""A store that commit 5523a5f filled, where accounts shared records and calls: nothing is lost.

How stores/shared_records.json was made stands in stores/filled_at_5523a5f.py beside it.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from limits_bench import KEYS, Worker, retries_are_due, state
from limits_invariants import take_snapshot
from redis import Redis as Blocking
from redis.asyncio import Redis

from limits.admin.accounts import older_workers, part_accounts
from limits.keys import FORM, WORKERS
from limits.workers import WorkerInfo, registration
from tracking.account import account_and_id, number_and_account
from tracking.call import Call

STORE: dict[str, Any] = json.loads(
    (Path(__file__).parent / "stores" / "shared_records.json").read_text()
)
IDS = sorted(
    name.removeprefix("tracking:status:")
    for name in STORE
    if name.startswith("tracking:status:") and not name.startswith("tracking:status:usps:")
)
POSTAL = "tracking_postal_code"


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
    answer = json.loads(await redis.get(f"{KEYS.answer}N001"))
    await redis.set(f"{KEYS.answer}N001", json.dumps(answer | {"accounts": ["shop"]}))

    assert (await worker.granted(id="b")).account == "main"
