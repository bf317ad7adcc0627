"""Deliveries on real servers: what is brought in, attempted, repeated, and left to MongoDB."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import engine
import pytest
from engine import DELIVERED, DOWN, REFUSED, Engine, World, deliveries_of, service
from redis.asyncio import Redis

from service.worker.deliveries import attempt, filler, work
from service.worker.deliveries.attempt import Ending, Failure
from service.worker.deliveries.delivery import DeliveryState
from service.worker.deliveries.lines import WINDOW
from service.worker.deliveries.service import ServiceState
from service.worker.results.connection import Store

Hire = Callable[..., Awaitable[Engine]]

pytestmark = pytest.mark.usefixtures("unread_log", "hurried")


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Days become seconds."""
    monkeypatch.setattr(attempt, "DELAYS_SECONDS", (0.1, 0.6, 0.7))
    monkeypatch.setattr(work, "SOON_SECONDS", 0.3)
    monkeypatch.setattr(work, "SKEW_SECONDS", 0.02)
    monkeypatch.setattr(filler, "SOON_SECONDS", 0.3)
    monkeypatch.setattr(filler, "PERIOD_SECONDS", 0.2)
    monkeypatch.setattr(filler, "LEASE_SECONDS", 0.6)
    monkeypatch.setattr(filler, "SETTLES_SECONDS", 0.2)


@pytest.fixture
async def world(redis: Redis, store: Store) -> AsyncIterator[World]:
    await store.prepare()
    made = World(redis, store)
    yield made
    for each in made.workers:
        await each.close()


@pytest.fixture
def hire(world: World) -> Hire:
    async def start(*args: Any) -> Engine:
        return await Engine(world, *args).start()

    return start


async def test_what_is_brought_in_is_delivered_at_once_and_has_a_row(
    world: World, hire: Hire
) -> None:
    shop, worker = service(), await hire()
    world.make(shop)
    (one,) = deliveries_of(shop, 1)
    world.insert([one])
    worker.filler.bring([one])
    await world.until_states(delivered=1)

    (row,) = world.store.attempts.find()
    assert (row["_id"], row["status"], row["failure"], row["body"]) == (
        f"{one.id}.1",
        200,
        None,
        b"ok",
    )
    (now,) = world.stored()
    assert (now.made, now.round_from, now.why) == (1, 0, "")
    assert now.ended_at is not None
    await world.leaves_nothing(shop)


async def test_what_nobody_brought_in_is_found_in_mongodb(world: World, hire: Hire) -> None:
    shop = service()
    world.make(shop)
    world.insert(deliveries_of(shop, 30))
    for _ in range(2):
        await hire()
    await world.until_states(delivered=30)

    assert set(world.receiver.times.values()) == {1}


async def test_what_is_brought_in_often_is_sent_once(world: World, hire: Hire) -> None:
    shop, workers = service(concurrent=2), [await hire(), await hire()]
    world.make(shop)
    world.receiver.latency = 0.05
    some = deliveries_of(shop, 20)
    world.insert(some)
    for _ in range(5):
        for worker in workers:
            worker.filler.bring(some)
        await asyncio.sleep(0.05)
    await world.until_states(delivered=20)

    assert set(world.receiver.times.values()) == {1}
    assert world.receiver.twice_at_once == []


async def test_a_failed_one_is_repeated_through_redis_and_later_through_mongodb(
    world: World, hire: Hire
) -> None:
    shop, worker = service(), await hire()
    world.make(shop)
    world.receiver.answers = lambda _, __, nth: DELIVERED if nth == 3 else DOWN
    (one,) = deliveries_of(shop, 1)
    world.insert([one])
    worker.filler.bring([one])
    await world.until(lambda: len(world.receiver.arrivals) == 2)
    await world.until(lambda: world.stored()[0].made == 2)
    await world.leaves_nothing(shop)
    await world.until_states(delivered=1)

    first, second, third = (each.at for each in world.receiver.arrivals)
    assert 0.08 <= second - first <= 0.4
    assert 0.5 <= third - second <= 1.2
    rows = {each["_id"]: each["failure"] for each in world.store.attempts.find()}
    assert rows == {
        f"{one.id}.1": "server_error",
        f"{one.id}.2": "server_error",
        f"{one.id}.3": None,
    }


async def test_a_delivery_is_dead_after_its_attempts_and_nothing_is_in_the_collection_dead(
    world: World, hire: Hire
) -> None:
    shop, worker = service(attempts=2), await hire()
    world.make(shop)
    world.receiver.answers = lambda *_: REFUSED
    some = deliveries_of(shop, 3)
    world.insert(some)
    worker.filler.bring(some)
    await world.until_states(dead=3)
    await asyncio.sleep(0.5)

    assert world.receiver.times == Counter({each.id: 2 for each in some})
    assert {each.why for each in world.stored()} == {"refused"}
    assert world.store.dead.count_documents({}) == 0


