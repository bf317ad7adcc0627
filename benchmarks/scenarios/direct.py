"""What an operation that meets nobody asks of Redis and MongoDB, and what Redis keeps of its end.

The direct path: admitted, called, answered, without a turn in a list. One after the other shows
what each of them needs; as many as the worker can do, what they share.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.filling import end
from benchmarks.plan import Column, Plan, Scenario, Table, Value
from benchmarks.redis_figures import bytes_of_keys, bytes_of_tables, traffic
from benchmarks.rig import DATABASE, Rig, open_rig, slugs
from benchmarks.tube import REQUESTS, request
from benchmarks.worker_tree import OPEN, Setting
from limits.keys import EVENTS, HISTORY, STATUS, TO_ARCHIVE

ASKED = (
    Column("how", "operations with an id"),
    Column("count", "operations"),
    Column("scripts", "scripts each", 2),
    Column("trips", "round trips to Redis", 2),
    Column("results", "MongoDB writes of results", 2),
    Column("archive", "of the archive", 3),
)
ASKED_NOTE = (
    "Each, with what the worker asks beside them: it surveys, beats, archives. Round trips: reads "
    "of Redis' sockets. Writes: commands, by the collections' own counters; the archive writes "
    "many operations with one."
)
KEPT = (
    Column("operations", "ended operations"),
    Column("bytes", "bytes of Redis' keys each"),
    Column("to_archive", "until it is archived"),
    Column("parcel", "to find it by its parcel"),
    Column("event", "its event"),
    Column("answer", "the answer"),
    Column("tables", "tables of keys"),
)
KEPT_NOTE = (
    "With an id, each of another parcel, before any is archived. Until it is archived: its status, "
    "and its entry among those that are to be. The answer is remembered for half a minute. Tables: "
    "in which Redis finds the keys. What couriers' lines hold for some seconds is not counted."
)
KINDS = {
    "to_archive": (f"{STATUS}*", TO_ARCHIVE),
    "parcel": (f"{HISTORY}*",),
    "event": (EVENTS,),
    "answer": ("tracking:answer:*",),
}
"""Which keys belong to which column."""

SLUGS = 50
PAUSED = 3_600
STEP = 0.001
PATIENCE = 30.0


def ask(rig: Rig, count: int, *, together: bool) -> dict[str, Value]:
    """Have so many done; gives a row."""
    rig.clean()
    names = slugs(SLUGS)
    numbers = [f"N{index:09}" for index in range(count)]
    bodies = [
        request(names[index % SLUGS], number, f"order-{number}")
        for index, number in enumerate(numbers)
    ]
    rig.tubes.pause(REQUESTS, PAUSED if together else 0)
    with rig.worker(Setting(names, limits=OPEN)):
        if together:
            rig.tubes.put(REQUESTS, bodies)
        written, before = _writes(rig), traffic(rig.redis)
        if together:
            rig.tubes.pause(REQUESTS, 0)
            rig.tubes.wait_until_empty()
        for body in () if together else bodies:
            rig.tubes.put(REQUESTS, [body])
            while rig.tubes.left():
                time.sleep(STEP)
        used = traffic(rig.redis).since(before)
        _wait_archived(rig, count)
        now = _writes(rig)
    results, archive = (now[each] - written[each] for each in ("tracking", "operations"))
    return {
        "how": "as many as it can" if together else "one after the other",
        "count": count,
        "scripts": used.scripts / count,
        "trips": used.round_trips / count,
        "results": results / count,
        "archive": archive / count,
    }


def _writes(rig: Rig) -> dict[str, int]:
    found = dict.fromkeys(("tracking", "operations"), 0)
    for name in found.keys() & set(rig.mongodb[DATABASE].list_collection_names()):
        stages: list[dict[str, Any]] = [{"$collStats": {"latencyStats": {}}}]
        (told,) = rig.mongodb[DATABASE][name].aggregate(stages)
        found[name] = told["latencyStats"]["writes"]["ops"]
    return found


def _wait_archived(rig: Rig, count: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while rig.mongodb[DATABASE]["operations"].count_documents({}) < count:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{count} operations are not archived after {PATIENCE:g} s")
        time.sleep(0.1)


def keep(rig: Rig, count: int) -> dict[str, Value]:
    """End so many; what Redis holds of each, and of what kind."""
    rig.clean()
    end(rig.stack.redis.url, slugs(SLUGS), range(SLUGS))
    before = _bytes(rig)
    end(rig.stack.redis.url, slugs(SLUGS), range(SLUGS, SLUGS + count))
    now = _bytes(rig)
    each: dict[str, float] = {kind: (now[kind] - before[kind]) / count for kind in now}
    return {"operations": count, "bytes": sum(each.values()), **each}


def _bytes(rig: Rig) -> dict[str, int]:
    found = {
        kind: sum(bytes_of_keys(rig.redis, pattern) for pattern in patterns)
        for kind, patterns in KINDS.items()
    }
    return found | {"tables": bytes_of_tables(rig.redis)}


def run(plan: Plan) -> list[Table]:
    """Count, then weigh."""
    with open_rig() as rig:
        rows = []
        for count, together in ((plan.pick(300, 40), False), (plan.pick(10_000, 2_000), True)):
            plan.say(f"{count:,} operations, {'together' if together else 'one after the other'}")
            rows.append(ask(rig, count, together=together))
        plan.say("what is kept of ended operations")
        kept = [keep(rig, plan.pick(50_000, 5_000))]
    return [
        Table("direct", "What an operation asks of the stores", ASKED, rows, ASKED_NOTE),
        Table("ended_bytes", "What Redis keeps of an ended operation", KEPT, kept, KEPT_NOTE),
    ]


SCENARIO = Scenario("direct", "what an operation asks of Redis and MongoDB", run)
