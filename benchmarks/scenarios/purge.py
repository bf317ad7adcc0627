"""A million archived operations: what it costs to find one, and to purge half of them.

The purge begins and pauses every two seconds beside a worker that does jobs without limits, as fast
as it can: so both are measured in the same minute of the same machine. It takes four minutes, so it
runs only when it is named: `python -m benchmarks --only purge`.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice

from benchmarks.ended import NOW, fill, number_of, status_of
from benchmarks.plan import Plan, Scenario
from benchmarks.rig import DATABASE, Rig, open_rig, slugs
from benchmarks.table import Column, Table, Value
from benchmarks.tube import REQUESTS, requests
from benchmarks.worker_tree import OPEN, Setting
from service.results.connection import Store
from service.results.names import Names
from service.results.operations import by_id, by_parcel
from service.results.retention import REST, kinds, purge_some

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
FOUND_NOTE = "By explain: each question reads one range of one index, and nothing else."
PURGED = (
    Column("operations", "operations"),
    Column("old", "old"),
    Column("pairs", "pairs"),
    Column("alone", "jobs/s"),
    Column("beside", "jobs/s beside the purge"),
    Column("kept", "rate kept", 3),
    Column("error", "standard error", 3),
    Column("purged", "purged/s"),
    Column("minutes", "minutes for all that is old", 1),
)
PURGED_NOTE = (
    "Whole jobs without limits, one worker process; the purge is on for two seconds and off for "
    "two, as on, off, off, on. Rate kept: all jobs of the seconds beside it by all others; the "
    "error is that of the mean of the pairs. A purge works a twentieth of its time."
)
MILLION = 1_000_000
SLUGS = 50
PAIRS = 24
WINDOW_SECONDS = 2.0
WARM_SECONDS = 4.0
JOBS_PER_SECOND = 3_500
"""More than a worker does here, so that the tube lasts."""

PAUSED = 3_600
EXPLAINED_TIMES = 25


class RanDry(Exception):
    """The worker was faster than was reckoned with: the rest measured nothing."""


def find(rig: Rig, count: int) -> list[dict[str, Value]]:
    """Ask for one of so many; gives a row for each question."""
    operations = rig.mongodb[DATABASE]["operations"]
    name, _ = status_of(count // 2)
    questions = {
        "id": (by_id(name), "_id"),
        "parcel": (by_parcel("usps", number_of(count // 2)), "admitted_at"),
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


@dataclass(slots=True)
class Purging:
    """A purge that can be paused; for how long it was on, and how many `documents` it purged."""

    on: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    documents: int = 0
    seconds: float = 0.0

    def run(self, url: str) -> None:
        """Purge as the workers do, while it is on."""
        stores = Store(Names(url, DATABASE))
        kind = next(each for each in kinds(stores, Names(""), NOW) if each.name == "operations")
        while not self.over.is_set():
            if not self.on.wait(0.05):
                continue
            began = time.perf_counter()
            self.documents += purge_some(kind)[0]
            self.over.wait(REST * (time.perf_counter() - began))
        stores.client.close()


@contextmanager
def _purging(rig: Rig) -> Iterator[Purging]:
    purging = Purging()
    thread = threading.Thread(target=purging.run, args=(rig.stack.mongodb.url,))
    thread.start()
    try:
        yield purging
    finally:
        purging.over.set()
        thread.join()


def purge(rig: Rig, count: int, pairs: int, window: float) -> dict[str, Value]:
    """Have a worker do jobs, and purge now and then; gives a row."""
    jobs = round(JOBS_PER_SECOND * (WARM_SECONDS + 2 * pairs * window))
    rates: dict[bool, list[float]] = {False: [], True: []}
    rig.tubes.pause(REQUESTS, PAUSED)
    rig.tubes.put(REQUESTS, requests(slugs(SLUGS), jobs // SLUGS))
    with rig.worker(Setting(slugs(SLUGS), limits=OPEN)), _purging(rig) as purging:
        rig.tubes.pause(REQUESTS, 0)
        time.sleep(WARM_SECONDS)
        for on in islice(cycle((True, False, False, True)), 2 * pairs):
            (purging.on.set if on else purging.on.clear)()
            before, began = rig.tubes.stats()["cmd-delete"], time.perf_counter()
            time.sleep(window)
            done, seconds = (
                rig.tubes.stats()["cmd-delete"] - before,
                time.perf_counter() - began,
            )
            rates[on].append(done / seconds)
            purging.seconds += seconds if on else 0.0
        if not rig.tubes.left():
            raise RanDry(f"all {jobs:,} jobs are done: raise JOBS_PER_SECOND")
    per_second = purging.documents / purging.seconds
    return {
        "operations": count,
        "old": count // 2,
        "pairs": pairs,
        "alone": round(statistics.mean(rates[False])),
        "beside": round(statistics.mean(rates[True])),
        "kept": sum(rates[True]) / sum(rates[False]),
        "error": _standard_error([b / a for a, b in zip(*rates.values(), strict=True)]),
        "purged": round(per_second),
        "minutes": count / 2 / per_second / 60,
    }


def _standard_error(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None


def run(plan: Plan) -> list[Table]:
    """Fill, find, purge."""
    million = plan.pick(MILLION, 50_000)
    with open_rig() as rig:
        rig.clean()
        plan.say(f"store {million:,} operations")
        fill(rig, million)
        plan.say("find one")
        found = find(rig, million)
        pairs, window = plan.pick(PAIRS, 2), plan.span(WINDOW_SECONDS, 1.0)
        plan.say(f"purge half of them beside whole jobs, {2 * pairs * window:g} s")
        purged = [purge(rig, million, pairs, window)]
    return [
        Table("archive_find", "One of many archived operations", FOUND, found, FOUND_NOTE),
        Table("archive_purge", "A purge beside whole jobs", PURGED, purged, PURGED_NOTE),
    ]


SCENARIO = Scenario(
    "purge", "a million archived operations: found, purged; only when named", run, named=True
)
