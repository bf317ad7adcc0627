"""What couriers do wrong, and what then becomes of the request, its slot and its courier."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest
from plant import Plant
from running_worker import until

from devstack.judge import SECOND_NS
from devstack.site.ledger import FOLLOWED

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


def test_a_fault_that_passes_costs_an_attempt_and_holds_up_nobody(plant: Plant) -> None:
    slugs = {fault: plant.courier(concurrent=1, fault=fault, first=1) for fault in PASSING}
    worker = plant.hire().ready()
    for number, slug in itertools.product((1, 2), slugs.values()):
        plant.producer.put(slug, f"AB00000{number}", id=f"{slug}-{number}")
    plant.endings.come(30.0)

    for fault, slug in slugs.items():
        assert plant.endings.state(f"{slug}-1") == "SUCCESS"
        first, *others = plant.calls(slug)
        assert outcomes(plant, slug, first.number) == [PASSING[fault], "answered"], fault
        document = plant.document(slug, first.number)
        assert document
        assert document["error"] is None
        assert document["checkpoints"]
        assert len(others) == 2
    assert not plant.site.entries(FOLLOWED), "a redirect was followed"
    assert memory_kib(worker.children[0]) < MEMORY_MOST
    plant.held_to_limits()


def test_a_number_that_fails_where_others_are_answered_ends_in_dead(plant: Plant) -> None:
    plant.settings["retry.attempts"] = 2
    slugs = {
        PASSING[fault]: plant.courier(fault=fault, numbers=("AB000001",))
        for fault in ("status", "garbage")
    }
    plant.hire().ready()
    for slug in slugs.values():
        plant.producer.put(slug, "ab 0000-01", id=f"{slug}-1")
    others = itertools.count(2)

    def all_dead() -> bool:
        number = next(others)
        for slug in slugs.values():
            plant.producer.put(slug, f"AB{number:06}")
        return plant.dead.count_documents({}) == len(slugs)

    until(all_dead, 15.0, "both are dead", step=0.6)
    del plant.producer.acknowledged[: len(slugs)]
    plant.endings.come(10.0)

    for reason, slug in slugs.items():
        record = plant.dead.find_one({"slug": slug}) or {}
        assert (record["number"], record["reason"]) == ("AB000001", reason)
        assert record["operations"] == [f"{slug}-1"]
        assert '"ab 0000-01"' in record["body"], "it can be put again as it was given"
        assert plant.endings.state(f"{slug}-1") == "ERROR"
        document = plant.document(slug, "AB000001")
        assert document
        assert document["error"]["code"] == reason
        # The first failure is charged to nobody: nobody else was answered since.
        assert set(outcomes(plant, slug, "AB000001")) == {reason}
        assert sum(call.number == "AB000001" for call in plant.calls(slug)) >= 3
    assert plant.producer.jobs()["buried"] == 0


@pytest.mark.guest
def test_429_pauses_the_courier_for_every_process_and_charges_no_attempt(plant: Plant) -> None:
    slug = plant.courier(fault="status", status=429, retry_after="3", first=1)
    plant.hire(processes=2).ready()
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
    assert not plant.dead.count_documents({"slug": slug})
    plant.held_to_limits()


@pytest.mark.guest
def test_other_couriers_go_on_while_one_is_paused(plant: Plant) -> None:
    paused = plant.courier(fault="status", status=429, retry_after="60")
    slug = plant.courier()
    plant.hire().ready()
    plant.producer.put(paused, "AB000001")
    plant.producer.acknowledged.clear()
    until(lambda: plant.calls(paused), 10.0, "the courier is asked")
    for number in range(4):
        plant.producer.put(slug, f"AB00000{number}")
    until(lambda: plant.tracking.count_documents({"slug": slug}) == 4, 30.0, "others are answered")

    assert len(plant.calls(paused)) == 1


@pytest.mark.guest
def test_refused_credentials_stop_the_courier_and_charge_no_attempt(plant: Plant) -> None:
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
    assert not plant.dead.count_documents({"slug": slug})
    assert plant.redis.hlen(f"wait_requests:{slug}") == 4


@pytest.mark.guest
def test_an_unknown_number_is_stored_as_pending_and_asked_for_again_later(plant: Plant) -> None:
    slug = plant.courier()
    plant.hire().ready()
    plant.producer.put(slug, "UNKNOWN1", id=f"{slug}-order-1")
    plant.endings.come(15.0)

    document = plant.document(slug, "UNKNOWN1")
    assert document
    assert (document["tag"], document["active"], document["checkpoints"]) == ("Pending", True, [])
    assert document["next_check_at"] > document["last_checked_at"]
    assert plant.endings.state(f"{slug}-order-1") == "SUCCESS"


@pytest.mark.guest
def test_an_empty_answer_never_erases_checkpoints(plant: Plant) -> None:
    slug = plant.courier()
    plant.hire().ready()
    plant.producer.put(slug, "AB000001")
    plant.endings.come(15.0)
    plant.site.behave(slug, fault="unknown")
    plant.producer.put(slug, "AB000001", id=f"{slug}-order-2", max_age=0)
    plant.endings.come(15.0)

    document = plant.document(slug, "AB000001")
    assert document
    assert len(document["checkpoints"]) == 3
    assert outcomes(plant, slug, "AB000001") == ["answered", "not_found"]
