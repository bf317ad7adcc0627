"""Everything that one may ask of Redis, each in the shape that takes longest.

Of a long line; then of numbers with many operations, of many couriers, and of none.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from benchmarks.filling import status_of
from benchmarks.long_line import (
    ANSWER,
    ASKED,
    LINE,
    NAMES,
    NOW,
    SLUG,
    LongLine,
    later,
    number_of,
    rules_of,
)
from limits import keys
from limits.admin.cancel import CancelFilter, CancelTarget
from limits.admin.statistics import TEN_MINUTES, Tallies
from limits.archive import DAY_MS, Archived, ToArchive
from limits.limiter import INSPECTED_AT_ONCE, SURVEYED_AT_ONCE
from limits.pipeline import unconfirmed
from service.worker.upkeep.archiver import TOGETHER_MOST
from tracking.line import Line, courier_line
from tracking.request import Number, Origin, Slug
from tracking.tally import BOUNDS_MS

IN_A_ROW = 10_000
"""Numbers that are cancelled one behind the other, before somebody takes what follows them."""

DUE = 2_000
RELISTED_SECONDS = 0.7


async def ask_line(line: LongLine) -> None:
    """Ask everything of the line; at last somebody deletes its lists."""
    await _admissions(line)
    await _places(line)
    await _calls(line)
    await _retries(line)
    await _cancels(line)
    await _sweeps(line)


async def _admissions(line: LongLine) -> None:
    of = line.times.of
    async with of("admit: new numbers"):
        await line.ask(line.new_numbers())
    async with of("admit: numbers that wait"):
        await line.ask(line.waiting())
    async with of("admit: AUTOMATIC numbers, now MANUAL"):
        await line.ask(line.waiting(automatic=1))
    async with of("admit: many ids for one number"):
        await line.ask(line.waiting()[:1] * ASKED)


async def _places(line: LongLine) -> None:
    of, place = line.times.of, line.view.place
    async with of("place: numbers anywhere"):
        await asyncio.gather(*(place(LINE, each) for each in line.waiting(automatic=1)))
    async with of("place: numbers that do not wait"):
        await asyncio.gather(*(place(LINE, each) for each in line.new_numbers(200)))
    async with of("place: the line"):
        await asyncio.gather(*(place(LINE, Number("")) for _ in range(ASKED)))


async def _calls(line: LongLine) -> None:
    of, limiter = line.times.of, line.limiter
    async with of("take: 100 calls"):
        calls = await line.calls()
    async with of("again, and started"):
        await asyncio.gather(
            *(line.step("again", LINE, f"{each.id}#2", each.id) for each in calls),
            *(line.step("started", LINE) for _ in calls),
        )
    async with of("finish, each taking the next"):
        await asyncio.gather(*(limiter.finish([(call, ANSWER)], 1) for call in calls))
    await line.land()
    calls = await line.calls()
    async with of("hand_back, each taking the next"):
        await asyncio.gather(*(limiter.hand_back([call], 1) for call in calls))
    await line.land()
    calls = await line.calls()
    await line.redis.delete(NAMES.calls_leases)
    async with of("sweep: 300 calls of workers that vanished"):
        await limiter.sweep([LINE])
    await line.land()


async def _retries(line: LongLine) -> None:
    of, limiter = line.times.of, line.limiter
    calls = await line.calls()
    async with of("retry"):
        await asyncio.gather(*(limiter.retry(call, NOW, 0) for call in calls))
    await _let_wait(line, due_ms=1)
    async with of(f"admit: new numbers, {DUE:,} retries due"):
        await line.ask(line.new_numbers())
    calls = await line.calls(many=100)
    await _let_wait(line, due_ms=1)
    async with of(f"finish, {DUE:,} retries due"):
        await asyncio.gather(*(limiter.finish([(call, ANSWER)], 1) for call in calls))
    await _let_wait(line, due_ms=1)
    async with of(f"take, {DUE:,} retries due"):
        await line.calls()
    await line.land()
    await _let_wait(line, due_ms=4_000_000_000_000)
    async with of(f"resume, {DUE:,} retries not due"):
        for _ in range(ASKED // 50):
            await line.redis.set(NAMES.calls_paused, "x", px=2**42)
            await line.redis.set(NAMES.calls_brake, '{"why":"x","pauses":1}')
            await line.step("resume", LINE, 1)
    await line.redis.delete(NAMES.calls_paused, NAMES.calls_brake, NAMES.wait_later)


async def _let_wait(line: LongLine, due_ms: int) -> None:
    numbers = line.new_numbers(DUE)
    await line.redis.hset(NAMES.wait_requests, mapping={n: later(line.record, n) for n in numbers})
    await line.redis.zadd(NAMES.wait_later, dict.fromkeys(numbers, due_ms))


async def _cancels(line: LongLine) -> None:
    of, canceller = line.times.of, line.canceller
    numbers = (*line.waiting(), *line.waiting(automatic=1))
    async with of("cancel: numbers anywhere"):
        await _all(canceller.cancel_many([CancelTarget(SLUG, number) for number in numbers]))
    some = line.waiting()
    wanted = zip(some, (await line.ask(some))[0], strict=True)
    async with of("cancel: ids"):
        await _all(canceller.cancel_many([CancelTarget(SLUG, *each) for each in wanted]))
    by_hand = [Number(f"HAND{index}") for index in range(ASKED)]
    await line.redis.rpush(NAMES.wait_list, *by_hand)
    async with of("cancel: numbers pushed by hand"):
        await _all(canceller.cancel_many([CancelTarget(SLUG, number) for number in by_hand]))
    async with of("cancel_where: AUTOMATIC ones"):
        await _all(canceller.cancel_where(SLUG, CancelFilter(origin=Origin.AUTOMATIC)), most=ASKED)
    async with of("forget"):
        await asyncio.gather(*(line.forgetter.forget(SLUG, n) for n in line.waiting(most=200)))
    begin = 10 + int(str(await line.redis.hget(NAMES.wait_order, "manual") or 0))
    part = range(begin, begin + min(IN_A_ROW, line.length // 4))
    await _all(canceller.cancel_many([CancelTarget(SLUG, number_of(0, index)) for index in part]))
    async with of("take, many in a row cancelled"):
        await line.calls()
    await line.land()
    async with of("cancel: the line"):
        await _all(canceller.cancel_courier(SLUG), most=ASKED)


async def _sweeps(line: LongLine) -> None:
    of, limiter = line.times.of, line.limiter
    async with of("sweep, nothing to be put right"):
        for _ in range(20):
            await limiter.sweep([LINE])
            await line.step("sweep", LINE, "")
    taken = await line.redis.rpop(NAMES.wait_list_automatic, 200)
    async with of("admit: AUTOMATIC numbers taken out by hand, now MANUAL"):
        await line.ask(Number(str(each)) for each in taken or () if each)
    await line.redis.lpop(NAMES.wait_list, ASKED)
    async with of("admit, cancel: many others taken out by hand"):
        await line.ask(line.waiting(most=200))
        await _all(
            line.canceller.cancel_many([CancelTarget(SLUG, n) for n in line.waiting(most=200)])
        )
    await line.redis.rpop(NAMES.wait_list, ASKED)
    async with of("sweep: many numbers taken out by hand"):
        await _for_a_while(line, LINE)
    await line.redis.delete(NAMES.wait_list, NAMES.wait_list_automatic, NAMES.wait_later)
    await line.redis.delete(NAMES.wait_drainer)
    async with of("sweep: the lists deleted"):
        await _for_a_while(line, LINE)


async def _for_a_while(line: LongLine, *lines: Line) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(line.limiter.sweep(lines), RELISTED_SECONDS)


async def _all(came: AsyncIterator[object], most: int = 1_000_000) -> None:
    seen = 0
    async for _ in came:
        seen += 1
        if seen == most:
            break


MANY = Slug("bench-many")
MANY_LINE = courier_line(MANY)
MANY_NUMBERS, MANY_OPERATIONS = 20, 100

LINES = tuple(courier_line(Slug(f"few-{index:03}")) for index in range(34))
"""As many as one script may be about."""

OF_EACH = 300
KNOWN = tuple(f"known-{index:04}" for index in range(SURVEYED_AT_ONCE))
BUSY = tuple(courier_line(Slug(f"few-busy-{index:03}")) for index in range(INSPECTED_AT_ONCE))
CALLS = 20
TALLIED = tuple(f"slug-{index:04}" for index in range(1_200))
FIELDS: dict[Any, Any] = {
    f"SUCCESS {waited} {took}": 7 for waited in BOUNDS_MS for took in BOUNDS_MS[:4]
}
ARCHIVED = 4_000
TIMES = 50


async def ask_others(line: LongLine) -> None:
    """Ask everything that is not about the long line."""
    await _many_operations(line)
    await _many_couriers(line)
    await _all_couriers(line)
    await _archive(line)
    await _small(line)


async def _many_operations(line: LongLine) -> None:
    of, limiter = line.times.of, line.limiter
    numbers = [number_of(0, index) for index in range(MANY_NUMBERS) for _ in range(MANY_OPERATIONS)]
    asked = f"{MANY_NUMBERS} numbers of {MANY_OPERATIONS} operations"
    held = keys.of_line(MANY_LINE).calls_held
    await line.redis.set(held, '{"why":"","at":0}')
    async with of(f"admit: {asked}"):
        await line.ask(numbers, MANY)
    await line.redis.delete(held)
    async with of(f"take: {asked}"):
        calls = await line.calls(MANY_LINE, MANY_NUMBERS)
    async with of(f"hand_back: {asked}"):
        await asyncio.gather(*(limiter.hand_back([call], 0) for call in calls))
    await line.calls(MANY_LINE, MANY_NUMBERS)
    await line.redis.delete(keys.of_line(MANY_LINE).calls_leases)
    async with of("sweep: their calls, of workers that vanished"):
        await limiter.sweep([MANY_LINE])
    calls = await line.calls(MANY_LINE, MANY_NUMBERS)
    async with of(f"finish: {asked}"):
        await asyncio.gather(*(limiter.finish([(call, ANSWER)], 0) for call in calls))
    # Others: these have just been answered.
    numbers = [Number(f"NEW{each}") for each in numbers]
    await line.redis.set(held, '{"why":"","at":0}')
    await line.ask(numbers, MANY)
    async with of(f"cancel_where: {asked}"):
        async for _ in line.canceller.cancel_where(MANY, CancelFilter(origin=Origin.MANUAL)):
            pass
    await line.ask(numbers, MANY)
    async with of(f"forget: {asked}"):
        wanted = dict.fromkeys(numbers)
        await asyncio.gather(*(line.forgetter.forget(MANY, Number(each)) for each in wanted))
    await line.redis.delete(held)


async def _many_couriers(line: LongLine) -> None:
    of = line.times.of
    record = json.loads(line.record)
    await _records(line, record)
    async with of("sweep: 34 couriers whose lists were deleted"):
        await line.limiter.sweep(LINES)
    for each in LINES:
        await line.calls(each, CALLS)
        await line.redis.delete(keys.of_line(each).calls_leases)
    async with of("sweep: 34 couriers whose workers vanished"):
        await line.limiter.sweep(LINES)
    now_ms = round(time.time() * 1000)
    refused = {"why": "rate_limited", "pauses": 3, "refused": 1, "patience": 86_400_000}
    brake = json.dumps({**refused, "until_ms": now_ms + 3_600_000})
    for each in LINES:
        await line.redis.set(keys.of_line(each).calls_brake, brake, px=60_000)
    async with of("sweep: 34 couriers that refused for a day"):
        await line.limiter.sweep(LINES)
    for each in LINES:
        await line.redis.delete(*keys.of_line(each)[:18])
    await line.redis.srem(keys.LINES, *LINES)


async def _records(line: LongLine, record: dict[str, object]) -> None:
    pipeline = line.redis.pipeline(transaction=False)
    for each in LINES:
        old = {**record, "since": 1, "anon": {"id": "job", "at": 1}}
        for i in range(OF_EACH):
            text = json.dumps({**old, "position": i})
            pipeline.hset(keys.of_line(each).wait_requests, number_of(0, i), text)
        pipeline.sadd(keys.LINES, each)
    await pipeline.execute()


async def _all_couriers(line: LongLine) -> None:
    of, redis = line.times.of, line.redis
    for each in BUSY:
        await line.ask([number_of(0, index) for index in range(CALLS + 2)], Slug(each))
    told = [n for each in BUSY for n in (*rules_of(each).reach_us, 1)]
    async with of(f"inspect: {len(BUSY)} couriers, {CALLS} calls each"):
        for _ in range(TIMES):
            await line.pipeline.run("inspect", [keys.wait_list(each) for each in BUSY], told)
    async with of(f"survey: {len(KNOWN):,} couriers"):
        for _ in range(TIMES):
            asked = " ".join(KNOWN), "who", 20_000
            await line.pipeline.run("survey", [keys.LINES, keys.WORKERS, keys.COURIERS], asked)
    seconds, _ = await redis.time()
    at = seconds - seconds % TEN_MINUTES
    pipeline = redis.pipeline(transaction=False)
    pipeline.sadd(keys.TALLIED_SLUGS, *TALLIED)
    for slug in TALLIED:
        pipeline.hset(keys.ten_minutes(at, slug), mapping=FIELDS)
    pipeline.set(keys.SPANS_MADE, at)
    await pipeline.execute()
    async with of("add_up: 10 minutes of 1,200 couriers"):
        await Tallies(redis).make_spans()


async def _archive(line: LongLine) -> None:
    some = [status_of(number) for number in range(ARCHIVED)]
    await line.redis.mset({keys.status(name): text for name, text in some})
    now_ms = round(time.time() * 1000)
    await line.redis.zadd(keys.TO_ARCHIVE, {name: now_ms for name, _ in some})
    to_archive, reported = ToArchive(unconfirmed(line.redis), "benchmark"), list[Archived]()
    async with line.times.of(f"archive: {TOGETHER_MOST} reported, {TOGETHER_MOST} given"):
        while not isinstance(given := await to_archive.ask(reported, TOGETHER_MOST), float):
            reported = [Archived(each, DAY_MS) for each in given]
            if not given:
                break


async def _small(line: LongLine) -> None:
    tallies = Tallies(line.redis)
    async with line.times.of("epoch, malformed"):
        for _ in range(TIMES):
            names = [keys.EPOCH, keys.SERVER, keys.REVISION]
            await line.pipeline.run("epoch", names, ["", "benchmark", 0, 0])
            await tallies.count_malformed(1)
