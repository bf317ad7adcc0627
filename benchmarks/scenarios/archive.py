"""What it costs to archive operations, to find one of a million, and to purge half of them."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from redis.asyncio import Redis

from benchmarks.plan import Plan, Scenario
from benchmarks.rig import DATABASE, Rig, open_rig
from benchmarks.scenarios.unlimited import whole_jobs
from benchmarks.table import Column, Table, Value
from benchmarks.worker_tree import WorkerTree
from limits.archive import Ended, ToArchive
from limits.keys import STATUS, TO_ARCHIVE
from service.results.connection import Document, Store
from service.results.names import Names
from service.results.operations import by_id, by_parcel, read_ended
from service.results.retention import REST, kinds, purge_some
from service.upkeep.archiver import Archiver

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
    "One process archives what is there, as fast as it can. Held: the longest that its event loop, "
    "which carries the calls, was late for a timer meanwhile."
)
FOUND = (
    Column("operations", "operations"),
    Column("asked", "asked by"),
    Column("found", "found"),
    Column("keys", "index keys read"),
    Column("documents", "documents read"),
    Column("index", "index"),
    Column("ms", "ms", 2),
    Column("bytes", "bytes each"),
    Column("index_bytes", "of indexes"),
)
PURGED = (
    Column("jobs", "jobs"),
    Column("alone", "jobs/s", 0),
    Column("beside", "jobs/s beside the purge", 0),
    Column("kept", "rate kept", 3),
    Column("purged", "purged/s meanwhile"),
)
PURGED_NOTE = (
    "Medians of pairs of runs, whole jobs without limits. The purge has more to do than it can "
    "within the run, and works a twentieth of its time."
)
NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
NOW_MS = round(NOW.timestamp() * 1000)
PARCEL_OPERATIONS = 10
BATCH = 5_000
TICK_SECONDS = 0.005
EXPLAINED_TIMES = 25


def status_of(number: int) -> tuple[str, str]:
    """An operation's id and its status, as lua/lib/state.lua writes it."""
    parcel, at_ms = f"usps:9400111{number // PARCEL_OPERATIONS:015}", NOW_MS - number
    status = {
        "status": "SUCCESS",
        "tracking": parcel,
        "at": at_ms,
        "startedAt": "2026-03-01T12:00:00.000Z",
        "finishedAt": "2026-03-01T12:00:00.212Z",
        "output": {"tag": "InTransit", "subtag": "InTransit_003", "checkpoints": 12},
        "attempts": [[at_ms, "answered", 200, 212]],
    }
    return f"order-{number:012}", json.dumps(status, separators=(",", ":"))


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
        archiver = Archiver(ToArchive(redis, "benchmark"), store)
        ticking = asyncio.create_task(tick())
        while await archiver.step() is not None or await redis.zcard(TO_ARCHIVE):
            pass
        ticking.cancel()
    await store.close()
    return max(late)


def documents(count: int, first: int = 0) -> Iterator[Document]:
    """Operations as they are archived, one in two of them older than is kept."""
    for number in range(first, first + count):
        name, status = status_of(number)
        document, _ = read_ended(Ended(name, NOW_MS - number, status))
        if document is None:
            raise RuntimeError(f"{name} is no operation that ended")
        age = dt.timedelta(days=100) if number % 2 else dt.timedelta(0)
        yield document | {"finished_at": document["finished_at"] - age}


def fill(rig: Rig, count: int) -> None:
    """Store so many, with the worker's indexes."""
    store = Store(Names(rig.stack.mongodb.url, DATABASE))

    async def prepare() -> None:
        await store.prepare()
        await store.close()

    asyncio.run(prepare())
    operations = rig.mongodb[DATABASE]["operations"]
    for begin in range(0, count, BATCH):
        operations.insert_many(documents(min(BATCH, count - begin), begin), ordered=False)


