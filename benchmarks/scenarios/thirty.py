"""Thirty numbers in a call, next to one: what a parcel costs, and how many 33 couriers give.

What a parcel costs is measured over its whole way, from the first reserve until every answer is
stored: the worker is idle when the tube is opened. The requests are AUTOMATIC, as those are that
wait for company; a MANUAL one that finds nobody waiting goes at once, by itself. With the limits
out of the way nobody waits for a turn, only for a full call.

What the couriers give is measured as in `limited`: each has a backlog that was parked before, and
lasts longer than the run.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from statistics import fmean

from benchmarks.pace import Window, judge
from benchmarks.plan import Column, Plan, Scenario, Table, Value
from benchmarks.rig import DATABASE, PAUSE_MS, Rig, feed, open_rig, slugs
from benchmarks.scenarios.limited import ALLOWED, DELAY_MS, PAUSED, Spans
from benchmarks.scenarios.unlimited import Unfinished, medians
from benchmarks.tube import REQUESTS, requests
from benchmarks.worker_tree import OPEN, Setting
from devstack.judge import Call

COST = (
    Column("limits", "limits"),
    Column("slugs", "couriers"),
    Column("together", "numbers a call at most"),
    Column("parcels", "parcels"),
    Column("in_a_call", "numbers in a call", 1),
    Column("parcels_s", "parcels/s"),
    Column("worker_us", "worker µs"),
    Column("beanstalkd_us", "beanstalkd µs"),
    Column("redis_us", "Redis µs"),
    Column("mongodb_us", "mongod µs"),
    Column("courier_us", "stub µs"),
)
COST_NOTE = (
    "CPU per parcel, from the first reserve until all answers are stored; AUTOMATIC requests, one "
    "worker process, parent included. Without limits: medians, calls of one and of thirty in turn. "
    "The courier answers at once there, else after 200 ms."
)
PACE = (
    Column("slugs", "couriers"),
    Column("together", "numbers a call at most"),
    Column("in_a_call", "numbers in a call", 1),
    Column("parcels_s", "parcels/s"),
    Column("rate", "rate", 3),
    Column("share", "share", 3),
    Column("over", "slugs over"),
    Column("proven", "proven"),
    Column("in_flight", "most in flight"),
    Column("late_ms", "late ms", 1),
    Column("late_p99_ms", "late p99 ms", 1),
    Column("worker_us", "worker µs"),
    Column("worker_core", "worker % of a core", 1),
    Column("redis_us", "Redis µs"),
    Column("mongodb_us", "mongod µs"),
)
PACE_NOTE = (
    "Shipped limits, one process, answers after 200 ms; MANUAL requests that were parked before. "
    "Parcels/s: the numbers of the calls that arrived in the window. CPU per parcel, from its take "
    "on. Rate, share, slugs over, late: of calls, as with the limits in force."
)
TOGETHER = 30
OPEN_SLUGS = 50
COURIERS = 33
"""Of thirty numbers a call and two calls a second: 1,980 parcels a second."""

LOOK_SECONDS = 0.02
PATIENCE = 600.0


@dataclass(frozen=True, slots=True)
class Kind:
    """Which couriers are asked, and under which limits."""

    slugs: int
    together: int
    limits: Mapping[str, int]

    @property
    def setting(self) -> Setting:
        """What the worker is set to."""
        return Setting(slugs(self.slugs), limits=self.limits, together=self.together)


def whole_way(rig: Rig, kind: Kind, parcels: int) -> dict[str, Value]:
    """Have about `parcels` requests answered, from a full tube; gives a row."""
    names = slugs(kind.slugs)
    rig.clean(0 if kind.limits else DELAY_MS)
    rig.tubes.pause(REQUESTS, PAUSED)
    with rig.worker(kind.setting) as worker:
        bodies = requests(names, parcels // kind.slugs, origin="AUTOMATIC")
        put = rig.tubes.put(REQUESTS, bodies)
        meter = rig.meter(worker)
        before, began = meter.read(), time.perf_counter()
        rig.tubes.pause(REQUESTS, 0)
        _wait_until_stored(rig, put)
        seconds, used = time.perf_counter() - began, meter.since(before)
        calls = rig.courier.calls()
    return {
        "limits": "none" if kind.limits else "shipped",
        "slugs": kind.slugs,
        "together": kind.together,
        "parcels": put,
        "calls": len(calls),
        "in_a_call": _in_a_call(calls),
        "seconds": seconds,
        "parcels_s": put / seconds,
        **{f"{name}_us": spent / put * 1e6 for name, spent in used.items()},
    }


def pace(rig: Rig, kind: Kind, spans: Spans) -> dict[str, Value]:
    """Have the couriers asked at their full rate; gives a row."""
    names = slugs(kind.slugs)
    rig.clean(DELAY_MS)
    rig.tubes.pause(REQUESTS, PAUSED)
    with rig.worker(kind.setting) as worker:
        fed = feed(rig, names, requests(names, spans.backlog * kind.together))
        time.sleep(PAUSE_MS / 1000 + spans.warm_up)
        meter = rig.meter(worker)
        cpu, begin_ns = meter.read(), time.monotonic_ns()
        time.sleep(spans.measured)
        used, window = meter.since(cpu), Window(begin_ns, time.monotonic_ns())
        calls = rig.courier.calls()
    told = judge(calls, window, ALLOWED, kind.slugs)
    made = [call for call in calls if window.holds(call.arrived_ns)]
    parcels = sum(len(call.numbers) for call in made)
    return {
        **asdict(told),
        "slugs": kind.slugs,
        "together": kind.together,
        "parcels": parcels,
        "in_a_call": _in_a_call(made),
        "parcels_s": parcels / window.seconds,
        **{f"{name}_us": seconds / max(1, parcels) * 1e6 for name, seconds in used.items()},
        "worker_core": used["worker"] / window.seconds * 100,
        "fed_s": fed,
    }


def _in_a_call(calls: Iterable[Call]) -> float:
    sizes = [len(call.numbers) for call in calls]
    return fmean(sizes) if sizes else 0.0


def _wait_until_stored(rig: Rig, count: int) -> None:
    tracking = rig.mongodb[DATABASE]["tracking"]
    deadline = time.monotonic() + PATIENCE
    while (stored := tracking.estimated_document_count()) < count:
        if time.monotonic() > deadline:
            raise Unfinished(f"of {count} answers {stored} are stored after {PATIENCE:g} s")
        time.sleep(LOOK_SECONDS)


def run(plan: Plan) -> list[Table]:
    """Measure calls of one and of thirty in turn, without limits and with those that ship."""
    parcels, rounds = plan.pick(20_000, 3_000), plan.pick(3, 1)
    busy = plan.pick(10, 3)
    spans = Spans(plan.pick(4.0, 2.0), plan.span(12.0, 5.0))
    without = [Kind(OPEN_SLUGS, together, OPEN) for together in (1, TOGETHER)]
    shipped = [Kind(COURIERS, together, {}) for together in (1, TOGETHER)]
    runs: list[list[dict[str, Value]]] = [[], []]
    with open_rig() as rig:
        for number in range(1, rounds + 1):
            for kind, found in zip(without, runs, strict=True):
                plan.say(f"round {number}: {kind.together} numbers a call, no limits")
                found.append(whole_way(rig, kind, parcels))
        rows = [{**medians([_numbers(each) for each in found]), "limits": "none"} for found in runs]
        paces = []
        for kind in shipped:
            plan.say(f"{kind.slugs} couriers, {kind.together} numbers a call")
            turns = kind.slugs * kind.together * ALLOWED.per_second
            rows.append(whole_way(rig, kind, turns * busy))
            paces.append(pace(rig, kind, spans))
    details = [each for found in runs for each in found]
    title = "Thirty numbers in a call"
    return [
        Table("thirty_cost", f"{title}: what a parcel costs", COST, rows, COST_NOTE, details),
        Table("thirty", f"{title}: what {COURIERS} couriers give", PACE, paces, PACE_NOTE),
    ]


def _numbers(row: Mapping[str, Value]) -> dict[str, Value]:
    return {key: value for key, value in row.items() if not isinstance(value, str)}


SCENARIO = Scenario("thirty", "thirty numbers in a call, next to one", run)
