"""What a killed worker held comes back while the work goes on, without anybody's help."""

from __future__ import annotations

import os
import signal
import time

from plant import Plant
from running_worker import RunningWorker, until

from devstack.judge import SECOND_NS

LONG_LIST = 10_000


def who_answered_last(worker: RunningWorker) -> int:
    """The process that drains: it takes the next call with every answer."""
    name = worker.events("request answered")[-1]["worker"]
    return int(name.rsplit(":", 1)[1])


def in_flight(plant: Plant, slug: str) -> int:
    return sum(call.ended_ns is None for call in plant.calls(slug))


def arrivals_since(plant: Plant, slug: str, instant_ns: int) -> int:
    return sum(call.arrived_ns >= instant_ns for call in plant.calls(slug))


def test_slots_of_a_killed_worker_come_back_under_steady_traffic(plant: Plant) -> None:
    """F12: each new call renewed the expiry of a leaked count, which so never came back."""
    slug = plant.courier(concurrent=4, per_second=8, latency=1.2)
    worker = plant.hire(processes=2).ready()
    for number in range(60):
        plant.producer.put(slug, f"AB{number:06d}")
    until(lambda: worker.events("request answered"), 10.0, "calls are answered")
    until(lambda: in_flight(plant, slug) == 4, 5.0, "all slots are taken")
    worker.kill_child(who_answered_last(worker))
    until(lambda: in_flight(plant, slug) < 4, 2.0, "the courier loses its callers")

    # The slots of the dead are held until their leases end, 5 s after the grant; not longer.
    until(lambda: in_flight(plant, slug) == 4, 10.0, "all slots are taken again")
    plant.endings.come(40.0)
    plant.held_to_limits()


def test_a_worker_that_stands_still_is_killed_and_others_go_on(plant: Plant) -> None:
    slug = plant.courier(concurrent=4, per_second=8, latency=0.5)
    worker = plant.hire(processes=2).ready()
    for number in range(60):
        plant.producer.put(slug, f"AB{number:06d}")
    until(lambda: worker.events("request answered"), 10.0, "calls are answered")
    frozen = who_answered_last(worker)
    os.kill(frozen, signal.SIGSTOP)

    until(lambda: worker.events("process was silent and is killed", pid=frozen), 15.0, "a kill")
    plant.endings.come(40.0)
    plant.held_to_limits()


def test_a_list_of_ten_thousand_goes_on_within_seconds_after_its_drainer_died(plant: Plant) -> None:
    """F8: timers for the whole list died with their process; its flag stayed up for 83 minutes."""
    slug = plant.courier(latency=0.1)
    worker = plant.hire(processes=2)
    plant.redis.rpush(f"wait_list:{slug}", *(f"AB{number:06d}" for number in range(LONG_LIST)))
    until(lambda: worker.events("request answered"), 20.0, "the list is found and drained")
    until(lambda: len(plant.calls(slug)) >= 6, 10.0, "it is drained at the rate")
    worker.kill_child(who_answered_last(worker))
    killed = time.monotonic_ns()

    def goes_on() -> bool:
        latest = max(killed, time.monotonic_ns() - 3 * SECOND_NS)
        return arrivals_since(plant, slug, latest) >= 5

    until(goes_on, 13.0, "calls start at the full rate again")
    seconds = (time.monotonic_ns() - killed) / SECOND_NS
    plant.measured("until a list of 10,000 goes on at the full rate", [f"{seconds:.1f} s"])
    assert worker.stop() == 0
    plant.held_to_limits()
    assert plant.redis.llen(f"wait_list:{slug}") > LONG_LIST - 100
