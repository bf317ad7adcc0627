"""The same thing wanted more than once: one call answers everybody who finds it fresh enough."""

from __future__ import annotations

import time

from plant import Plant
from running_worker import until

from tracking.tally import tally_of

COPIES = 10_000


def test_ten_thousand_copies_of_a_request_are_one_call(plant: Plant) -> None:
    plant.hasty_beanstalkd()
    slug = plant.courier(latency=0.3)
    plant.producer.put_copies(slug, "AB123456", COPIES)
    plant.hire(processes=2).ready()
    plant.endings.come(60.0)

    assert len(plant.calls(slug)) == 1
    assert plant.tracking.count_documents({}) == 1
    assert plant.producer.jobs()["ready"] == 0


def test_the_same_id_is_one_operation_however_often_it_is_put(plant: Plant) -> None:
    slug = plant.courier(latency=0.3)
    plant.hire(processes=2).ready()
    for _ in range(3):
        plant.producer.put(slug, "AB123456", id="order-1", max_age=0)
    plant.endings.come(20.0)
    plant.producer.put(slug, "AB123456", id="order-1", max_age=0)
    plant.endings.come(20.0)
    assert len(plant.calls(slug)) == 1

    plant.producer.put(slug, "AB123456", id="order-2", max_age=0)
    plant.endings.come(20.0)
    assert len(plant.calls(slug)) == 2

    plant.producer.put(slug, "AB999999", id="order-1", max_age=0)
    until(lambda: plant.dead.count_documents({}), 10.0, "the id of another parcel is recorded")
    (refused,) = plant.dead.find()
    assert (refused["reason"], refused["number"]) == ("id_reused", "AB999999")
    assert f"{slug} AB123456" in refused["detail"]
    until(lambda: plant.producer.jobs()["reserved"] == 0, 10.0, "its job is deleted")
    assert len(plant.calls(slug)) == 2
    assert plant.endings.state("order-1") == "SUCCESS"


def test_a_job_whose_worker_died_is_asked_once_more_at_once_and_counted_once(plant: Plant) -> None:
    """F1: the job was deleted before its result was there."""
    plant.settings |= {"limits.call_timeout_seconds": 20.0, "limits.lease_seconds": 40.0}
    slug = plant.courier(fault="hang", first=1)
    doomed = plant.hire().ready()
    plant.producer.put(slug, "AB123456", id="order-1")
    until(lambda: plant.calls(slug), 5.0, "the call arrives")
    plant.hire().ready()
    doomed.vanish()
    killed = time.monotonic_ns()
    until(lambda: len(plant.calls(slug)) == 2, 5.0, "the call is made again")
    again = plant.calls(slug)[1].arrived_ns
    plant.measured(
        "until a killed worker's job is asked again", [f"{(again - killed) / 1e6:.0f} ms"]
    )

    until(lambda: plant.endings.state("order-1") == "SUCCESS", 10.0, "it is answered")
    assert len(plant.calls(slug)) == 2
    told = tally_of(map(plant.redis.hgetall, plant.redis.keys(f"tracking:stats2:{slug}:*")))
    assert told.counts == {"lost": 1, "SUCCESS": 1}
    document = plant.document(slug, "AB123456")
    assert document
    assert document["tracked_count"] == 1


def test_who_waits_for_a_number_that_runs_is_answered_by_that_call(plant: Plant) -> None:
    slug = plant.courier(latency=1.0)
    plant.hire(processes=2).ready()
    plant.producer.put(slug, "AB123456", id="first")
    until(lambda: plant.calls(slug), 5.0, "the call arrives")
    plant.producer.put(slug, "AB123456", id="second")
    plant.producer.put(slug, "AB123456")
    plant.endings.come(20.0)

    assert len(plant.calls(slug)) == 1
    assert plant.endings.state("second") == "SUCCESS"


def test_who_finds_the_running_call_too_old_gets_one_of_their_own_after_it(plant: Plant) -> None:
    slug = plant.courier(latency=1.0)
    plant.hire(processes=2).ready()
    plant.producer.put(slug, "AB123456", id="first")
    until(lambda: plant.calls(slug), 5.0, "the call arrives")
    plant.producer.put(slug, "AB123456", id="second", max_age=0)
    plant.endings.come(20.0)

    first, second = plant.calls(slug)
    assert first.ended_ns
    assert second.arrived_ns >= first.ended_ns, "a number never runs twice at once"