async def test_an_attempt_that_reaches_nobody_is_one_all_the_same(world: World, hire: Hire) -> None:
    shop, worker = service(attempts=2), await hire()
    world.make(shop)
    world.receiver.unreachable = True
    world.receiver.answers = lambda *_: Ending(Failure.CONNECTION)
    (one,) = deliveries_of(shop, 1)
    world.insert([one])
    worker.filler.bring([one])
    await world.until_states(dead=1)

    assert world.receiver.times == {one.id: 2}
    assert world.store.attempts.count_documents({"failure": "connection"}) == 2


async def test_410_holds_the_delivery_uncharged(world: World, hire: Hire) -> None:
    shop, worker = service(), await hire()
    world.make(shop)
    world.receiver.answers = lambda *_: Ending(Failure.GONE, 410)
    (one,) = deliveries_of(shop, 1)
    world.insert([one])
    worker.filler.bring([one])
    await world.until_states(held=1)

    (now,) = world.stored()
    assert (now.made, now.round_from, now.why, now.ended_at) == (1, 1, "gone", None)


async def test_retry_after_rests_the_line_and_charges_nobody(world: World, hire: Hire) -> None:
    shop, worker = service(concurrent=1), await hire()
    world.make(shop)
    resting = Ending(Failure.OVERLOADED, 429, 1.0)
    world.receiver.answers = lambda *_: DELIVERED if len(world.receiver.arrivals) > 1 else resting
    some = deliveries_of(shop, 3)
    world.insert(some)
    worker.filler.bring(some)
    await world.until_states(delivered=3)

    first, second, *_ = (each.at for each in world.receiver.arrivals)
    assert second - first >= 0.9
    asked_twice = next(each for each in world.stored() if each.made == 2)
    assert asked_twice.round_from == 1


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"state": DeliveryState.CANCELLED}, "cancelled"),
        ({"state": DeliveryState.HELD}, "held"),
        ({"state": DeliveryState.DELIVERED}, "delivered"),
        ({"round": 2}, "moved_on"),
        ({"made": 1}, "moved_on"),
        ({"next_at": dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)}, "not_due"),
    ],
)
async def test_nothing_is_sent_that_mongodb_has_otherwise_and_its_start_is_given_back(
    world: World, hire: Hire, monkeypatch: pytest.MonkeyPatch, members: dict[str, Any], why: str
) -> None:
    monkeypatch.setattr(filler, "PERIOD_SECONDS", 60.0)
    shop, worker = service(per_second=1), await hire()
    world.make(shop)
    brought, good = deliveries_of(shop, 2)
    world.insert([replace(brought, **members)])
    worker.bringing.bring([(brought.request(), brought.key)])
    await asyncio.sleep(0.1)
    await world.leaves_nothing(shop)
    assert world.receiver.arrivals == [], why
    world.insert([good])
    worker.filler.bring([good])
    # With one start a second it would wait for a second otherwise.
    await world.until(lambda: world.receiver.order() == [good.id], 0.6)


async def test_a_delivery_that_is_due_soon_waits_in_redis_and_its_start_is_given_back(
    world: World, hire: Hire
) -> None:
    shop, worker = service(), await hire()
    world.make(shop)
    (one,) = deliveries_of(shop, 1)
    soon = replace(one, next_at=dt.datetime.now(dt.UTC) + dt.timedelta(seconds=0.25))
    world.insert([soon])
    worker.bringing.bring([(soon.request(), soon.key)])
    await asyncio.sleep(0.1)
    assert world.receiver.arrivals == []
    assert await world.holds(shop) == {one.id}
    await world.until_states(delivered=1)


async def test_the_row_of_an_attempt_is_taken_over_and_nothing_is_sent(
    world: World, hire: Hire
) -> None:
    shop = service()
    world.make(shop)
    (one,) = deliveries_of(shop, 1)
    world.insert([one])
    row = {
        "_id": f"{one.id}.1",
        "at": dt.datetime.now(dt.UTC),
        "ms": 5,
        "status": 200,
        "failure": None,
        "rest_seconds": None,
    }
    world.store.attempts.insert_one(row)
    worker = await hire()
    worker.filler.bring([one])
    await world.until_states(delivered=1)

    assert world.receiver.arrivals == []


@pytest.mark.prove
async def test_redis_holds_at_most_a_thousand_of_a_dead_destination(
    world: World, hire: Hire
) -> None:
    shop, other = service(), service()
    world.make(shop, other)
    world.receiver.answers = lambda to, *_: DOWN if to.id == shop.id else DELIVERED
    some = deliveries_of(shop, 4_000)
    world.insert(some)
    workers = [await hire() for _ in range(2)]
    for worker in workers:
        worker.filler.bring(some)
    world.insert(deliveries_of(other, 20, start=10_000))
    await world.until_states(other, delivered=20)
    await asyncio.sleep(1.0)

    held = await world.holds(shop)
    assert WINDOW // 2 <= len(held) <= WINDOW + shop.concurrent
    assert 20 <= len(world.receiver.arrivals) - 20 <= 20 + 2 * shop.concurrent
    assert world.states(shop) == {"open": 4_000}


