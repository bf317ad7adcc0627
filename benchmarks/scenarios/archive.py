"""How fast one process archives operations that ended."""

from __future__ import annotations

import asyncio
import time

from redis.asyncio import Redis

from benchmarks.filling import BATCH, NOW_MS, status_of
from benchmarks.plan import Column, Plan, Scenario, Table, Value
from benchmarks.rig import DATABASE, Rig, open_rig
from limits.archive import ToArchive
from limits.keys import STATUS, TO_ARCHIVE
from limits.pipeline import unconfirmed
from service.worker.results.connection import Store
from service.worker.results.database import Names
from service.worker.upkeep.archiver import Archiver

RATE = (
    Column("operations", "operations"),
    Column("seconds", "seconds", 1),
    Column("rate", "archived/s"),
    Column("worker_us", "worker µs each"),
    Column("redis_us", "Redis µs"),
    Column("mongodb_us", "mongod µs"),
    Column("core_rate", "archived/s of one core"),
    Column("stall_ms", "event loop held, ms", 1),
)
RATE_NOTE = (
    "One process archives what is there, as fast as it can. Held: the longest that its event loop "
    "was late for a timer meanwhile."
)
TICK_SECONDS = 0.005


def archive(rig: Rig, count: int) -> dict[str, Value]:
    """Archive so many; gives a row."""
    rig.clean()
    for begin in range(0, count, BATCH):
        some = [status_of(number) for number in range(begin, min(count, begin + BATCH))]
        rig.redis.mset({f"{STATUS}{name}": text for name, text in some})
        rig.redis.zadd(TO_ARCHIVE, {name: NOW_MS for name, _ in some})
    meter = rig.meter()
    before, began = meter.read(), time.perf_counter()
    stall = asyncio.run(_archive_all(rig))
    seconds, used = time.perf_counter() - began, meter.since(before)
    stored = rig.mongodb[DATABASE]["operations"].count_documents({})
    left = rig.redis.zcard(TO_ARCHIVE)
    if (stored, left) != (count, 0):
        raise RuntimeError(f"{count} ended, {stored} are archived, and {left} are not confirmed")
    servers = ("worker", "redis", "mongodb")
    return {
        "operations": count,
        "seconds": seconds,
        "rate": round(count / seconds),
        **{f"{name}_us": round(used[name] / count * 1e6, 1) for name in servers},
        "core_rate": round(count / sum(used[name] for name in servers)),
        "stall_ms": stall * 1000,
    }


async def _archive_all(rig: Rig) -> float:
    """Returns the longest that a timer was late, in seconds."""
    store = Store(Names(rig.stack.mongodb.url, DATABASE))
    await store.prepare()
    late: list[float] = [0.0]

    async def tick() -> None:
        while True:
            due = time.perf_counter() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            late.append(time.perf_counter() - due)

    async with Redis.from_url(rig.stack.redis.url, decode_responses=True) as redis:
        archiver = Archiver(ToArchive(unconfirmed(redis), "benchmark"), store)
        ticking = asyncio.create_task(tick())
        while await archiver.step() is not None or await redis.zcard(TO_ARCHIVE):
            pass
        ticking.cancel()
    await store.close()
    return max(late)


def run(plan: Plan) -> list[Table]:
    """Archive as fast as one process can."""
    count = plan.pick(100_000, 10_000)
    with open_rig() as rig:
        plan.say(f"archive {count:,} operations")
        rates = [archive(rig, count)]
    return [Table("archive", "Operations that ended are archived", RATE, rates, RATE_NOTE)]


SCENARIO = Scenario("archive", "how fast operations that ended are archived", run)
