"""SIGTERM: takes nothing more, finishes or hands back in its grace, exits with 0."""

from __future__ import annotations

import json
import time

import pytest
from plant import Plant
from running_worker import STOP_SECONDS, until

SLOW = {"limits.call_timeout_seconds": 8.0, "limits.lease_seconds": 60.0}


def test_a_stopping_worker_finishes_the_calls_that_end_within_its_grace_and_takes_no_more_jobs(
    plant: Plant,
) -> None:
    slug = plant.courier(latency=1.2)
    worker = plant.hire(processes=2).ready()
    plant.producer.put(slug, "AB000001", id="order-1")
    plant.producer.put(slug, "AB000002")
    until(lambda: len(plant.calls(slug)) == 2, 5.0, "both calls arrive")
    worker.terminate()
    until(lambda: len(worker.events("worker stops")) == 3, 5.0, "parent and children stop")
    left = plant.producer.put(slug, "AB000003")

    assert worker.process.wait(STOP_SECONDS) == 0
    assert plant.endings.missing() == [left]
    assert [call.status for call in plant.calls(slug)] == [200, 200]
    assert plant.producer.jobs() == {"ready": 1, "reserved": 0, "delayed": 0, "buried": 0}


def test_what_runs_beyond_the_grace_and_what_waits_goes_on_once_with_the_next_worker(
    plant: Plant,
) -> None:
    plant.settings |= SLOW | {"worker.grace_seconds": 0.5}
    slug, narrow = plant.courier(latency=6.0), plant.courier(concurrent=2, latency=6.0)
    stopping = plant.hire().ready()
    for number in range(3):
        plant.producer.put(slug, f"AB00000{number}", id=f"order-{number}")
    for number in range(8):
        plant.producer.put(narrow, f"AB00000{number}")
    until(lambda: len(plant.calls(slug)) == 3, 5.0, "three calls run")
    until(lambda: len(plant.calls(narrow)) == 2, 5.0, "two calls run")
    until(lambda: plant.producer.jobs()["ready"] == 0, 5.0, "the others wait in Redis")
    assert stopping.stop() == 0
    assert len(stopping.events("request handed back")) == 5
    calls = plant.calls(slug) + plant.calls(narrow)
    assert not [call for call in calls if call.status == 200], "none was waited for"
    assert plant.producer.jobs("wait_list")["ready"] == 2, "nobody needs the sweeper"

    plant.site.behave(slug, latency=0.1)
    plant.site.behave(narrow, latency=0.1)
    plant.hire().ready()
    # The slots came back with the hand-back: nobody waits for leases of 60 s.
    plant.endings.come(30.0)
    assert (len(plant.calls(slug)), len(plant.calls(narrow))) == (6, 10)
    plant.held_to_limits()


@pytest.mark.prove
def test_an_answer_that_cannot_be_stored_is_handed_back_at_the_end_of_the_grace(
    plant: Plant,
) -> None:
    mongodb = plant.own_mongodb()
    plant.settings |= SLOW | {"worker.grace_seconds": 0.5}
    slug = plant.courier(latency=0.5)
    stopping = plant.hire().ready()
    plant.producer.put(slug, "AB000001", id="order-1")
    until(lambda: plant.calls(slug), 5.0, "the call arrives")
    mongodb.kill()
    until(lambda: plant.calls(slug)[0].status == 200, 5.0, "it is answered")
    assert stopping.stop() == 0
    assert len(stopping.events("request handed back")) == 1
    (record,) = map(json.loads, plant.redis.hvals(f"wait_requests:{slug}"))
    assert (record.get("attempts", 0), record.get("deaths", 0)) == (0, 0)

    mongodb.start()
    plant.hire().ready()
    # Its slot came back with the hand-back: nobody waits for a lease of 60 s.
    plant.endings.come(30.0)
    assert [call.status for call in plant.calls(slug)] == [200, 200]


