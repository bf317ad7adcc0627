"""Deliveries that people resend, cancel and forget, while a worker delivers them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hooks import Hooks
from plant import Plant
from running_worker import until

NUMBER = "AB000001"


def failing(plant: Plant, **wishes: Any) -> Hooks:
    """A service whose receiver answers 500, and a change of which it is to hear."""
    hooks = Hooks(plant)
    hooks.receiver("erp").behave(fault="status", status=500)
    plant.hire().ready()
    hooks.make("erp", **wishes)
    plant.producer.put(hooks.slug, NUMBER)
    return hooks


def delivery(plant: Plant, *states: str) -> dict[str, Any]:
    """The delivery, once it is in one of these states."""
    found: list[dict[str, Any]] = []

    def there() -> bool:
        found[:] = plant.collection("deliveries").find({"state": {"$in": states}})
        return bool(found)

    until(there, 20.0, f"a delivery is {' or '.join(states)}")
    [each] = found
    return each


def verb(plant: Plant, *words: str) -> str:
    done = plant.command(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.prove
def test_one_that_is_dead_arrives_after_a_resend_with_the_same_id(plant: Plant) -> None:
    hooks = failing(plant, attempts=1)
    dead = delivery(plant, "dead")
    hooks.receiver("erp").behave()

    verb(plant, "delivery", "resend", dead["_id"])

    arrived = delivery(plant, "delivered")
    assert (arrived["_id"], arrived["round"], arrived["made"]) == (dead["_id"], 2, 2)
    first, second = hooks.receiver("erp").received()
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == dead["_id"]
    assert first.body == second.body
    hooks.judge_attempts("erp")
    [told] = map(json.loads, verb(plant, "delivery", "show", dead["_id"], "--json").splitlines())
    assert [each["status"] for each in told["attempts"]] == [500, 200]
    assert told["body"].encode() == first.body


@pytest.mark.prove
def test_one_that_is_open_is_tried_at_once_by_a_resend_and_never_again_after_a_cancel(
    plant: Plant,
) -> None:
    hooks = failing(plant)
    until(lambda: len(hooks.arrived("erp")) == 2, 20.0, "the second attempt, after 5 s")
    waits = delivery(plant, "open")

    verb(plant, "delivery", "resend", waits["_id"])
    until(lambda: len(hooks.arrived("erp")) == 3, 10.0, "the third one, minutes before its time")
    verb(plant, "delivery", "cancel", waits["_id"])

    time.sleep(6.0)
    assert len(hooks.arrived("erp")) == 3
    assert delivery(plant, "cancelled")["made"] == 3


@pytest.mark.prove
def test_what_is_held_while_a_service_is_disabled_arrives_once_it_is_resumed(plant: Plant) -> None:
    hooks = Hooks(plant)
    hooks.receiver("erp").behave(fault="status", status=410)
    plant.hire().ready()
    hooks.make("erp")
    plant.producer.put(hooks.slug, NUMBER)
    held = delivery(plant, "held")
    hooks.receiver("erp").behave()

    verb(plant, "service", "resume", "erp")

    assert delivery(plant, "delivered")["_id"] == held["_id"]
    assert hooks.arrived("erp") == [NUMBER] * 2


def test_a_parcel_that_is_forgotten_while_an_attempt_runs_leaves_nothing(plant: Plant) -> None:
    hooks = Hooks(plant)
    hooks.receiver("erp").behave(latency=1.0)
    plant.hire().ready()
    hooks.make("erp")
    plant.producer.put(hooks.slug, NUMBER)
    delivery(plant, "open")
    until(lambda: plant.redis.keys("wait_inflight:~*"), 10.0, "an attempt runs")

    verb(plant, "forget", hooks.slug, NUMBER, "--yes")

    assert hooks.arrived("erp") == [NUMBER]
    time.sleep(1.0)
    kinds = ("deliveries", "events", "attempts", "tracking")
    assert [plant.collection(each).count_documents({}) for each in kinds] == [0] * len(kinds)
    assert not plant.redis.keys("wait_*:~*")
