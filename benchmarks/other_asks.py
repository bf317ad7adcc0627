"""What one may ask of numbers with many operations, of many couriers, and of none."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from benchmarks.ended import status_of
from benchmarks.long_line import ANSWER, LongLine, number_of, rules_of
from limits import keys
from limits.admin.cancel import CancelFilter
from limits.admin.statistics import TEN_MINUTES, Tallies
from limits.archive import DAY_MS, Archived, ToArchive
from limits.limiter import INSPECTED_AT_ONCE, SURVEYED_AT_ONCE
from service.worker.upkeep.archiver import TOGETHER_MOST
from tracking.line import courier_line
from tracking.request import Number, Origin, Slug
from tracking.tally import BOUNDS_MS

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
    to_archive, reported = ToArchive(line.redis, "benchmark"), list[Archived]()
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
