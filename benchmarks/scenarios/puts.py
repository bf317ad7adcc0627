"""How fast requests are put, next to a bare client that does nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from benchmarks.plan import Plan, Scenario
from benchmarks.rig import Rig, open_rig
from benchmarks.table import Column, Table, Value
from benchmarks.tube import REQUESTS, requests
from service.client.producer import Placing, Producer, batches

COLUMNS = (
    Column("round", "round"),
    Column("jobs", "requests"),
    Column("bare_rate", "bare client, requests/s"),
    Column("rate", "`put`, requests/s"),
    Column("share", "of the bare client's", 2),
)
NOTE = (
    "Both put the same bodies on the same beanstalkd, which syncs each of them, in turn, from one "
    "connection and in batches of 128."
)
TOGETHER = 128


def measured(put: Callable[[Sequence[bytes]], None], bodies: Sequence[bytes], rig: Rig) -> float:
    """Put bodies into an empty tube; gives the rate, once all are seen to be there."""
    rig.tubes.empty(REQUESTS)
    began = time.perf_counter()
    put(bodies)
    rate = len(bodies) / (time.perf_counter() - began)
    if (left := rig.tubes.left(REQUESTS)) != len(bodies):
        raise RuntimeError(f"{len(bodies)} were put, and {left} are in the tube")
    return rate


def _with_producer(server: str) -> Callable[[Sequence[bytes]], None]:
    def put(bodies: Sequence[bytes]) -> None:
        with Producer([server]) as producer:
            for batch in batches(bodies, TOGETHER):
                producer.put(batch, Placing())

    return put


def run(plan: Plan) -> list[Table]:
    """Measure both in turn, some times."""
    rows: list[dict[str, Value]] = []
    with open_rig() as rig:
        bodies = list(requests(["acme"], plan.pick(40_000, 5_000)))
        ours = _with_producer(rig.stack.beanstalkd.url)
        for turn in range(1, plan.pick(5, 2) + 1):
            plan.say(f"round {turn}")
            bare = measured(lambda bodies: _bare(rig, bodies), bodies, rig)
            rate = measured(ours, bodies, rig)
            rows.append(
                {
                    "round": turn,
                    "jobs": len(bodies),
                    "bare_rate": round(bare),
                    "rate": round(rate),
                    "share": rate / bare,
                }
            )
    return [Table("puts", "Requests that are put", COLUMNS, rows, NOTE)]


def _bare(rig: Rig, bodies: Sequence[bytes]) -> None:
    rig.tubes.put(REQUESTS, bodies)


SCENARIO = Scenario("puts", "how fast requests are put, next to a bare client", run)
