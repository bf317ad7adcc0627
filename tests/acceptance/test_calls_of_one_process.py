"""`[worker] concurrency`: the calls that one process has in flight, at all couriers together."""

from __future__ import annotations

import resource

from plant import Plant
from running_worker import BOOT_SECONDS, until

from devstack import judge

COURIERS, EACH = 40, 3


def test_a_process_never_has_more_calls_in_flight_than_its_concurrency_and_answers_everybody(
    plant: Plant,
) -> None:
    plant.settings["worker.concurrency"] = 5
    slugs = [plant.courier("small", latency=0.2) for _ in range(COURIERS)]
    for number in range(EACH - 1):
        for slug in slugs:
            plant.producer.put(slug, f"AB{number:06d}")
    # As if a larger process had left them; with the drain jobs for all of them at once.
    for slug in slugs:
        plant.redis.rpush(f"wait_list:{slug}", "AB999999")
        plant.producer.put_drain(slug)
    worker = plant.hire().ready()
    plant.endings.come(60.0)

    calls = [call for slug in slugs for call in plant.calls(slug)]
    assert len(calls) == COURIERS * EACH
    assert judge.most_in_flight(calls) == 5
    plant.held_to_limits()
    (started,) = worker.events("worker started")
    assert (started["concurrency"], started["bound_by"]) == (5, "worker.concurrency")
    with plant.producer.client("wait_list") as tube:
        told = tube.stats()
    plant.measured(
        "drain jobs put, released", [str((told["total-jobs"] - 80, told["cmd-release"]))]
    )
    assert told["cmd-release"] <= COURIERS, "drain jobs do not go round"
    assert told["total-jobs"] <= COURIERS * (EACH - 1) + 3 * COURIERS


def test_a_call_that_takes_long_holds_up_no_job_behind_it(plant: Plant) -> None:
    """Jobs that are being admitted have a room of their own: the tube does not wait for calls."""
    plant.settings |= {"limits.call_timeout_seconds": 10.0, "limits.lease_seconds": 20.0}
    plant.settings["worker.concurrency"] = 2
    slow, quick = plant.courier("slow", latency=2.5), plant.courier("quick")
    plant.hire().ready()
    for number in range(6):
        plant.producer.put(slow, f"AB{number:06d}")
    plant.producer.put(quick, "AB000000")
    plant.endings.come(60.0)

    (lone,) = plant.calls(quick)
    second = sorted(call.ended_ns or 0 for call in plant.calls(slow))[1]
    assert (lone.arrived_ns - second) / judge.SECOND_NS < 2.0, "it was the next in line"


def test_a_low_hard_limit_of_open_files_lowers_the_calls_and_the_log_says_so(plant: Plant) -> None:
    slug = plant.courier(per_second=20)
    worker = plant.hire().ready()
    # Processes that the parent starts from now on have its limits; the first one had ours.
    resource.prlimit(worker.process.pid, resource.RLIMIT_NOFILE, (200, 300))
    worker.kill_child()
    until(lambda: len(worker.events("worker started")) == 2, BOOT_SECONDS, "another process starts")

    for number in range(5):
        plant.producer.put(slug, f"AB{number:06d}")
    plant.endings.come(30.0)

    before, after = worker.events("worker started")
    assert before["concurrency"] > 150
    assert (after["concurrency"], after["bound_by"]) == (150, "half of 300 open files")
