"""How long one request takes through an idle worker, and how fast a freed slot is used."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator, Sequence

from benchmarks.pace import percentile, slugs_of, turnovers
from benchmarks.plan import Column, Plan, Scenario, Table, Value
from benchmarks.rig import DATABASE, PAUSE_MS, Rig, feed, open_rig, slugs
from benchmarks.tube import REQUESTS, request, requests
from benchmarks.worker_tree import Setting

COLUMNS = (
    Column("what", "from, to"),
    Column("samples", "samples"),
    Column("p50_ms", "p50 ms", 1),
    Column("p99_ms", "p99 ms", 1),
    Column("worst_ms", "worst ms", 1),
)
NOTE = (
    "Put to stored: an idle worker, one request at a time, a courier that answers at once; looked "
    "for every half millisecond. Slot to next call: at the courier, from the answer of one call to "
    "the arrival of the next, 20 calls of about 2 s in flight, rate not limited, others waiting."
)
IDLE_SLUGS = 200
LOOK_SECONDS = 0.0005
PAUSE_SECONDS = (0.02, 0.08)
PATIENCE = 10.0

CONCURRENT = 20
CALL_MS, SPREAD = 2_000, 0.25
WAITING: dict[str, int] = {"concurrent": CONCURRENT, "per_second": 1_000}


class NotStored(Exception):
    """A request was not answered in time."""


def put_to_stored(rig: Rig, samples: int) -> list[float]:
    """Put one request after the other; seconds from each put to its document in MongoDB."""
    rig.clean()
    names = slugs(IDLE_SLUGS)
    with rig.worker(Setting(names)):
        rounds = itertools.islice(itertools.cycle(names), samples + 1)
        taken = [_one(rig, slug, f"ONE{index:06}") for index, slug in enumerate(rounds)]
    return taken[1:]  # the first one opens the connection to the courier


def _one(rig: Rig, slug: str, number: str) -> float:
    results = rig.mongodb[DATABASE]["tracking"]
    # Requests must not fall into step with anything that the worker does at intervals.
    time.sleep(random.uniform(*PAUSE_SECONDS))
    began = time.perf_counter()
    rig.tubes.put(REQUESTS, [request(slug, number)])
    while results.find_one({"_id": f"{slug}:{number}"}, {"_id": 1}) is None:
        if time.perf_counter() - began > PATIENCE:
            raise NotStored(f"{slug}:{number} is not stored after {PATIENCE:g} s")
        time.sleep(LOOK_SECONDS)
    return time.perf_counter() - began


def slot_to_next(rig: Rig, couriers: int, seconds: float) -> list[float]:
    """Keep all slots wanted; seconds from the end of each call to the arrival of the next."""
    names = slugs(couriers)
    each = (
        round(CONCURRENT * (seconds + PAUSE_MS / 1000) * 1000 / CALL_MS / (1 - SPREAD)) + CONCURRENT
    )
    rig.clean(CALL_MS, SPREAD)
    rig.tubes.pause(REQUESTS, 3_600)
    with rig.worker(Setting(names, limits=WAITING)):
        feed(rig, names, requests(names, each))
        time.sleep(PAUSE_MS / 1000 + seconds)
        calls = slugs_of(rig.courier.calls())
    return list(itertools.chain.from_iterable(turnovers(c, CONCURRENT) for c in calls.values()))


def run(plan: Plan) -> list[Table]:
    """Measure both."""
    rows = list(_rows(plan))
    return [Table("latency", "Latency", COLUMNS, rows, NOTE)]


def _rows(plan: Plan) -> Iterator[dict[str, Value]]:
    with open_rig() as rig:
        plan.say("put to stored, one request at a time")
        yield _row("put, stored", put_to_stored(rig, plan.pick(300, 40)))
        plan.say("end of a call to the start of the next in line")
        taken = slot_to_next(rig, plan.pick(10, 5), plan.span(20.0, 5.0))
        yield _row("slot free, next call", taken)


def _row(what: str, seconds: Sequence[float]) -> dict[str, Value]:
    return {
        "what": what,
        "samples": len(seconds),
        "p50_ms": percentile(seconds, 0.5) * 1000,
        "p99_ms": percentile(seconds, 0.99) * 1000,
        "worst_ms": max(seconds, default=0.0) * 1000,
    }


SCENARIO = Scenario("latency", "put to stored, and a freed slot to the next call", run)