@pytest.mark.prove
async def test_a_long_backlog_is_delivered_without_a_pause(
    world: World, hire: Hire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filler, "PERIOD_SECONDS", 10_000.0)  # no look but those it wakes for
    shop, worker = service(per_second=100_000, concurrent=100), await hire()
    # On a busy machine an attempt takes a while, and is no failure of the destination for that.
    monkeypatch.setattr(engine, "TIMEOUT", 300.0)
    monkeypatch.setattr(engine, "LEASE", 600.0)
    world.make(shop)
    world.receiver.latency = 0.0
    world.insert(deliveries_of(shop, 2_500))
    worker.filler.wake(shop.line)
    await world.until_states(delivered=2_500, seconds=300.0)

    assert set(world.receiver.times.values()) == {1}
    at = [each.at for each in world.receiver.arrivals]
    pauses = sorted(later - before for before, later in pairwise(at))
    # They are brought in by a thousand at most, and a pause would come before each of these; one
    # alone is the machine's, which stands still at times.
    assert 5 * pauses[-2] < at[-1] - at[0]


async def test_an_emptied_redis_is_filled_again(world: World, hire: Hire, redis: Redis) -> None:
    shop, worker = service(per_second=20), await hire()
    world.make(shop)
    some = deliveries_of(shop, 30)
    world.insert(some)
    worker.filler.bring(some)
    await world.until(lambda: len(world.receiver.arrivals) > 5)
    await redis.flushdb()
    await world.until_states(delivered=30, seconds=20.0)

    assert world.receiver.twice_at_once == []
    assert max(world.receiver.times.values()) <= 2


@pytest.mark.parametrize("state", [ServiceState.PAUSED, ServiceState.DISABLED])
async def test_deliveries_of_a_service_that_is_not_active_wait_in_mongodb(
    world: World, hire: Hire, state: ServiceState
) -> None:
    shop = service(state=state)
    world.make(shop)
    some = deliveries_of(shop, 5)
    world.insert(some)
    worker = await hire()
    worker.filler.bring(some)
    worker.filler.wake(shop.line)
    worker.bringing.bring([(each.request(), each.key) for each in some])
    await asyncio.sleep(0.6)
    assert world.receiver.arrivals == []
    await world.leaves_nothing(shop)
    world.make(replace(shop, state=ServiceState.ACTIVE))
    await world.until_states(delivered=5)


async def test_a_drain_job_of_an_empty_line_has_the_service_looked_at(
    world: World, hire: Hire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filler, "PERIOD_SECONDS", 60.0)
    shop = service()
    world.make(shop)
    await hire()
    world.insert(deliveries_of(shop, 1))
    world.put(shop.line)
    await world.until_states(delivered=1, seconds=1.0)


async def test_an_ordered_service_is_told_one_by_one_in_the_order_of_events(
    world: World, hire: Hire
) -> None:
    shop = service(ordered=True)
    world.make(shop)
    failing = deliveries_of(shop, 12)[3].id
    world.receiver.answers = lambda _, each, nth: DOWN if each == failing and nth < 3 else DELIVERED
    some = deliveries_of(shop, 12)
    for _ in range(2):
        await hire()
    for part in (some[6:], some[:6]):
        world.insert(part)
        world.workers[0].filler.bring(part)
    await world.until_states(delivered=12, seconds=20.0)

    order = list(dict.fromkeys(world.receiver.order()))
    assert order == [each.id for each in some]
    assert world.receiver.times == Counter([*(each.id for each in some), failing, failing])
    at = [each.at for each in world.receiver.arrivals]
    assert min(later - sooner for sooner, later in pairwise(at)) >= world.receiver.latency


async def test_a_resting_line_is_tried_by_one_after_the_other_uncharged_before_it_is_due(
    world: World, hire: Hire, redis: Redis
) -> None:
    shop = service()
    world.make(shop)
    later = dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(hours=5)
    some = [replace(each, next_at=later, made=3) for each in deliveries_of(shop, 4)]
    world.insert(some)
    world.receiver.answers = lambda *_: DELIVERED if len(world.receiver.arrivals) > 4 else DOWN
    brake = '{"failed":[],"why":"destination_down","pauses":0}'
    await redis.set(f"calls_brake:{shop.line}", brake, px=60_000)
    await hire()
    await world.until_states(delivered=1, open=3, seconds=15.0)
    await asyncio.sleep(0.6)

    assert len(set(world.receiver.order()[:4])) == 4
    assert len(world.receiver.arrivals) == 5
    waiting = [each for each in world.stored() if each.state is DeliveryState.OPEN]
    assert {(each.made, each.round_from, each.next_at) for each in waiting} == {(4, 1, later)}
