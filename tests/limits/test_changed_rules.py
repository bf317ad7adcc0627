"""Limits change while workers run: exactly, at once, and who idles asks for nothing."""

from __future__ import annotations

import asyncio
import json
import os
import time

import pytest
from limits_bench import FAST, KEYS, USPS, Book, Hire, Shelf, Worker, a_second_goes_by, sent
from redis.asyncio import Redis
from watched_limits import judged

from limits import keys
from limits.admin.pause import Pauses
from limits.admin.running import late_workers
from limits.admin.view import View
from limits.admin.violations import ANY, Violations, look
from limits.limiter import Policy
from limits.rules import Rules
from limits.workers import WorkerInfo
from tracking.errors import ResultsDown
from tracking.line import Line

LINE = Line(USPS)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


async def test_a_worker_that_goes_by_older_rules_starts_nothing_by_them(
    hire: Hire, shelf: Shelf, brakes: Pauses
) -> None:
    worker = await hire(Book(shelf))
    for number in ("N001", "N002"):
        await worker.granted(number)

    await brakes.revise(LINE, shelf.change(concurrent=2))

    assert (await worker.parked("N003")).why == "concurrency"


async def test_lowered_nothing_starts_until_fewer_run(
    hire: Hire, shelf: Shelf, brakes: Pauses
) -> None:
    worker = await hire(Book(shelf))
    calls = [await worker.granted(f"N{n:03}") for n in range(4)]

    await brakes.revise(LINE, shelf.change(concurrent=2))
    await worker.parked("WAITS")
    turns = [await worker.finish(call, room=9) for call in calls]

    assert [len(turn.calls) for turn in turns] == [0, 0, 1, 0]


async def test_a_lower_rate_counts_the_starts_of_before(
    hire: Hire, shelf: Shelf, brakes: Pauses
) -> None:
    worker = await hire(Book(shelf))
    for n in range(3):
        await sent(await worker.granted(f"N{n:03}"))

    await brakes.revise(LINE, shelf.change(per_second=2))

    assert (await worker.parked("N004")).why == "rate"


async def test_raised_the_next_sweep_calls_a_drainer(
    hire: Hire, shelf: Shelf, redis: Redis
) -> None:
    shelf.change(per_day=1)
    worker, other = await hire(Book(shelf)), await hire(Book(shelf))
    await worker.granted("N001")
    await worker.parked("N002")
    await worker.take(claims=True)
    before = await other.limiter.sweep([LINE])

    await Pauses(redis, lambda _: FAST).revise(LINE, shelf.change(per_day=None))
    (after,) = await other.limiter.sweep([LINE])

    assert (list(before), after.put_drain) == ([], True)
    learned = await worker.take(claims=True)
    assert learned.ask_again is not None
    assert learned.ask_again <= time.monotonic()
    assert len((await worker.take()).calls) == 1


async def test_a_quota_counts_from_its_change_on(hire: Hire, shelf: Shelf, brakes: Pauses) -> None:
    worker = await hire(Book(shelf))
    await worker.granted("N001")

    await brakes.revise(LINE, shelf.change(per_hour=1))

    await worker.granted("N002")
    assert (await worker.parked("N003")).why == "per_hour"


async def test_a_further_request_of_a_call_goes_by_the_new_rules(
    hire: Hire, shelf: Shelf, brakes: Pauses, redis: Redis
) -> None:
    worker = await hire(Book(shelf))
    call = await sent(await worker.granted("N001"))
    await brakes.revise(LINE, shelf.change(per_second=1, guard_ms=900))

    again = asyncio.create_task(call.permit.again())
    await asyncio.sleep(0.1)
    waited = not again.done()
    await a_second_goes_by(redis)
    await again

    assert waited


