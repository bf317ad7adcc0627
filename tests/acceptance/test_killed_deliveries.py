"""A worker is killed (-9) at each step of a delivery: it arrives, and never after a stored success.

Parcels change until the worker is dead; from then on nobody helps. The next worker takes over.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from hooks import Hooks, numbers_of
from plant import Plant
from running_worker import RunningWorker, until

from service.worker.wiring.failpoints import DeliveryPoint, FailPoint

CONCURRENT, BURST = 3, 8
"""More are delivered than may be at once: some wait, and are taken later."""

DIES_WITHIN = 40.0

TAKES_OVER = 75.0
"""Seconds within which a sweep finds the marks that a vanished worker left, and all arrives."""

FAILING: dict[str, Any] = {"fault": "status", "status": 500, "first": 1}

DEATHS: list[tuple[DeliveryPoint | FailPoint, dict[str, Any]]] = [
    *((point, {}) for point in DeliveryPoint),
    # A change is stored, of which nobody heard yet.
    (FailPoint.STORED, {}),
    (FailPoint.TAKEN, {}),
    (DeliveryPoint.SENT, FAILING),
    (DeliveryPoint.NOTED, FAILING),
    (DeliveryPoint.MOVED, FAILING),
    (FailPoint.RETRIED, FAILING),
]
DAILY = (DeliveryPoint.NOTED,)


@pytest.mark.parametrize(
    ("point", "behaviour"),
    [
        pytest.param(
            point,
            behaviour,
            marks=() if point in DAILY and not behaviour else pytest.mark.prove,
            id=f"{point}{'-of-a-failure' if behaviour else ''}",
        )
        for point, behaviour in DEATHS
    ],
)
def test_what_a_killed_worker_was_delivering_arrives_by_the_next(
    plant: Plant, point: DeliveryPoint | FailPoint, behaviour: dict[str, Any]
) -> None:
    hooks = Hooks(plant)
    hooks.receiver("erp").behave(latency=0.1, **behaviour)
    doomed = plant.hire(FAILPOINT=point).ready()
    hooks.make("erp", concurrent=CONCURRENT)
    numbers = change_until_dead(hooks, doomed)
    deaths = len(doomed.events("process died", code=-9))
    plant.hire().ready()
    hooks.all_delivered("erp", len(numbers), TAKES_OVER)

    assert set(hooks.arrived("erp")) == set(numbers)
    hooks.judge_attempts("erp", doubles=deaths * CONCURRENT)
    left = {"untold": {"$exists": True}}
    until(lambda: not plant.tracking.count_documents(left), TAKES_OVER, "no mark is left")


def change_until_dead(hooks: Hooks, doomed: RunningWorker) -> list[str]:
    """Let parcels change until the worker was killed, and stop its parent."""
    numbers: list[str] = []
    deadline = time.monotonic() + DIES_WITHIN
    while not doomed.events("process died", code=-9):
        assert time.monotonic() < deadline, "the fail point was never reached"
        burst = numbers_of(BURST, first=len(numbers))
        hooks.plant.producer.put_all(hooks.slug, burst)
        numbers += burst
        time.sleep(1.0)
    doomed.stop()
    until(lambda: doomed.process.poll() is not None, 10.0, "it has ended")
    return numbers
