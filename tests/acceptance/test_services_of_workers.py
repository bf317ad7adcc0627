"""Services are made, changed and deleted while workers run, which deliver to them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hooks import WHO, Hooks, numbers_of
from plant import Plant
from running_worker import until

from tracking.request import MAIN


@pytest.mark.prove
def test_services_that_are_made_while_workers_run_hear_of_the_next_change_and_of_a_test(
    plant: Plant,
) -> None:
    hooks = Hooks(plant)
    plant.hire(processes=2).ready()

    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(hooks.make, ["a", "b", "c", "d"]))
    for each in made:
        hooks.wait_until_heard(each.hears_from and each.hears_from.isoformat())
    plant.producer.put(hooks.slug, "AB000001")

    assert all(not each.late or each.hears_from for each in made)
    for each in made:
        name = each.service.name
        until(lambda name=name: hooks.arrived(name), 10.0, f"{name} hears")  # type: ignore[misc]
        assert hooks.arrived(name) == ["AB000001"]
    with hooks.services() as services:
        test = services.test(WHO, MAIN, "a")
    until(lambda: len(hooks.receiver("a").received()) == 2, 10.0, "the test arrives")
    received = hooks.receiver("a").received()[-1]
    assert received.headers["webhook-id"] == test.id
    assert received.json["data"] == {"test": True}


@pytest.mark.prove
def test_nothing_starts_once_a_service_is_paused_and_all_of_it_when_it_goes_on(
    plant: Plant,
) -> None:
    hooks = Hooks(plant)
    hooks.receiver("erp").behave(latency=0.2)
    plant.hire(processes=2).ready()
    hooks.make("erp", concurrent=2)
    numbers = numbers_of(40)
    plant.producer.put_all(hooks.slug, numbers)
    until(lambda: len(hooks.arrived("erp")) > 3, 15.0, "some arrive")

    with hooks.services() as services:
        services.change(WHO, MAIN, "erp", {"state": "paused"})
    time.sleep(0.3)  # what had left before
    before = len(hooks.arrived("erp"))
    time.sleep(2.0)
    after = len(hooks.arrived("erp"))
    with hooks.services() as services:
        services.change(WHO, MAIN, "erp", {"state": "active", "concurrent": 20})

    assert before == after < len(numbers)
    until(lambda: len(hooks.arrived("erp")) >= len(numbers), 30.0, "all arrive")
    assert sorted(hooks.arrived("erp")) == numbers


def test_a_deleted_service_hears_nothing_more_and_leaves_nothing_in_redis(plant: Plant) -> None:
    hooks = Hooks(plant)
    hooks.receiver("erp").behave(latency=0.5)
    plant.hire(processes=2).ready()
    made = hooks.make("erp", concurrent=1)
    hooks.make("crm")
    numbers = numbers_of(60)
    plant.producer.put_all(hooks.slug, numbers)
    until(lambda: plant.redis.hlen(f"wait_requests:{made.service.line}") > 20, 15.0, "some wait")

    with hooks.services() as services:
        services.delete(WHO, MAIN, "erp")
    time.sleep(0.6)
    before = len(hooks.arrived("erp"))

    until(lambda: not hooks.keys(made), 30.0, "nothing is left in Redis")
    until(lambda: len(hooks.arrived("crm")) == len(numbers), 20.0, "the other one hears of all")
    assert len(hooks.arrived("erp")) == before
    # A process that had not heard yet may have added some: they are looked for.
    open_or_held = {"service": made.service.id, "state": {"$in": ["open", "held"]}}
    deliveries = plant.collection("deliveries")
    until(lambda: deliveries.find_one(open_or_held) is None, 45.0, "none is left")


@pytest.mark.prove
def test_a_lower_rate_holds_for_deliveries_at_once(plant: Plant) -> None:
    hooks = Hooks(plant)
    plant.hire(processes=2).ready()
    hooks.make("erp", per_second=2)
    plant.producer.put_all(hooks.slug, numbers_of(8))

    until(lambda: len(hooks.arrived("erp")) == 8, 20.0, "all arrive")
    calls = sorted(each.call.arrived_ns for each in hooks.receiver("erp").received())
    gaps = [later - sooner for sooner, later in zip(calls, calls[2:], strict=False)]
    assert min(gaps) >= 1_000_000_000
