"""One courier with thousands of requests, put in front of everybody else's."""

from __future__ import annotations

import time
from itertools import chain

from benchmarks.pace import slugs_of
from benchmarks.plan import Plan, Scenario
from benchmarks.rig import Rig, open_rig, slugs
from benchmarks.table import Column, Table, Value
from benchmarks.tube import REQUESTS, requests
from benchmarks.worker_tree import Setting

COLUMNS = (
    Column("hot", "hot requests in front"),
    Column("others", "other slugs"),
    Column("seconds", "seconds", 1),
    Column("others_share", "others' share", 3),
    Column("hot_share", "hot slug's share", 3),
    Column("first_ms", "last slug's first call ms", 0),
)
NOTE = (
    "Share: calls made by calls allowed, from the instant at which the tube is opened; the way "
    "past the hot requests counts."
)
HOT = 3_000
OTHERS = 50
PER_SECOND = 2
DELAY_MS = 200
PAUSED = 3_600


def hot_slug(rig: Rig, hot: int, others: int, seconds: float) -> dict[str, Value]:
    """Put the hot slug's requests, then the others'; measure from the opening of the tube."""
    busy, *rest = slugs(others + 1)
    each = round((seconds + 2) * PER_SECOND)
    rig.clean(DELAY_MS)
    rig.tubes.pause(REQUESTS, PAUSED)
    with rig.worker(Setting((busy, *rest))):
        rig.tubes.put(REQUESTS, chain(requests([busy], hot), requests(rest, each)))
        began = time.monotonic_ns()
        rig.tubes.pause(REQUESTS, 0)
        time.sleep(seconds)
        calls = slugs_of(call for call in rig.courier.calls())
    ended = began + round(seconds * 1e9)
    made = {
        slug: sum(call.arrived_ns < ended for call in calls.get(slug, ())) for slug in (busy, *rest)
    }
    allowed = seconds * PER_SECOND
    first = max(calls[slug][0].arrived_ns if slug in calls else ended for slug in rest)
    return {
        "hot": hot,
        "others": others,
        "seconds": seconds,
        "others_share": sum(made[slug] for slug in rest) / (others * allowed),
        "hot_share": made[busy] / allowed,
        "first_ms": (first - began) / 1e6,
    }


def run(plan: Plan) -> list[Table]:
    """Measure once."""
    hot, others, seconds = plan.pick(HOT, 500), plan.pick(OTHERS, 10), plan.span(19.5, 6.0)
    with open_rig() as rig:
        plan.say(f"{hot:,} requests of one courier in front of {others} others")
        row = hot_slug(rig, hot, others, seconds)
    return [Table("hot_slug", "One hot courier in front of the queue", COLUMNS, [row], NOTE)]


SCENARIO = Scenario("hot_slug", "what one hot courier does to the others", run)