@pytest.mark.prove
def test_a_rolling_restart_repeats_no_call(plant: Plant) -> None:
    slug = plant.courier(latency=0.5, per_second=5)
    old = plant.hire(processes=2).ready()
    new = plant.hire(processes=2)
    for number in range(20):
        plant.producer.put(slug, f"AB0000{number:02d}")
    new.ready()
    for number in range(20, 40):
        plant.producer.put(slug, f"AB0000{number:02d}")
    assert old.stop() == 0
    assert plant.endings.missing(), "the restart comes in the middle"
    plant.endings.come(20.0)

    assert len(plant.calls(slug)) == 40
    plant.held_to_limits()


def test_a_stopping_worker_loses_no_call_that_it_was_just_granted(plant: Plant) -> None:
    """What Redis grants to a worker that does not listen any more is held until its lease ends."""
    redis = plant.own_redis()
    slugs = [plant.courier(f"courier-{n}", per_second=20, latency=0.02) for n in range(20)]
    for slug in slugs:
        plant.redis.rpush(f"wait_list:{slug}", *(f"AB{number:06d}" for number in range(200)))
        plant.producer.put_drain(slug)
    worker = plant.hire().ready()
    until(lambda: len(worker.events("request answered")) > 400, 15.0, "all lists are drained")
    # Redis is slow to answer what the worker asks just before its end.
    redis.pause()
    time.sleep(0.3)
    worker.terminate()
    time.sleep(1.5)
    redis.resume()
    assert worker.process.wait(STOP_SECONDS) == 0

    held = plant.endings.held()
    assert not [each for each in held if each.startswith(("slots", "wait_inflight"))]
    assert plant.producer.jobs("wait_list")["ready"] == 20


def test_a_second_signal_stops_at_once(plant: Plant) -> None:
    plant.settings |= {"limits.call_timeout_seconds": 5.0, "limits.lease_seconds": 10.0}
    plant.settings["worker.grace_seconds"] = 30.0
    slug = plant.courier(latency=4.5)
    stopping = plant.hire().ready()
    plant.producer.put(slug, "AB000001")
    until(lambda: plant.calls(slug), 5.0, "the call arrives")
    stopping.terminate()
    until(lambda: len(stopping.events("worker stops")) == 2, 5.0, "parent and child stop")
    assert stopping.process.poll() is None
    stopping.terminate()
    stopping.process.wait(STOP_SECONDS)

    assert [call.status for call in plant.calls(slug)] == [None], "it was not waited for"
    plant.site.behave(slug, latency=0.1)
    plant.hire().ready()
    plant.endings.come(30.0)
    assert len(plant.calls(slug)) == 2


def test_a_worker_that_still_looks_for_its_servers_stops_too(plant: Plant) -> None:
    plant.own_redis().stop()
    worker = plant.hire()
    until(lambda: worker.misses("redis"), 15.0, "it says what is missing")

    assert worker.stop() == 0


def test_a_line_claimed_while_a_worker_stops_is_left_with_one_drain_job(plant: Plant) -> None:
    """The claim is answered after this worker handed all its other lines over."""
    redis = plant.own_redis()
    slug = plant.courier(concurrent=2, per_second=20, latency=0.1)
    plant.redis.rpush(f"wait_list:{slug}", *(f"AB{number:06d}" for number in range(50)))
    worker = plant.hire().ready()
    redis.pause()
    plant.producer.put_drain(slug)
    until(lambda: plant.producer.jobs("wait_list")["reserved"] == 1, 5.0, "the worker claims it")
    worker.terminate()
    time.sleep(0.5)
    redis.resume()
    assert worker.process.wait(STOP_SECONDS) == 0

    assert plant.calls(slug), "the claim was granted calls"
    assert plant.producer.jobs("wait_list")["ready"] == 1


@pytest.mark.prove
def test_while_workers_are_restarted_a_new_couriers_requests_are_left_to_the_newer_ones(
    plant: Plant,
) -> None:
    plant.hire().ready()
    slug = plant.courier(per_second=20)
    plant.hire().ready()
    for number in range(30):
        plant.producer.put(slug, f"AB0000{number:02d}")
    plant.endings.come(20.0)

    assert len(plant.calls(slug)) == 30
    assert plant.dead.count_documents({}) == 0