async def test_the_script_says_that_a_further_request_must_learn_the_rules(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted("N001")
    await redis.set(keys.REVISION, 1)

    assert (await worker.raw("again", "start", call.id))[1:] == ["rules"]


async def test_each_granting_script_refuses_older_rules(worker: Worker, redis: Redis) -> None:
    await redis.set(keys.REVISION, 7)
    await redis.rpush(KEYS.wait_list, "PUSHED")

    assert (await worker.raw_admit("c1"))[1:] == ["rules"]
    assert (await worker.raw("take", "base", 1, 1))[1:3] == [[], "rules"]


async def test_a_process_asks_for_the_rules_only_when_they_changed(
    hire: Hire, shelf: Shelf, brakes: Pauses
) -> None:
    book = Book(shelf)
    worker = await hire(book)
    begun = book.learned
    for n in range(5):
        await worker.granted(f"N{n:03}")
    assert book.learned == begun

    await brakes.revise(LINE, shelf.change(concurrent=3))
    for n in range(5, 8):
        await worker.parked(f"N{n:03}")

    assert book.learned == begun + 1


async def test_while_nobody_can_tell_the_rules_nothing_starts_and_nothing_is_lost(
    hire: Hire, shelf: Shelf, brakes: Pauses
) -> None:
    worker = await hire(Book(shelf))
    await brakes.revise(LINE, shelf.change(concurrent=3))
    shelf.is_away = True

    with pytest.raises(ResultsDown):
        await worker.admit("N001", "job")

    shelf.is_away = False
    await worker.granted("N001", "job")


async def test_after_a_lost_redis_no_worker_goes_by_rules_of_before(
    hire: Hire, shelf: Shelf, redis: Redis
) -> None:
    idle = await hire(Book(shelf), quiet_seconds=0.0)
    shelf.change(concurrent=1)  # the Redis that heard of it is lost before this worker asked
    shelf.is_away = True
    await redis.flushall()

    for number in ("N001", "N002"):
        with pytest.raises(ResultsDown):
            await idle.admit(number)
    shelf.is_away = False
    await idle.granted("N003")

    assert (await idle.parked("N004")).why == "concurrency"
    assert await redis.get(keys.REVISION) == "1"


async def test_a_worker_that_starts_tells_redis_what_it_missed(
    hire: Hire, shelf: Shelf, redis: Redis
) -> None:
    old = await hire(Book(shelf))
    shelf.change(concurrent=1)  # who changed it died before Redis heard of it

    await (await hire(Book(shelf))).granted("N001")

    assert await redis.get(keys.REVISION) == "1"
    assert (await old.parked("N002")).why == "concurrency"


async def test_an_older_revision_that_comes_late_changes_nothing(
    hire: Hire, redis: Redis, brakes: Pauses
) -> None:
    await hire()
    await brakes.revise(LINE, 5)

    await brakes.revise(LINE, 4)

    assert await redis.get(keys.REVISION) == "5"


@pytest.mark.parametrize("broken", ["no number", ["a", "list"]])
async def test_a_revision_that_nobody_can_read_is_written_again(
    hire: Hire, shelf: Shelf, redis: Redis, broken: str | list[str]
) -> None:
    shelf.change(concurrent=1)
    worker = await hire(Book(shelf))
    await redis.delete(keys.REVISION)
    if isinstance(broken, str):
        await redis.set(keys.REVISION, broken)
    else:
        await redis.rpush(keys.REVISION, *broken)

    await worker.granted("N001")

    assert await redis.get(keys.REVISION) == "1"


async def test_people_see_the_limits_in_force(
    hire: Hire, shelf: Shelf, brakes: Pauses, redis: Redis
) -> None:
    await hire()
    book = Book(shelf)
    view = View(redis, book.rules_of, book)
    await brakes.revise(LINE, shelf.change(concurrent=3, per_second=7))

    line = await view.line(LINE)

    assert (line.concurrent, line.per_second) == (3, 7)


async def test_calls_of_before_a_change_accuse_nobody(
    hire: Hire, shelf: Shelf, brakes: Pauses, redis: Redis
) -> None:
    shelf.rules = Rules(per_second=100, concurrent=100)
    book = Book(shelf)
    worker = await hire(Book(shelf))
    violations = Violations(book.rules_of, revisions=book)
    await look(redis, violations, ANY)
    for n in range(4):
        await sent(await worker.granted(f"N{n:03}"))
    await worker.take()  # it carries the reports

    await brakes.revise(LINE, shelf.change(per_second=1, concurrent=1))
    await look(redis, violations, ANY)

    assert set((await judged(redis, violations)).values()) == {0}
    assert book.revision == 1


async def test_the_drainer_that_was_named_is_let_go(
    hire: Hire, shelf: Shelf, redis: Redis, brakes: Pauses
) -> None:
    worker = await hire(Book(shelf))
    await worker.granted("N001")
    await redis.set(KEYS.wait_drainer, "somebody 1")

    await brakes.revise(LINE, shelf.change(concurrent=3))

    assert not await redis.exists(KEYS.wait_drainer)


async def test_who_has_nothing_to_do_learns_newer_rules_by_its_sweep_and_tells_so(
    hire: Hire, shelf: Shelf, redis: Redis, brakes: Pauses
) -> None:
    book = Book(shelf)
    idle = await hire(book, Policy(who=WorkerInfo("host-1", os.getpid(), "1", since=1.0)))
    revision = shelf.change(concurrent=2)
    await brakes.revise(LINE, revision)
    late = await late_workers(redis, revision)

    await idle.limiter.sweep([LINE])

    assert late == [f"host-1 {os.getpid()}"]
    assert await late_workers(redis, revision) == []


async def test_a_worker_that_does_not_say_by_which_rules_it_goes_is_late(redis: Redis) -> None:
    seconds, _ = await redis.time()
    told = {"token": "t", "host": "old", "pid": 7, "version": "0", "since": 1.0}
    await redis.zadd(keys.WORKERS, {json.dumps(told): seconds * 1000 + 5_000})

    assert await late_workers(redis, 0) == ["old 7"]


async def test_the_newest_revision_of_the_rules_comes_with_the_epoch(
    worker: Worker, redis: Redis
) -> None:
    await redis.set(keys.REVISION, "7")

    await worker.epoch.agree()

    assert worker.epoch.revision == 7
