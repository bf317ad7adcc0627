"""The real figures: 20 in flight, 2 started in any second, none wasted (docs/interface.md §2)."""

from __future__ import annotations

import pytest
from plant import Plant
from portion import TIMES
from running_worker import until

from devstack import judge
from devstack.judge import SECOND_NS, Call

pytestmark = pytest.mark.measures

REAL = {
    "limits.call_timeout_seconds": 30.0,
    "limits.lease_seconds": 60.0,
    "worker.grace_seconds": 35.0,
}


def waits_for_a_freed_slot(calls: list[Call], concurrent: int) -> list[float]:
    """From the instant at which a slot came free while all were taken, to the next arrival (s)."""
    arrivals = sorted(call.arrived_ns for call in calls)
    ends = sorted(call.ended_ns for call in calls if call.ended_ns)
    # The n-th arrival beyond the limit is made possible by the n-th end.
    pairs = zip(ends, arrivals[concurrent:], strict=False)
    return [(arrived - ended) / SECOND_NS for ended, arrived in pairs if arrived > ended]


def test_workers_together_start_two_calls_in_any_second_and_use_the_rate_while_anything_waits(
    plant: Plant,
) -> None:
    slugs = [plant.courier("acme", latency=0.2), plant.courier("blue-post", latency=0.2)]
    for worker in (plant.hire(processes=2), plant.hire()):
        worker.ready()
    for number in range(24):
        for slug in slugs:
            plant.producer.put(slug, f"AB{number:06d}")
    plant.endings.come(60.0)

    plant.held_to_limits()
    for slug in slugs:
        calls = plant.calls(slug)
        assert len(calls) == 24
        share = judge.rate_share(calls, 2)
        plant.measured("share of the rate", [f"{share:.4f}"])
        assert share >= 0.95 or not TIMES


@pytest.mark.prove
def test_twenty_calls_of_twelve_seconds_run_at_once_and_never_twenty_one(plant: Plant) -> None:
    plant.settings |= REAL
    slug = plant.courier(latency=12.0)
    plant.hire(processes=2).ready()
    for number in range(26):
        plant.producer.put(slug, f"AB{number:06d}")
    until(lambda: plant.tracking.count_documents({}) == 26, 60.0, "26 answers")

    calls = plant.calls(slug)
    assert len(calls) == 26
    assert judge.most_in_flight(calls) == 20
    assert judge.most_starts_in_any_second(calls) == 2
    waits = waits_for_a_freed_slot(calls, 20)
    plant.measured("from a freed slot to the next arrival", [f"{w * 1000:.0f} ms" for w in waits])
    assert min(waits) < 2.0 or not TIMES


def test_a_freed_slot_goes_to_the_next_in_line_at_once(plant: Plant) -> None:
    plant.settings |= {"limits.call_timeout_seconds": 10.0, "limits.lease_seconds": 20.0}
    slug = plant.courier(concurrent=4, per_second=20, latency=4.0)
    plant.hire(processes=2).ready()
    for number in range(10):
        plant.producer.put(slug, f"AB{number:06d}")
    plant.endings.come(40.0)

    plant.held_to_limits()
    calls = plant.calls(slug)
    assert judge.most_in_flight(calls) == 4
    waits = waits_for_a_freed_slot(calls, 4)
    plant.measured("from a freed slot to the next arrival", [f"{w * 1000:.0f} ms" for w in waits])
    assert len(waits) == 6
    assert max(waits) < 2.0 or not TIMES
