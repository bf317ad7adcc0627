"""Whether a long wait list makes the next request, or the next call, more expensive.

For each length: Redis is filled up to it, which gives the bytes and the cost of a waiting request;
then a worker, its rate not limited, drains for some seconds, which gives the cost of a call.
"""

from __future__ import annotations

import os
import time

from benchmarks.filling import fill
from benchmarks.plan import Column, Plan, Scenario, Table, Value
from benchmarks.redis_figures import bytes_held
from benchmarks.rig import Rig, open_rig, slugs
from benchmarks.tube import DRAINS, drain
from benchmarks.worker_tree import Meter, Setting

COLUMNS = (
    Column("waiting", "waiting"),
    Column("bytes", "bytes of Redis' keys each"),
    Column("id_bytes", "more with an id"),
    Column("park_us", "park: client µs"),
    Column("park_redis_us", "park: Redis µs"),
    Column("worker_us", "call: worker µs"),
    Column("redis_us", "call: Redis µs"),
    Column("calls_s", "calls/s while draining"),
)
NOTE = (
    "Bytes: of all keys and of the tables in which Redis finds them, without what clients and "
    "scripts take. Parking: one process that only admits, 400 at once. Calls: one worker process, "
    "10 calls of each courier in flight and no limit on the rate, everything drained from Redis."
)
SLUGS = 50
DRAINING = {"concurrent": 10, "per_second": 1_000_000, "guard_ms": 0}
LENGTHS = (1_000, 10_000, 100_000, 1_000_000)
DRAINED_AT_LEAST = 0.5
"""The drain is measured while at least this part of a short backlog is left."""

LOOK_SECONDS = 0.02


def grow(rig: Rig, begin: int, end: int) -> dict[str, Value]:
    """Park requests until `end` wait, of which `begin` do already."""
    meter = Meter({"client": [os.getpid()], "redis": [rig.stack.redis.pid or 0]})
    before = meter.read()
    fill(rig.stack.redis.url, slugs(SLUGS), range(begin, end))
    used = meter.since(before)
    count = end - begin
    return {"park_us": used["client"] / count * 1e6, "park_redis_us": used["redis"] / count * 1e6}


def shrink(rig: Rig, waiting: int, seconds: float) -> dict[str, Value]:
    """Let a worker drain for `seconds`, at most to a part of the backlog."""
    names = slugs(SLUGS)
    with rig.worker(Setting(names, limits=DRAINING)) as worker:
        meter = rig.meter(worker)
        before, began = meter.read(), time.perf_counter()
        rig.tubes.put(DRAINS, map(drain, names))
        while time.perf_counter() - began < seconds:
            if rig.courier.count() >= waiting * (1 - DRAINED_AT_LEAST):
                break
            time.sleep(LOOK_SECONDS)
        used, elapsed = meter.since(before), time.perf_counter() - began
        calls = rig.courier.count()
    return {
        "worker_us": used["worker"] / calls * 1e6,
        "redis_us": used["redis"] / calls * 1e6,
        "calls_s": calls / elapsed,
    }


def bytes_each(rig: Rig, waiting: int, *, with_ids: bool) -> float:
    """What one of so many waiting requests takes of Redis' keys."""
    rig.clean()
    grow(rig, 0, SLUGS)
    empty = bytes_held(rig.redis)
    fill(rig.stack.redis.url, slugs(SLUGS), range(SLUGS, SLUGS + waiting), with_ids=with_ids)
    return (bytes_held(rig.redis) - empty) / waiting


def backlog(rig: Rig, waiting: int, seconds: float) -> dict[str, Value]:
    """Fill from nothing, then drain; gives a row."""
    with_ids = bytes_each(rig, waiting, with_ids=True)
    rig.clean()
    grow(rig, 0, SLUGS)  # the calls behind which all others wait, and the scripts themselves
    empty = bytes_held(rig.redis)
    parked = grow(rig, SLUGS, SLUGS + waiting)
    held = bytes_held(rig.redis)
    drained = shrink(rig, waiting, seconds)
    each = (held - empty) / waiting
    return {"waiting": waiting, "bytes": each, "id_bytes": with_ids - each, **parked, **drained}


def run(plan: Plan) -> list[Table]:
    """Measure all lengths."""
    rows = []
    with open_rig() as rig:
        for waiting in plan.pick(LENGTHS, LENGTHS[:2]):
            plan.say(f"{waiting:,} requests waiting")
            rows.append(backlog(rig, waiting, plan.span(6.0, 2.0)))
    return [Table("backlog", f"Backlog over {SLUGS} couriers", COLUMNS, rows, NOTE)]


SCENARIO = Scenario("backlog", "cost and memory of many waiting requests", run)
