"""What the original system did wrong, end to end; the flaws are numbered as in its review.

F4 to F7, F10, F11, F14 and F15 live inside Redis: tests/limits shows them gone. F8 and F12 are in
test_killed_workers.py.
"""

from __future__ import annotations

import json
import time

import pytest
from plant import Plant
from running_worker import until

from devstack.judge import SECOND_NS


@pytest.mark.guest
def test_a_job_is_let_go_only_after_its_result_is_stored(plant: Plant) -> None:
    """F1: the job was deleted as soon as the call had begun."""
    slug = plant.courier(latency=1.0)
    plant.hire().ready()
    plant.producer.put(slug, "AB000001")
    until(lambda: plant.calls(slug), 5.0, "the call arrives")
    assert plant.producer.jobs()["reserved"] == 1

    until(lambda: sum(plant.producer.jobs().values()) == 0, 5.0, "the job is gone")
    assert plant.document(slug, "AB000001")


def test_what_waits_and_what_was_taken_survives_the_worker(plant: Plant) -> None:
    """F2, F3: parked and taken requests were held by nothing but the process."""
    slug = plant.courier(latency=1.0)
    doomed = plant.hire().ready()
    for number in range(12):
        plant.producer.put(slug, f"AB0000{number:02d}", id=f"order-{number}")
    until(lambda: len(plant.calls(slug)) >= 4, 10.0, "calls were taken from the list")
    until(lambda: sum(plant.producer.jobs().values()) <= 2, 5.0, "the others wait in Redis")
    doomed.vanish()

    plant.hire().ready()
    plant.endings.come(25.0)
    plant.held_to_limits()
    assert all(plant.endings.state(f"order-{number}") == "SUCCESS" for number in range(12))


@pytest.mark.prove
@pytest.mark.guest
def test_what_drains_and_what_comes_directly_share_one_rate(plant: Plant) -> None:
    """F5: the drain neither read nor counted the starts of the last second."""
    slug = plant.courier(latency=0.1)
    plant.hire().ready()
    for number in range(12):
        plant.producer.put(slug, f"AB0000{number:02d}")
        if number >= 6:
            time.sleep(0.3)
    plant.endings.come(20.0)

    assert len(plant.calls(slug)) == 12
    plant.held_to_limits()


@pytest.mark.guest
def test_ten_drainers_are_harmless(plant: Plant) -> None:
    """F9: limits held only as long as one process drained."""
    slug = plant.courier(latency=0.1)
    plant.hire().ready()
    for number in range(12):
        plant.producer.put(slug, f"AB0000{number:02d}")
        plant.producer.put_drain(slug)
    plant.endings.come(20.0)

    assert len(plant.calls(slug)) == 12
    plant.held_to_limits()


@pytest.mark.guest
def test_poison_takes_no_slot(plant: Plant) -> None:
    """F13: an unknown slug was counted as a call that never ended."""
    slug = plant.courier(concurrent=1, per_second=20)
    plant.hire().ready()
    for number in range(5):
        unknown = {"slug": f"no-{slug}", "number": f"AB00000{number}"}
        plant.producer.put_body(json.dumps({"type": "requests_flow", "payload": unknown}).encode())
        plant.producer.put(slug, f"AB00000{number}")
    plant.endings.come(15.0)

    assert not list(plant.redis.scan_iter(f"*no-{slug}*"))
    poison = {"slug": f"no-{slug}", "reason": "unknown_slug"}
    until(lambda: plant.dead.count_documents(poison) == 5, 5.0, "all of them are recorded")


@pytest.mark.guest
def test_a_call_that_takes_longer_than_the_jobs_ttr_is_not_repeated(plant: Plant) -> None:
    """F16: another process got the job when its time to run was over, and asked as well."""
    # Beanstalkd looks at what has run out when it comes by: some of these are noticed late.
    slug = plant.courier(per_second=20, latency=8.0)
    plant.hire().ready()
    for number, ttr in enumerate((1, 2, 3, 3)):
        plant.producer.put_placed(slug, f"AB00000{number}", ttr=ttr)
    plant.endings.come(25.0)

    assert len(plant.calls(slug)) == 4


