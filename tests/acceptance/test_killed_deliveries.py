"""A worker is killed (-9) at each point on the way of a delivery: none is lost, few come twice.

Two calls may be in flight; so many deliveries may arrive once more, and none of which a success was
stored. Another worker goes on.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pytest
from hooks import WHO, Hooks
from plant import Plant
from running_worker import RunningWorker, until

from devstack import judge
from devstack.receiver import Received
from service.worker.wiring.failpoints import DeliveryPoint, FailPoint
from tracking.request import MAIN

CONCURRENT = 2
TOGETHER = 6
DIES_WITHIN, DELIVERED_WITHIN = 40.0, 60.0


@dataclass(frozen=True)
class Death:
    """How a worker is brought to a point. `changed`: by a parcel's change, not by a test event."""

    changed: bool = False
    behaviour: dict[str, Any] = field(default_factory=dict)


FAILING = Death(behaviour={"fault": "status", "status": 500})

DEATHS = {
    DeliveryPoint.MARKED: Death(changed=True),
    DeliveryPoint.INSERTED: Death(changed=True),
    DeliveryPoint.TOLD: Death(changed=True),
    DeliveryPoint.LEASED: Death(),
    FailPoint.GRANTED: Death(),
    FailPoint.PARKED: Death(),
    FailPoint.TAKEN: Death(),
    DeliveryPoint.READ: Death(),
    DeliveryPoint.SENT: Death(),
    DeliveryPoint.NOTED: Death(),
    DeliveryPoint.MOVED: Death(),
    FailPoint.STORED: Death(),
    FailPoint.FINISHED: Death(),
    FailPoint.FAILURE_STORED: FAILING,
    FailPoint.RETRIED: FAILING,
}


def test_every_point_of_deliveries_is_visited_by_this_file() -> None:
    assert set(DeliveryPoint) <= set(DEATHS)


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(each, marks=() if each is DeliveryPoint.NOTED else pytest.mark.prove)
        for each in DEATHS
    ],
)
def test_what_a_killed_worker_delivered_is_delivered_by_the_next_one(
    plant: Plant, point: FailPoint | DeliveryPoint
) -> None:
    death, hooks = DEATHS[point], Hooks(plant)
    hooks.make("erp", concurrent=CONCURRENT, per_second=5)
    hooks.receiver("erp").behave(latency=0.2, **death.behaviour)
    doomed = plant.hire(FAILPOINT=point).ready()
    wanted = feed_until_dead(hooks, doomed, death)
    hooks.receiver("erp").behave(latency=0.2)
    survivor = plant.hire().ready()

    deliveries = plant.collection("deliveries")
    until(
        lambda: deliveries.count_documents({"state": "delivered"}) >= wanted,
        DELIVERED_WITHIN,
        "all are delivered",
    )
    assert deliveries.count_documents({}) == deliveries.count_documents({"state": "delivered"})
    judge_arrivals(plant, hooks.receiver("erp").received())
    assert survivor.process.poll() is None


def feed_until_dead(hooks: Hooks, doomed: RunningWorker, death: Death) -> int:
    """Make deliveries until the worker is dead and stays so; tells how many."""
    ends, count = time.monotonic() + DIES_WITHIN, 0
    while not doomed.events("process died", code=-9):
        assert time.monotonic() < ends, "the fail point was never reached"
        for _ in range(TOGETHER):
            if death.changed:
                hooks.plant.producer.put(hooks.slug, f"AB{count:06}")
            else:
                with hooks.services() as services:
                    services.test(WHO, MAIN, "erp")
            count += 1
        pause = time.monotonic() + 6.0
        while time.monotonic() < pause and not doomed.events("process died", code=-9):
            time.sleep(0.05)
    doomed.stop()
    return count


def judge_arrivals(plant: Plant, received: list[Received]) -> None:
    """No delivery twice at once, none after a stored success, and few twice at all."""
    of: dict[str, list[Received]] = defaultdict(list)
    for each in received:
        of[each.headers["webhook-id"]].append(each)
    assert judge.most_in_flight([each.call for each in received]) <= CONCURRENT
    for calls in of.values():
        assert judge.most_in_flight([each.call for each in calls]) == 1
    again = sum(sum(each.taken for each in calls) - 1 for calls in of.values())
    assert again <= CONCURRENT
    rows = plant.collection("attempts")
    for name, calls in of.items():
        taken = rows.find({"delivery": name, "failure": None})
        assert len(list(taken)) == 1, f"{name}: {len(calls)} arrived"