def find(rig: Rig, count: int) -> list[dict[str, Value]]:
    """Ask for one of so many; gives a row for each question."""
    rig.clean()
    fill(rig, count)
    operations = rig.mongodb[DATABASE]["operations"]
    name, _ = status_of(count // 2)
    number = f"9400111{count // 2 // PARCEL_OPERATIONS:015}"
    questions = {
        "id": (by_id(name), "_id"),
        "parcel": (by_parcel("usps", number), "admitted_at"),
    }
    size = rig.mongodb[DATABASE].command("collStats", "operations")
    rows: list[dict[str, Value]] = []
    for asked, (wanted, order) in questions.items():
        told = operations.find(wanted).sort(order, -1).explain()
        took = []
        for _ in range(EXPLAINED_TIMES):
            began = time.perf_counter()
            found = list(operations.find(wanted).sort(order, -1))
            took.append(time.perf_counter() - began)
        plan, stats = told["queryPlanner"]["winningPlan"], told["executionStats"]
        if (plan["stage"], plan["inputStage"]["stage"]) != ("FETCH", "IXSCAN"):
            raise RuntimeError(f"asked by {asked} MongoDB does more than to read an index: {plan}")
        rows.append(
            {
                "operations": count,
                "asked": asked,
                "found": len(found),
                "keys": stats["totalKeysExamined"],
                "documents": stats["totalDocsExamined"],
                "index": plan["inputStage"]["indexName"],
                "ms": statistics.median(took) * 1000,
                "bytes": round(size["storageSize"] / count),
                "index_bytes": round(size["totalIndexSize"] / count),
            }
        )
    return rows


def purge(rig: Rig, jobs: int, count: int, pairs: int) -> dict[str, Value]:
    """Have jobs done without and with a purge beside them, in turn; gives a row."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    purged: list[float] = []
    for _ in range(pairs):
        for purges in (False, True):

            @contextmanager
            def beside(_: WorkerTree, *, purges: bool = purges) -> Iterator[None]:
                fill(rig, count)
                with _purging(rig, purged if purges else None):
                    yield

            rates[purges].append(whole_jobs(rig, jobs, beside)["jobs_s"])
    alone, together = (statistics.median(rates[each]) for each in (False, True))
    kept = statistics.median(b / a for a, b in zip(rates[False], rates[True], strict=True))
    return {
        "jobs": jobs,
        "alone": alone,
        "beside": together,
        "kept": kept,
        "purged": round(statistics.median(purged)),
    }


@contextmanager
def _purging(rig: Rig, rates: list[float] | None) -> Iterator[None]:
    """Purge as the workers do, as long as the block lasts; `rates` None: do not."""
    stopped = threading.Event()

    def run() -> None:
        stores = Store(Names(rig.stack.mongodb.url, DATABASE))
        kind = next(each for each in kinds(stores, Names(""), NOW) if each.name == "operations")
        began, total = time.perf_counter(), 0
        while not stopped.is_set():
            start = time.perf_counter()
            total += purge_some(kind)[0]
            stopped.wait(REST * (time.perf_counter() - start))
        (rates if rates is not None else []).append(total / (time.perf_counter() - began))
        stores.client.close()

    thread = threading.Thread(target=run)
    if rates is not None:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        if rates is not None:
            thread.join()


def run(plan: Plan) -> list[Table]:
    """Archive, find, purge."""
    count, million = plan.pick(100_000, 10_000), plan.pick(1_000_000, 20_000)
    with open_rig() as rig:
        plan.say(f"archive {count:,} operations")
        rates = [archive(rig, count)]
        plan.say(f"find one of {million:,}")
        found = find(rig, million)
        plan.say("purge beside whole jobs")
        jobs, pairs = plan.pick((10_000, 3), (3_000, 1))
        purged = [purge(rig, jobs, plan.pick(200_000, 30_000), pairs)]
    return [
        Table("archive", "Operations that ended are archived", RATE, rates, RATE_NOTE),
        Table("archive_find", "One of many archived operations", FOUND, found),
        Table("archive_purge", "A purge beside whole jobs", PURGED, purged, PURGED_NOTE),
    ]


SCENARIO = Scenario("archive", "to archive operations, to find one, and to purge", run)
