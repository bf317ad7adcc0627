"""What it costs to put re-checks that are due, without their calls."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Iterator, Sequence

from benchmarks.plan import Column, Plan, Scenario, Table, Value
from benchmarks.rig import DATABASE, Rig, open_rig, slugs
from benchmarks.tube import REQUESTS
from service.worker.results.connection import Store
from service.worker.results.database import Document, Names
from service.worker.tubes.put_servers import Putter
from service.worker.upkeep.recheck import Recheck
from tracking.request import Slug

COLUMNS = (
    Column("due", "due parcels"),
    Column("slugs", "couriers"),
    Column("seconds", "seconds", 1),
    Column("rate", "re-checks/s"),
    Column("worker_us", "worker µs each"),
    Column("beanstalkd_us", "beanstalkd µs"),
    Column("mongodb_us", "mongod µs"),
    Column("core_rate", "re-checks/s of one core"),
)
NOTE = (
    "Every parcel is due at once; half as many more belong to a courier that is gone, and are due "
    "for longer. One core: as many as a second of CPU is enough for, of the worker and the servers "
    "together."
)
AT_WORK = ("worker", "beanstalkd", "mongodb")
CHECKPOINTS = 10
BATCH = 2_000


def rechecks(rig: Rig, due: int, couriers: int) -> dict[str, Value]:
    """Put all that is due; gives a row."""
    rig.clean()
    names = slugs(couriers)
    asyncio.run(_prepare(rig))
    documents = [*_documents(names, due, 1), *_documents(("gone",), due // 2, 2)]
    for start in range(0, len(documents), BATCH):
        rig.mongodb[DATABASE]["tracking"].insert_many(documents[start : start + BATCH])
    meter = rig.meter()
    before, began = meter.read(), time.monotonic()
    put = asyncio.run(_look(rig, names))
    seconds, used = time.monotonic() - began, meter.since(before)
    in_tube = rig.tubes.left(REQUESTS)
    if not put == in_tube == due:
        raise RuntimeError(f"{due} were due, {put} put, and {in_tube} are in the tube")
    return {
        "due": due,
        "slugs": couriers,
        "seconds": seconds,
        "rate": round(put / seconds),
        **{f"{name}_us": round(used[name] / put * 1e6) for name in AT_WORK},
        "core_rate": round(put / sum(used[name] for name in AT_WORK)),
    }


async def _prepare(rig: Rig) -> None:
    store = _store(rig)
    await store.prepare()
    await store.close()


async def _look(rig: Rig, names: Sequence[str]) -> int:
    store, putter = _store(rig), Putter([rig.stack.beanstalkd.url])
    try:
        return await Recheck(store, putter, frozenset(map(Slug, names))).look()
    finally:
        putter.close()
        await store.close()


def _store(rig: Rig) -> Store:
    return Store(Names(rig.stack.mongodb.url, DATABASE))


def _documents(names: Sequence[str], count: int, hours: float) -> Iterator[Document]:
    """Parcels on their way that are due since some hours, in turn for every slug."""
    due = dt.datetime.now(dt.UTC) - dt.timedelta(hours=hours)
    scan = {"checkpoint_time": "2026-03-01T07:15:00", "message": "Arrived at the facility" * 3}
    for index in range(count):
        slug, number = names[index % len(names)], f"R{index:012}"
        yield {
            "_id": f"{slug}:{number}",
            "slug": slug,
            "tracking_number": number,
            "fields": {"tracking_postal_code": "SW1A 1AA"},
            "active": True,
            "checkpoints": [scan] * CHECKPOINTS,
            "next_check_at": due + dt.timedelta(milliseconds=index % 1_000),
        }


def run(plan: Plan) -> list[Table]:
    """Measure with few and with many couriers."""
    rows = []
    with open_rig() as rig:
        for due, couriers in plan.pick(((20_000, 50), (20_000, 1_200)), ((3_000, 50),)):
            plan.say(f"{due:,} re-checks of {couriers:,} couriers")
            rows.append(rechecks(rig, due, couriers))
    return [Table("rechecks", "Re-checks that are due", COLUMNS, rows, NOTE)]


SCENARIO = Scenario("rechecks", "what it costs to put re-checks that are due", run)