@pytest.mark.guest
def test_a_request_that_waits_keeps_everything_it_came_with(plant: Plant) -> None:
    """F17: only the number was parked, so id, inputs and attempts were lost."""
    slug = plant.courier(fault="status", numbers=["AB000009"])
    plant.hire().ready()
    for number in range(4):
        plant.producer.put(slug, f"AB00000{number}")
    plant.producer.put(slug, "AB000009", id=f"{slug}-order-9", tracking_postal_code="8000")
    # Two processes reserve: one may come first with those behind it, and only who is answered
    # after its failure shows that the courier is well.
    until(lambda: plant.redis.hexists(f"wait_requests:{slug}", "AB000009"), 10.0, "it waits")
    for number in range(4, 8):
        plant.producer.put(slug, f"AB00000{number}")
    plant.endings.come(20.0)

    record = plant.dead.find_one({"operations": f"{slug}-order-9"})
    assert record
    assert json.loads(record["body"])["payload"]["tracking_postal_code"] == "8000"
    assert sum(call.number == "AB000009" for call in plant.calls(slug)) == 2


@pytest.mark.guest
def test_the_result_of_a_parcel_on_its_way_is_stored_with_its_next_check(plant: Plant) -> None:
    """F18: it was dropped, and a job with a delay of three hours was all that was left."""
    slug = plant.courier()
    plant.hire().ready()
    plant.producer.put(slug, "AB000001")
    plant.producer.put(slug, "AB000002")
    plant.endings.come(15.0)

    moving, delivered = plant.document(slug, "AB000001"), plant.document(slug, "AB000002")
    assert moving
    assert (moving["tag"], moving["active"], len(moving["checkpoints"])) == ("InTransit", True, 3)
    assert moving["next_check_at"] > moving["last_checked_at"]
    assert delivered
    assert (delivered["tag"], delivered["active"]) == ("Delivered", False)
    assert delivered["next_check_at"] is None
    assert plant.producer.jobs()["delayed"] == 0


@pytest.mark.prove
@pytest.mark.guest
def test_a_number_asked_for_again_is_one_document(plant: Plant) -> None:
    """F19: every answer was inserted as a document of its own."""
    slug = plant.courier()
    plant.hire().ready()
    for turn in range(3):
        plant.producer.put(slug, "AB000001", id=f"{slug}-{turn}", max_age=0)
        plant.endings.come(15.0)

    document = plant.document(slug, "AB000001")
    assert document
    assert plant.tracking.count_documents({"slug": slug}) == 1
    assert document["tracked_count"] == 3
    assert len(plant.calls(slug)) == 3


@pytest.mark.prove
def test_credentials_are_nowhere_but_at_the_courier(plant: Plant) -> None:
    """F20: they stood in the source, and in the address of each call."""
    client_id, client_secret = "client-of-the-shop", "s3cr3t-of-the-shop"
    site = plant.own_site()
    plant.settings |= {
        "couriers.usps.base_url": f"{site.url}/usps",
        "couriers.usps.token_url": f"{site.url}/usps/oauth2/v3/token",
        "couriers.usps.client_id": client_id,
        "couriers.usps.client_secret": client_secret,
        "retry.attempts": 1,  # once another number was answered since the first try
        "log.level": "debug",
    }
    worker = plant.hire().ready()
    plant.producer.put("usps", "9405903699300184125060")
    until(lambda: plant.tracking.count_documents({}) == 1, 10.0, "it is answered")
    site.behave("usps", fault="garbage", numbers=["9405903699300184125077"])
    plant.producer.put("usps", "9405903699300184125077", id="order-2")

    def is_dead() -> bool:
        plant.producer.put("usps", "9405903699300184125060", max_age=0)
        return plant.dead.count_documents({}) == 1

    until(is_dead, 15.0, "it is dead")
    plant.endings.come(10.0)

    told = json.dumps(worker.lines)
    told += "".join(map(str, [*plant.tracking.find({}), *plant.dead.find({})]))
    for key in plant.redis.scan_iter("*"):
        told += str(plant.redis.dump(key)) if plant.redis.type(key) != "string" else ""
    assert client_secret not in told
    assert client_id not in told
    assert client_secret not in plant.command("config", "show").stdout


@pytest.mark.prove
def test_a_call_has_the_seconds_that_are_set(plant: Plant) -> None:
    """F20: a time-out of 30 was meant in seconds and taken for milliseconds."""
    slug = plant.courier(latency=1.2)
    plant.hire().ready()
    plant.producer.put(slug, "AB000001")
    plant.endings.come(10.0)
    plant.site.behave(slug, fault="hang", first=1)
    plant.producer.put(slug, "AB000002")
    plant.endings.come(15.0)

    first, cut_off, again = plant.calls(slug)
    assert first.status == again.status == 200
    assert cut_off.ended_ns
    seconds = (cut_off.ended_ns - cut_off.arrived_ns) / SECOND_NS
    assert 1.2 < seconds < 10.0, "the call timeout is 2.5 s"
