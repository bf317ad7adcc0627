"""Every line of `Returns` of every script, as Redis itself answers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from limits_bench import (
    KEYS,
    NO_PLACES,
    Hire,
    Worker,
    again_in,
    raw,
    redis_us,
    retries_are_due,
    state,
    the_lease_ends,
    verdict,
)
from redis.asyncio import Redis

from limits.limiter import Policy
from limits.rules import Rules

ONE = Rules(per_second=1000, concurrent=1)


async def granted(worker: Worker, call_id: str = "c", **fields: Any) -> list[Any]:
    _, word, grant = await worker.raw_admit(call_id, **fields)
    assert word == "granted"
    return list(grant)


async def test_every_script_of_a_slug_answers_with_redis_time_first(
    worker: Worker, redis: Redis
) -> None:
    before = await redis_us(redis)

    (now,) = await worker.raw("started")

    assert before <= now <= await redis_us(redis)


async def test_admit_grants_a_call_with_its_instant_and_everybody_behind_it(worker: Worker) -> None:
    now, word, (call_id, at, at_grant, record, ids) = await worker.raw_admit("c", id="op-1")

    assert (word, call_id, int(at), int(at_grant)) == ("granted", "c", now, now)
    assert json.loads(record)["n"] == "N001"
    assert json.loads(ids) == {"ids": ["op-1"]}


async def test_admit_parks_with_the_reason_and_asks_for_one_drain_job(hire: Hire) -> None:
    worker = await hire(ONE)
    await granted(worker)

    _, *first = await worker.raw_admit("d", "N002")
    _, *second = await worker.raw_admit("e", "N003")

    assert first == ["parked", "concurrency", 1]
    assert second == ["parked", "queue", 0]


async def test_admit_tells_an_end_with_its_state(worker: Worker) -> None:
    await granted(worker, "b")
    await worker.raw_admit("c", id="op-1")
    await worker.raw("cancel", "N001", "op-1", NO_PLACES)

    _, *reply = await worker.raw_admit("d", id="op-1")

    assert reply == ["ended", "CANCELLED"]


async def test_admit_tells_that_too_many_wait_and_changes_nothing(hire: Hire, redis: Redis) -> None:
    worker = await hire(replace(ONE, max_waiting=1))
    await granted(worker)
    await worker.raw_admit("d", "N002")

    _, *reply = await worker.raw_admit("e", "N003", id="op-3")

    assert reply == ["full", 1]
    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N002"]
    assert await state(redis, "op-3") is None


async def test_admit_says_that_a_request_is_dying_and_whose_call_to_finish(hire: Hire) -> None:
    worker = await hire(policy=Policy(deaths=0))
    await granted(worker, "c", job="job-1")

    _, word, grant = await worker.raw_admit("d", job="job-1")

    assert (word, grant[0]) == ("dying", "c")


async def test_admit_says_that_the_epoch_is_another_one(worker: Worker, redis: Redis) -> None:
    await redis.set(KEYS.epoch, "stranger 0")

    _, *reply = await worker.raw_admit("c")

    assert reply == ["epoch"]


async def test_take_answers_grants_and_that_nobody_waits(worker: Worker, redis: Redis) -> None:
    await redis.rpush(KEYS.wait_list, "N001")

    _, grants, why, ask, put = await worker.raw("take", "b", 5, 0)

    assert [grant[0] for grant in grants] == ["b:1"]
    assert (why, ask, put) == ("empty", 0, 0)


async def test_take_names_what_binds_and_when_to_ask_again(usps: Worker, redis: Redis) -> None:
    await redis.rpush(KEYS.wait_list, "N001", "N002", "N003")

    now, grants, why, ask, put = await usps.raw("take", "b", 5, 0)

    assert [grant[0] for grant in grants] == ["b:1", "b:2"]
    assert (why, put) == ("rate", 0)
    assert now < int(ask) <= now + 2_020_000


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        (Rules(), "rate"),
        (ONE, "concurrency"),
        (Rules(per_second=1000, per_hour=1), "per_hour"),
        (Rules(per_second=1000, per_day=1), "per_day"),
        (Rules(per_second=1000), "empty"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_take_names_the_limit_that_binds(
    hire: Hire, redis: Redis, rules: Rules, why: str
) -> None:
    worker = await hire(rules)
    await redis.rpush(KEYS.wait_list, "N001", "N002", "N003")

    _, _, named, *_ = await worker.raw("take", "b", 5, 0)

    assert named == why


@pytest.mark.parametrize("why", ["paused", "quiet", "epoch"])
async def test_take_names_what_stops_the_courier(worker: Worker, redis: Redis, why: str) -> None:
    soon_us = await redis_us(redis) + 30_000_000
    await redis.rpush(KEYS.wait_list, "N001")
    match why:
        case "paused":
            await redis.set(KEYS.calls_paused, "429", px=30_000)
        case "quiet":
            await redis.set(KEYS.epoch, f"{worker.epoch.name} {soon_us}")
        case "epoch":
            await redis.set(KEYS.epoch, f"stranger {soon_us}")

    now, grants, named, ask, put = await worker.raw("take", "b", 5, 0)

    assert (grants, named, put) == ([], why, 0)
    assert now < int(ask) <= now + 30_000_000


async def test_take_without_room_hands_the_slug_over(worker: Worker, redis: Redis) -> None:
    await redis.rpush(KEYS.wait_list, "N001")

    _, *reply = await worker.raw("take", "b", 0, 0)

    assert reply == [[], "room", 0, 1]


@pytest.mark.parametrize("claims", [0, 1])
async def test_a_take_that_uses_its_room_up_asks_again_at_once(
    worker: Worker, redis: Redis, claims: int
) -> None:
    await redis.rpush(KEYS.wait_list, "N001", "N002", "N003")

    now, grants, named, ask, put = await worker.raw("take", "b", 1, claims)

    assert (len(grants), named, int(ask), put) == (1, "more", now, 0)


async def test_finish_wants_to_be_sent_again_while_more_than_100_operations_end(hire: Hire) -> None:
    worker = await hire(ONE)
    await granted(worker, "first", number="N009")
    for n in range(101):
        await worker.raw_admit(f"c{n}", id=f"op-{n}")
    now, *_ = await worker.raw("finish", "first", verdict(1), "N009", "b", 1)
    args = ("b:1", verdict(now // 1000), "N001", "b2", 1)

    _, *first = await worker.raw("finish", *args)
    _, *second = await worker.raw("finish", *args)

    assert first == [["b:1"], [], "more", 0, 0]
    assert second == [[], [], "empty", 0, 0]


async def test_finish_gives_the_freed_slot_to_the_next_in_line(hire: Hire) -> None:
    worker = await hire(ONE)
    await granted(worker, "c")
    await worker.raw_admit("d", "N002")

    _, left, grants, *rest = await worker.raw("finish", "c", verdict(1), "N001", "b", 5)

    assert left == []
    assert [grant[0] for grant in grants] == ["b:1"]
    assert rest == ["concurrency", 0, 0]


async def test_retry_and_hand_back_answer_as_take_does(worker: Worker, redis: Redis) -> None:
    await granted(worker, "c")

    now, grants, why, ask, put = await worker.raw("retry", "c", raw(again_in(5.0)), "b", 5)
    assert (grants, why, put) == ([], "empty", 0)
    assert abs(int(ask) - now - 5_000_000) < 1000  # the retry's due time, in whole ms

    await retries_are_due(redis)
    _, grants, *_ = await worker.raw("take", "b2", 5, 0)
    assert [grant[0] for grant in grants] == ["b2:1"]

    for unsent, call_id, base in ((0, "b2:1", "b3"), (1, "b3:1", "b4")):
        _, grants, why, *_ = await worker.raw("hand_back", call_id, unsent, base, 5)
        assert [grant[0] for grant in grants] == [f"{base}:1"]
        assert why == "empty"


async def test_again_answers_the_instant_of_one_more_request(worker: Worker) -> None:
    await granted(worker, "c")

    now, *reply = await worker.raw("again", "c#2", "c")

    assert reply == ["granted", str(now)]


async def test_again_says_when_to_ask_while_no_lane_is_free(usps: Worker) -> None:
    await granted(usps, "c")
    await granted(usps, "d", number="N002")

    now, word, ask = await usps.raw("again", "c#2", "c")

    assert word == "wait"
    assert now < int(ask) <= now + 2_020_000


async def test_again_says_that_the_lease_is_over(worker: Worker, redis: Redis) -> None:
    await granted(worker, "c")
    await redis.zadd(KEYS.calls_leases, {"c": 1})

    _, *reply = await worker.raw("again", "c#2", "c")

    assert reply == ["gone"]


async def test_cancel_counts_what_it_ended_and_asks_to_be_sent_again(worker: Worker) -> None:
    await granted(worker, "c")
    for n in range(101):
        await worker.raw_admit(f"c{n}", id=f"op-{n}")

    _, *first = await worker.raw("cancel", "N001", "", NO_PLACES)
    _, *second = await worker.raw("cancel", "N001", "", NO_PLACES)
    _, *third = await worker.raw("cancel", "N001", "", NO_PLACES)

    assert first == ["cancelled", 100, 1]
    assert second == ["cancelled", 1, 0]
    assert third == ["cancelled", 0, 0]


async def test_sweep_counts_what_it_put_back_and_asks_for_a_drain_job(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted()
    await the_lease_ends(redis, call)

    _, *reply = await worker.raw("sweep", "s")

    assert reply == [1, [], 1, 0]


async def test_sweep_names_the_calls_over_which_too_many_workers_vanished(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(policy=Policy(deaths=0))
    call = await worker.granted()
    await the_lease_ends(redis, call)

    _, swept, (dying,), put, more = await worker.raw("sweep", "s")

    assert (swept, put, more) == (0, 0, 0)
    assert dying[0] == call.id
