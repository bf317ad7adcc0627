"""What couriers do wrong, and what then becomes of the request, its slot and its courier."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import pytest
from plant import Plant
from portion import daily
from running_worker import until

from devstack.judge import SECOND_NS

PASSING = {
    "status": "courier_down",
    "hang": "courier_down",
    "drip": "courier_down",
    "reset": "courier_down",
    "cut": "courier_down",
    "redirect": "request_refused",
    "huge": "unreadable_answer",
    "gzip_bomb": "unreadable_answer",
    "garbage": "unreadable_answer",
    "truncated": "unreadable_answer",
}
"""Fault of the site, and as what the attempt is recorded."""

MEMORY_MOST = 400 * 1024
"""KiB: more than a worker needs, and far less than what pours out of the courier."""


def memory_kib(pid: int) -> int:
    """The most memory that a process ever had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


def outcomes(plant: Plant, slug: str, number: str) -> list[str]:
    document = plant.document(slug, number)
    return [attempt["outcome"] for attempt in document["attempts"]] if document else []


@pytest.mark.parametrize("fault", daily({"drip", "garbage", "hang"}, *PASSING))
def test_a_fault_that_passes_costs_an_attempt_and_holds_up_nobody(plant: Plant, fault: str) -> None:
    site = plant.own_site()
    slug = plant.courier(concurrent=1, fault=fault, first=1)
    worker = plant.hire().ready()
    plant.producer.put(slug, "AB000001", id="order-1")
    plant.producer.put(slug, "AB000002", id="order-2")
    plant.endings.come(20.0)

    assert plant.endings.state("order-1") == "SUCCESS"
    first, *others = sorted(plant.calls(slug), key=lambda call: call.arrived_ns)
    assert outcomes(plant, slug, first.number) == [PASSING[fault], "answered"]
    document = plant.document(slug, first.number)
    assert document
    assert document["error"] is None
    assert document["checkpoints"]
    assert len(others) == 2
    assert {entry["slug"] for entry in site.entries()} == {slug}, "a redirect was followed"
    assert memory_kib(worker.children[0]) < MEMORY_MOST
    plant.held_to_limits()


@pytest.mark.parametrize(
    ("fault", "reason"), [("status", "courier_down"), ("garbage", "unreadable_answer")]
)
def test_a_number_that_fails_where_others_are_answered_ends_in_dead(
    plant: Plant, fault: str, reason: str
) -> None:
    plant.settings["retry.attempts"] = 2
    slug = plant.courier(fault=fault, numbers=("AB000001",))
    plant.hire().ready()
    plant.producer.put(slug, "ab 0000-01", id="order-1")
    others = itertools.count(2)

    def dead() -> Any:
        plant.producer.put(slug, f"AB{next(others):06}")
        return plant.dead.find_one({})

    record = until(dead, 15.0, "it is dead", step=0.6)
    plant.producer.acknowledged.pop(0)
    plant.endings.come(10.0)

    assert (record["slug"], record["number"], record["reason"]) == (slug, "AB000001", reason)
    assert record["operations"] == ["order-1"]
    assert '"ab 0000-01"' in record["body"], "it can be put again as it was given"
    assert plant.endings.state("order-1") == "ERROR"
    document = plant.document(slug, "AB000001")
    assert document
    assert document["error"]["code"] == reason
    # The first failure is charged to nobody: nobody else was answered since.
    assert set(outcomes(plant, slug, "AB000001")) == {reason}
    assert sum(call.number == "AB000001" for call in plant.calls(slug)) >= 3
    assert plant.producer.jobs()["buried"] == 0


def test_429_pauses_the_courier_for_every_worker_and_charges_no_attempt(plant: Plant) -> None:
    plant.settings["retry.attempts"] = 1
    slug = plant.courier(per_second=2, fault="status", status=429, retry_after="3", first=1)
    workers = [plant.hire(), plant.hire()]
    for worker in workers:
        worker.ready()
    for number in range(8):
        plant.producer.put(slug, f"AB00000{number}")
    plant.endings.come(30.0)

    calls = plant.calls(slug)
    refused = next(call for call in calls if call.status == 429)
    assert refused.ended_ns
    after = [(call.arrived_ns - refused.ended_ns) / SECOND_NS for call in calls]
    # Calls may be on their way until Redis knows of the answer; from then on it is quiet for 3 s.
    assert not [seconds for seconds in after if 1.0 < seconds < 2.9]
    assert len(calls) == 9
    assert not plant.dead.count_documents({})
    plant.held_to_limits()


def test_other_couriers_go_on_while_one_is_paused(plant: Plant) -> None:
    paused = plant.courier("paused", fault="status", status=429, retry_after="60")
    slug = plant.courier()
    plant.hire().ready()
    plant.producer.put(paused, "AB000001")
    plant.producer.acknowledged.clear()
    until(lambda: plant.calls(paused), 10.0, "the courier is asked")
    for number in range(4):
        plant.producer.put(slug, f"AB00000{number}")
    until(lambda: plant.tracking.count_documents({"slug": slug}) == 4, 30.0, "others are answered")

    assert len(plant.calls(paused)) == 1


def test_refused_credentials_stop_the_courier_and_charge_no_attempt(plant: Plant) -> None:
    plant.settings["retry.attempts"] = 1
    slug = plant.courier(fault="status", status=401)
    worker = plant.hire().ready()
    numbers = ["AB000001", "AB000002", "AB000003"]
    for number in numbers:
        plant.producer.put(slug, number)
    until(lambda: worker.events("credentials were refused", slug=slug), 10.0, "the log says so")
    until(lambda: plant.redis.exists(f"calls_paused:{slug}"), 10.0, "the courier is paused")
    # A call that was granted before the pause is still made.
    until(lambda: plant.redis.hlen(f"wait_requests:{slug}") == 3, 10.0, "no call is under way")
    asked = len(plant.calls(slug))
    plant.producer.put(slug, "AB000004")
    time.sleep(1.5)

    assert len(plant.calls(slug)) == asked
    assert {call.number for call in plant.calls(slug)} == set(numbers)
    assert not plant.dead.count_documents({})
    assert plant.redis.hlen(f"wait_requests:{slug}") == 4


def test_an_unknown_number_is_stored_as_pending_and_asked_for_again_later(plant: Plant) -> None:
    slug = plant.courier()
    plant.hire().ready()
    plant.producer.put(slug, "UNKNOWN1", id="order-1")
    plant.endings.come(15.0)

    document = plant.document(slug, "UNKNOWN1")
    assert document
    assert (document["tag"], document["active"], document["checkpoints"]) == ("Pending", True, [])
    assert document["next_check_at"] > document["last_checked_at"]
    assert plant.endings.state("order-1") == "SUCCESS"


def test_an_empty_answer_never_erases_checkpoints(plant: Plant) -> None:
    slug = plant.courier()
    plant.hire().ready()
    plant.producer.put(slug, "AB000001")
    plant.endings.come(15.0)
    plant.site.behave(slug, fault="unknown")
    plant.producer.put(slug, "AB000001", id="order-2", max_age=0)
    plant.endings.come(15.0)

    document = plant.document(slug, "AB000001")
    assert document
    assert len(document["checkpoints"]) == 3
    assert outcomes(plant, slug, "AB000001") == ["answered", "not_found"]
